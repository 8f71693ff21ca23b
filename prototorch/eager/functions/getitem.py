"""Reading and writing parts of tensors: ``x[key]`` and ``x[key] = value``."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.functions.views import broadcast_to, reshape
from prototorch.eager.in_place import assign
from prototorch.eager.index_key import IndexKey, check_broadcast, checked_shape, split_key
from prototorch.eager.operands import element_of
from prototorch.eager.registry import tensor_method
from prototorch.eager.scalars import check_elements, check_operand
from prototorch.eager.tape import next_entry_number
from prototorch.eager.tensor import Tensor
from prototorch.eager.value_bounds import bounded
from prototorch.errors import UsageError

__all__ = ["index_arrays", "mask_indices", "read_at", "tensor_like", "write_at"]


def tensor_like(value: Any, like: Tensor) -> Tensor:
    """A number or array as a tensor on the device of another."""
    if isinstance(value, Tensor):
        return value
    tensor: Tensor = like.interpreter.constant(np.asarray(value))
    return tensor


def mask_indices(mask: Tensor) -> list[Tensor]:
    """The indices at which a mask is true, one tensor [n] of int64 for each dimension. It reads the elements."""
    return [mask.interpreter.constant(i) for i in np.nonzero(mask.numpy())]


def from_zero(index: Tensor, size: int, dim: int) -> Tensor:
    """Indices that count from 0; negative ones count from the end. Raises IndexRangeError for one out of range; see
    `bounded`."""
    if index.spec.dtype not in ("int32", "int64"):
        index = ops.cast(index, dtype="int64")
    message = f"index {{}} is out of range for dim {dim} of size {size}"
    checked: Tensor = bounded(index, size, message, wraps=True)
    return checked


def index_arrays(source: Tensor, indices: Any) -> tuple[list[Tensor], tuple[int, ...]]:
    """Integer indices from 0, and the dimensions of ``source`` that they are for; masks become integers."""
    arrays: list[Tensor] = []
    axes: list[int] = []
    for axis, part in indices:
        index = tensor_like(part, source)
        parts = mask_indices(index) if index.spec.dtype == "bool" else [index]
        for k, one in enumerate(parts):
            arrays.append(from_zero(one, source.shape[axis + k], axis + k))
            axes.append(axis + k)
    check_broadcast(arrays)
    return arrays, tuple(axes)


def _view_of(input: Tensor, key: IndexKey, with_flips: bool = True) -> Tensor:
    """The view that a key names, always a new tensor."""
    start, stop, step, flips, shape = key.view
    out = input
    if any(start) or stop != tuple(input.shape) or any(s != 1 for s in step):
        out = ops.slice(out, start=start, stop=stop, step=step)
    if out is input or shape != tuple(out.shape):
        out = ops.reshape(out, shape=shape)
    return ops.flip(out, axis=flips) if flips and with_flips else out


def read_at(input: Tensor, indices: Any) -> Tensor:
    """The elements at indices: pairs of a dimension and a tensor or array of integers, or a mask."""
    arrays, axes = index_arrays(input, indices)
    result: Tensor = ops.advanced_index(input, *arrays, axes=axes)
    return result


def write_at(input: Tensor, indices: Any, value: Tensor, reduce: str = "set", name: str = "x[...] = value") -> Tensor:
    """The tensor with a value at indices, joined with the elements there by ``reduce`` (see `ops.index_put`)."""
    if reduce == "set" and len(indices) == 1 and value.spec.size == 1:
        axis, mask = indices[0]
        if str(mask.dtype) == "bool":
            return _fill_where(input, tensor_like(mask, input), axis, reshape(value, ()))
    arrays, axes = index_arrays(input, indices)
    shape = ops.advanced_index.infer_spec(input.spec, *(a.spec for a in arrays), axes=axes).shape
    value = _without_leading_ones(value, len(shape))
    checked_shape(name, tuple(value.shape), shape)
    result: Tensor = ops.index_put(input, broadcast_to(value, shape), *arrays, axes=axes, reduce=reduce)
    return result


def _fill_where(input: Tensor, mask: Tensor, axis: int, value: Tensor) -> Tensor:
    """The tensor with one number where a mask over some of its dimensions, from ``axis`` on, is true."""
    behind = input.ndim - axis - mask.ndim
    result: Tensor = ops.where(reshape(mask, (*mask.shape, *(1,) * behind)), value, input)
    return result


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    extra = max(value.ndim - ndim, 0)
    shape = tuple(value.shape)
    return reshape(value, shape[extra:]) if extra and all(n == 1 for n in shape[:extra]) else value


@tensor_method(name="__getitem__")
def getitem(self: Tensor, key: Any) -> Tensor:
    """``x[key]``: integers, slices, None and an ellipsis give a view; a tensor, array or list of integers, or a mask,
    gives a copy, as in PyTorch. Beyond PyTorch, slices may have negative steps, which give a copy.

    Raises RangeError (an IndexError) for an index out of range, and for what is no index.
    """
    if type(key) is int and self.spec.shape and -self.spec.shape[0] <= key < self.spec.shape[0]:
        row: Tensor = ops.select(self, axis=0, index=key % self.spec.shape[0])
        return row
    split = split_key(self.spec.shape, key)
    part = _view_of(self, split)
    return read_at(part, split.indices) if split.indices else part


@tensor_method(name="__setitem__")
def setitem(self: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``: the elements that ``x[key]`` reads become those of the value, which is broadcast and cast."""
    since = next_entry_number()
    split = split_key(self.spec.shape, key)
    flips = split.view.flips
    target = _view_of(self, split, with_flips=False)
    is_masked = len(split.indices) == 1 and str(split.indices[0][1].dtype) == "bool"
    if is_masked and isinstance(value, Tensor) and not value.ndim:
        value = element_of(value, target, "x[mask] = value")
    new = _as_value(value, target)
    if split.indices:
        source = ops.flip(target, axis=flips) if flips else target
        new = write_at(source, split.indices, new)
    else:
        new = _without_leading_ones(new, target.ndim)
    if flips:
        checked_shape("x[...] = value", tuple(new.shape), tuple(target.shape))
        new = ops.flip(broadcast_to(new, target.shape), axis=flips)
    assign(target, new, "x[...] = value", since)


def _as_value(value: Any, target: Tensor) -> Tensor:
    tensor = value if isinstance(value, Tensor) else tensor_like(_numeric(value, target), target)
    return tensor if tensor.spec.dtype == target.spec.dtype else ops.cast(tensor, dtype=target.spec.dtype)


def _numeric(value: Any, target: Tensor) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        array = np.array("")
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise UsageError(f"x[...] = value: expected a number, a tensor or an array, got {value!r:.60}")
    if not isinstance(value, np.ndarray):
        check_elements(array, target.spec.dtype, "x[...] = value")
        if not array.ndim:
            check_operand(array.item(), target.spec.dtype, "x[...] = value")
    with np.errstate(all="ignore"):
        return array.astype(target.spec.dtype)
