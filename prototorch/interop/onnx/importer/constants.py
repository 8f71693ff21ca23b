"""Nodes whose inputs are known: computed here, in NumPy, with a limit on what they may allocate.

Exporters compute shapes by chains of such nodes (Shape, Gather, Concat, ...). `BatchSize` stands among their integers,
in arrays of dtype object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import BatchSize, KnownArray, positive_axis
from prototorch.interop.onnx.importer.registry import NoLayerError
from prototorch.interop.onnx.importer.rows import row_evaluator
from prototorch.interop.onnx.op_pairs import pairs_by_op, reductions_by_our_op
from prototorch.interop.onnx.tensors import ELEMENT_TYPES

__all__ = ["evaluate_constants", "integer_array", "is_evaluated", "onnx_slice"]

MAX_CONSTANT_ELEMENTS = 1 << 26  # 256 MB of float32
MAX_REPEATED_ELEMENTS = 1 << 28  # of one number repeated, which is a view
Arrays = Sequence[np.ndarray]
_EVALUATORS: dict[str, Callable[[OnnxNode, Any], Any]] = {}


def evaluate_constants(node: OnnxNode) -> list[KnownArray] | None:
    """The outputs of a node all of whose inputs are known; None for an op that is not computed here."""
    function = _EVALUATORS.get(node.op) or _row_function(node.op)
    if function is None:
        return None
    arrays = [None if a is None else a.array for a in node.args]  # type: ignore[union-attr]
    try:
        with np.errstate(all="ignore"):
            result = function(node, arrays)
    except NoLayerError:
        raise
    except (
        ValueError,
        TypeError,
        IndexError,
        ZeroDivisionError,
        OverflowError,
        AttributeError,
        np.exceptions.AxisError,
    ) as error:
        raise NoLayerError(f"its constants do not fit together: {error!s:.200}") from None
    outputs = result if isinstance(result, list) else [result]
    name = node.args[0].name if node.op in ("Identity", "Cast", "Transpose", "Reshape") and node.args[0] else ""  # type: ignore[union-attr]
    return [KnownArray(np.asarray(_simplify(r)), name) for r in outputs]


def is_evaluated(op: str) -> bool:
    """Whether an op is computed on constants."""
    return op in _EVALUATORS or row_evaluator(op) is not None


def integer_array(values: Sequence[Any]) -> np.ndarray:
    """Integers, with `BatchSize` among them or not, as an array."""
    if not any(isinstance(v, BatchSize) for v in values):
        return np.asarray(values, np.int64)
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def onnx_slice(start: int, stop: int, step: int, size: int) -> slice:
    """ONNX' bounds, which are clipped to the dimension, as Python's."""
    if step == 0:
        raise NoLayerError("a slice with steps of 0")
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start = min(max(start + size if start < 0 else start, max(low, 0)), high)
    stop = min(max(stop + size if stop < 0 else stop, low), high if step > 0 else size)
    return slice(start, None if stop < 0 else stop, step)


def _simplify(array: Any) -> np.ndarray:
    """Without `BatchSize` among them, the elements of an array of objects are int64."""
    array = np.asarray(array)
    if array.dtype == object and not any(isinstance(v, BatchSize) for v in array.reshape(-1).tolist()):
        return array.astype(np.int64)
    return array


def _bounded(shape: Sequence[Any], limit: int = MAX_CONSTANT_ELEMENTS) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in shape)
    if prod(sizes) > limit or any(n < 0 for n in sizes) or len(sizes) > 32:
        raise NoLayerError(
            f"a constant of shape {list(sizes)[:8]} is not computed: more than {limit:,} elements, or no shape"
        )
    return sizes


def _evaluates(*ops: str) -> Callable[[Callable[[OnnxNode, Any], Any]], Callable[[OnnxNode, Any], Any]]:
    def register(function: Callable[[OnnxNode, Any], Any]) -> Callable[[OnnxNode, Any], Any]:
        _EVALUATORS.update(dict.fromkeys(ops, function))
        return function

    return register


# ---------------------------------------------------------------- elementwise


def _divide(a: Any, b: Any) -> Any:
    if a.dtype == object or b.dtype == object:
        return a // b
    if a.dtype.kind in "iu":
        return (np.trunc(a.astype(np.float64) / b)).astype(a.dtype) if (a < 0).any() or (b < 0).any() else a // b
    return a / b


def _row_function(op: str) -> Callable[[OnnxNode, Any], Any] | None:
    """Of an op that is one layer."""
    evaluate = row_evaluator(op)
    if evaluate is None:
        return None

    def function(node: OnnxNode, arrays: Any) -> Any:
        _bounded(np.broadcast_shapes(*(a.shape for a in arrays)))
        return evaluate(*arrays)

    return function


@_evaluates("Div")
def _quotient(node: OnnxNode, arrays: Any) -> Any:
    a, b = arrays
    _bounded(np.broadcast_shapes(a.shape, b.shape))
    return _divide(a, b)


@_evaluates("Pow")
def _power(node: OnnxNode, arrays: Any) -> Any:
    a, b = arrays
    _bounded(np.broadcast_shapes(a.shape, b.shape))
    return np.power(a, b).astype(a.dtype)


@_evaluates("Floor", "Ceil")
def _floor_or_ceil(node: OnnxNode, arrays: Any) -> Any:
    """Sizes are whole."""
    (x,) = arrays
    return x if x.dtype == object else np.floor(x) if node.op == "Floor" else np.ceil(x)


@_evaluates("Identity")
def _identity(node: OnnxNode, arrays: Any) -> Any:
    return arrays[0]


@_evaluates("IsNaN")
def _is_nan(node: OnnxNode, arrays: Any) -> Any:
    return np.isnan(arrays[0])


@_evaluates("Mod")
def _mod(node: OnnxNode, arrays: Any) -> Any:
    return np.fmod(*arrays) if node.flag("fmod", 0) else arrays[0] % arrays[1]


@_evaluates("Clip")
def _clip(node: OnnxNode, arrays: Any) -> Any:
    low, high = (
        arrays[i] if len(arrays) > i and arrays[i] is not None else node.get(n) for i, n in ((1, "min"), (2, "max"))
    )
    return np.clip(arrays[0], low, high).astype(arrays[0].dtype)


@_evaluates("Cast")
def _cast(node: OnnxNode, arrays: Any) -> Any:
    dtype = ELEMENT_TYPES.get(node.get("to"))
    if arrays[0].dtype == object:
        if dtype in ("int64", "int32", "float32", "float64"):
            return arrays[0]  # sizes; exporters scale them as floats
        raise NoLayerError("it converts the batch size")
    dtype = "float32" if dtype == "bfloat16" else dtype
    if dtype is None or dtype.startswith("float8"):
        raise NoLayerError(f"it converts a constant to type {dtype or node.get('to')}")
    return arrays[0].astype(dtype)


@_evaluates("CastLike")
def _cast_like(node: OnnxNode, arrays: Any) -> Any:
    return arrays[0] if arrays[0].dtype == object else arrays[0].astype(arrays[1].dtype)


# ---------------------------------------------------------------- made from nothing


@_evaluates("Constant")
def _constant(node: OnnxNode, arrays: Any) -> Any:
    for name, dtype in (
        ("value", None),
        ("value_float", np.float32),
        ("value_int", np.int64),
        ("value_floats", np.float32),
        ("value_ints", np.int64),
    ):
        if name in node.attributes and not (name == "value" and isinstance(node.attributes[name], list)):
            return np.asarray(node.attributes[name], dtype)
    raise NoLayerError("a constant of strings, or a sparse one")


@_evaluates("ConstantOfShape")
def _constant_of_shape(node: OnnxNode, arrays: Any) -> Any:
    value = np.asarray(node.get("value", np.zeros(1, np.float32)))
    shape = _simplify(arrays[0])
    if shape.dtype == object:
        if node.get("value") is None or not value.reshape(-1)[0]:
            raise NoLayerError("zeros of the shape of the batch are no constant")
        raise NoLayerError("an array of the shape of the batch is no constant")
    sizes = _bounded(shape.tolist(), MAX_REPEATED_ELEMENTS)
    return np.broadcast_to(value.reshape(-1)[0], sizes)  # a view, which takes no memory


@_evaluates("Range")
def _range(node: OnnxNode, arrays: Any) -> Any:
    start, stop, step = (a.reshape(()).item() for a in arrays)
    count = max(int(np.ceil((stop - start) / step)), 0)
    _bounded([count])
    return (start + step * np.arange(count)).astype(arrays[0].dtype)


@_evaluates("EyeLike")
def _eye_like(node: OnnxNode, arrays: Any) -> Any:
    dtype = ELEMENT_TYPES[node.get("dtype")] if "dtype" in node.attributes else arrays[0].dtype
    rows, columns = _bounded(arrays[0].shape)
    return np.asarray(np.eye(rows, columns, k=int(node.get("k", 0))), dtype)


# ---------------------------------------------------------------- moved


@_evaluates("Shape")
def _shape(node: OnnxNode, arrays: Any) -> Any:
    return integer_array(list(arrays[0].shape)[slice(node.get("start"), node.get("end"))])


@_evaluates("Size")
def _size(node: OnnxNode, arrays: Any) -> Any:
    return np.asarray(arrays[0].size, np.int64)


@_evaluates("Gather")
def _gather(node: OnnxNode, arrays: Any) -> Any:
    axis = node.get("axis", 0)
    data, indices = arrays
    _bounded((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 if axis != -1 else data.ndim :]))
    return np.take(data, indices.astype(np.int64), axis=axis)


@_evaluates("Concat")
def _concat(node: OnnxNode, arrays: Any) -> Any:
    return np.concatenate(
        [a.astype(object) if any(b.dtype == object for b in arrays) else a for a in arrays], axis=node.get("axis", 0)
    )


@_evaluates("Slice")
def _slice(node: OnnxNode, arrays: Any) -> Any:
    data = arrays[0]
    starts, ends = node.parameter("starts", 1), node.parameter("ends", 2)
    axes, steps = node.parameter("axes", 3) or range(len(starts)), node.parameter("steps", 4) or [1] * len(starts)
    key: list[Any] = [slice(None)] * data.ndim
    for start, stop, axis, step in zip(starts, ends, axes, steps, strict=True):
        key[axis] = onnx_slice(start, stop, step, data.shape[axis])
    return data[tuple(key)]


@_evaluates("Split")
def _split(node: OnnxNode, arrays: Any) -> Any:
    axis, count = node.get("axis", 0), len(node.outputs)
    sizes = node.parameter("split", 1)
    if sizes is None:
        part = -(-arrays[0].shape[axis] // count)
        sizes = [part] * (count - 1)
    else:
        sizes = sizes[:-1]
    return np.split(arrays[0], np.cumsum(sizes), axis=axis)


@_evaluates("Unsqueeze")
def _unsqueeze(node: OnnxNode, arrays: Any) -> Any:
    return np.expand_dims(arrays[0], tuple(node.parameter("axes", 1)))


@_evaluates("Squeeze")
def _squeeze(node: OnnxNode, arrays: Any) -> Any:
    axes = node.parameter("axes", 1)
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


@_evaluates("Reshape")
def _reshape(node: OnnxNode, arrays: Any) -> Any:
    shape = node.parameter("shape", 1)
    zero = node.flag("allowzero", 0)
    return arrays[0].reshape([arrays[0].shape[i] if n == 0 and not zero else n for i, n in enumerate(shape)])


@_evaluates("Flatten")
def _flatten(node: OnnxNode, arrays: Any) -> Any:
    axis, ndim = node.get("axis", 1), arrays[0].ndim
    axis = ndim if axis == ndim else positive_axis(axis, ndim)
    return arrays[0].reshape(prod(arrays[0].shape[:axis]), prod(arrays[0].shape[axis:]))


@_evaluates("Transpose")
def _transpose(node: OnnxNode, arrays: Any) -> Any:
    return np.transpose(arrays[0], node.get("perm"))


@_evaluates("Expand")
def _expand(node: OnnxNode, arrays: Any) -> Any:
    wanted_shape = _bounded(_simplify(arrays[1]).tolist(), MAX_REPEATED_ELEMENTS)
    shape = np.broadcast_shapes(arrays[0].shape, wanted_shape)
    return np.broadcast_to(arrays[0], _bounded(shape, MAX_REPEATED_ELEMENTS))


@_evaluates("Tile")
def _tile(node: OnnxNode, arrays: Any) -> Any:
    repeats = _simplify(arrays[1]).tolist()
    _bounded([n * r for n, r in zip(arrays[0].shape, repeats, strict=True)])
    return np.tile(arrays[0], repeats)


@_evaluates("Pad")
def _pad(node: OnnxNode, arrays: Any) -> Any:
    pads = node.parameter("pads", 1)
    rank = arrays[0].ndim
    if node.get("mode", "constant") != "constant" or len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise NoLayerError("this padding of a constant is not computed")
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    _bounded([n + a + b for n, (a, b) in zip(arrays[0].shape, pairs, strict=True)])
    value = arrays[2].item() if len(arrays) > 2 and arrays[2] is not None else node.get("value", 0)
    return np.pad(arrays[0], pairs, constant_values=value)


@_evaluates("CumSum")
def _cumsum(node: OnnxNode, arrays: Any) -> Any:
    if node.flag("exclusive", 0) or node.flag("reverse", 0):
        raise NoLayerError("this sum of a constant is not computed")
    return np.cumsum(arrays[0], axis=int(arrays[1].item()), dtype=arrays[0].dtype)


@_evaluates("NonZero")
def _nonzero(node: OnnxNode, arrays: Any) -> Any:
    return np.asarray(np.nonzero(arrays[0]), np.int64)


@_evaluates("Trilu")
def _trilu(node: OnnxNode, arrays: Any) -> Any:
    k = int(arrays[1].item()) if len(arrays) > 1 and arrays[1] is not None else 0
    return np.triu(arrays[0], k) if node.flag("upper", 1) else np.tril(arrays[0], k)


@_evaluates("ScatterND")
def _scatter_nd(node: OnnxNode, arrays: Any) -> Any:
    if node.get("reduction", "none") != "none":
        raise NoLayerError("this scatter of constants is not computed")
    data = arrays[0].copy()
    data[tuple(np.moveaxis(arrays[1], -1, 0))] = arrays[2]
    return data


@_evaluates(*(pair.name for pair in reductions_by_our_op().values()))
def _reduce(node: OnnxNode, arrays: Any) -> Any:
    axes = node.parameter("axes", 1)
    if not axes and node.flag("noop_with_empty_axes", 0):
        return arrays[0]
    function: Any = getattr(np, pairs_by_op()[node.op].our_op)
    result = function(arrays[0], axis=tuple(axes) if axes else None, keepdims=node.flag("keepdims", 1))
    return result if arrays[0].dtype == object else np.asarray(result).astype(arrays[0].dtype)


@_evaluates("MatMul")
def _matmul(node: OnnxNode, arrays: Any) -> Any:
    a, b = arrays
    if a.ndim < 1 or b.ndim < 1 or a.size * max(b.shape[-1], 1) > 1 << 34:
        raise NoLayerError("this product of constants is not computed")
    _bounded((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:-1], *b.shape[-1:]))
    return np.matmul(a, b)


@_evaluates("DequantizeLinear")
def _dequantize(node: OnnxNode, arrays: Any) -> Any:
    x, scale, zero = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 and arrays[2] is not None else 0
    axis = node.get("axis", 1)
    if node.get("block_size", 0):
        raise NoLayerError("quantization in blocks is not read")
    if scale.ndim == 1 and scale.size > 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        scale, zero = scale.reshape(shape), np.asarray(zero).reshape(shape) if np.ndim(zero) else zero
    return ((x.astype(np.float32) - np.asarray(zero, np.float32)) * scale).astype(scale.dtype)
