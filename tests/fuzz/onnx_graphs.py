"""ONNX graphs: the node cases of the standard and chains of ops, with attributes, inputs, shapes and types changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.interop.onnx.importer import find_importer
from prototorch.interop.onnx.importer.constants import is_evaluated
from prototorch.interop.onnx.importer.model import import_graph
from prototorch.interop.onnx.model_file import open_onnx
from tests.fuzz.harness import FuzzFormat, NoReferenceError, RefusalError, sample
from tests.interop.onnx.node_cases import node_cases
from tests.interop.onnx.onnx_models import as_onnx, run_imported

__all__ = ["FORMAT"]

_MAX_BYTES = 20_000  # of a node case
_BATCH = 3  # where a file leaves the batch open


def _onnx() -> Any:
    import onnx

    return onnx


# ---------------------------------------------------------------------- seeds


@cache
def _seeds() -> list[Any]:
    """The node cases of ops that are read, all inputs but the first as constants, and some chains."""
    onnx = _onnx()
    seeds = []
    for _, one in sorted(node_cases().items()):
        node = one.model.graph.node
        reads = all(not n.domain and (find_importer(n.op_type) is not None or is_evaluated(n.op_type)) for n in node)
        if not reads or one.model.ByteSize() > _MAX_BYTES or not one.data_sets or not one.model.graph.input:
            continue
        arrays = one.data_sets[0][0]
        if not all(isinstance(a, np.ndarray | onnx.TensorProto) for a in arrays):
            continue
        model = copy.deepcopy(one.model)
        inputs = list(model.graph.input)
        del model.graph.input[1:]
        for declared, array in zip(inputs[1:], arrays[1:], strict=False):
            tensor = array if isinstance(array, onnx.TensorProto) else onnx.numpy_helper.from_array(array)
            tensor = copy.deepcopy(tensor)
            tensor.name = declared.name
            model.graph.initializer.append(tensor)
        if model.ByteSize() <= _MAX_BYTES:
            seeds.append(model)
    return seeds


def _chain(rng: random.Random) -> Any:
    """A chain of ops over an image, as exporters write them."""
    helper, numpy_helper = _onnx().helper, _onnx().numpy_helper
    channels, size, opset = rng.choice((2, 3, 4)), rng.choice((5, 6, 8)), rng.choice((11, 13, 17, 18, 21))
    nodes: list[Any] = []
    weights: list[Any] = []
    state = {"value": "x", "channels": channels, "spatial": True}

    def weight(array: Any) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def emit(op: str, *more: str, **attributes: Any) -> None:
        output = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, [state["value"], *more], [output], name=f"n{len(nodes)}", **attributes))
        state["value"] = output

    def normal(*shape: int) -> np.ndarray:
        return np.random.default_rng(len(weights)).standard_normal(shape).astype(np.float32)

    def convolve() -> None:
        filters = rng.choice((2, 4))
        emit("Conv", weight(normal(filters, state["channels"], 3, 3)), weight(normal(filters)), pads=[1] * 4)
        state["channels"] = filters

    def normalize() -> None:
        n = state["channels"]
        emit("BatchNormalization", *(weight(a) for a in (normal(n), normal(n), normal(n), np.abs(normal(n)) + 0.5)))

    def pick() -> None:
        emit("Slice", *(weight(np.array([n], np.int64)) for n in (1, 9999, 2, 1)))

    steps: list[Callable[[], None]] = [
        convolve,
        normalize,
        pick,
        lambda: emit(rng.choice(("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Sqrt", "Erf", "Softplus"))),
        lambda: emit("LeakyRelu", alpha=0.2),
        lambda: emit("Softmax", axis=rng.choice((1, -1))),
        lambda: emit("MaxPool", kernel_shape=[2, 2]),
        lambda: emit("AveragePool", kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=rng.choice((0, 1))),
        lambda: emit("Add", weight(normal(1, 1, 1))),
        lambda: emit("Mul", weight(np.float32(2))),
        lambda: emit("Transpose", perm=[0, 2, 1, 3]),
        lambda: emit("Concat", state["value"], axis=2),
        lambda: emit("Unsqueeze", weight(np.array([1], np.int64))) or emit("Squeeze", weight(np.array([1], np.int64))),
        lambda: emit("Pad", weight(np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64))),
        lambda: emit("Expand", weight(np.array([1, 1, 1, 1], np.int64))),
        lambda: emit("Clip", weight(np.float32(-1)), weight(np.float32(1))),
    ]
    for _ in range(rng.randrange(1, 5)):
        rng.choice(steps)()
    if rng.random() < 0.5:
        emit("GlobalAveragePool")
        emit(*rng.choice((("Flatten",), ("Reshape", weight(np.array([0, -1], np.int64))))))
    output = helper.make_tensor_value_info(state["value"], 1, None)
    batch = rng.choice(("N", 1, 2))
    declared = helper.make_tensor_value_info("x", 1, [batch, channels, size, size])
    graph = helper.make_graph(nodes, "chain", [declared], [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


# ---------------------------------------------------------------------- changes


_INTEGERS = (0, 1, 2, 3, -1, -2, -5, 9, 100, 2**31, -(2**63))
_FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, float("inf"), float("nan"))


def _change(model: Any, rng: random.Random) -> None:
    graph = model.graph
    changes = [_change_attribute, _change_attribute, _change_inputs, _change_weight, _change_weight, _change_graph]
    rng.choice(changes)(model, graph, rng)


def _change_attribute(model: Any, graph: Any, rng: random.Random) -> None:
    node = rng.choice(graph.node)
    helper = _onnx().helper
    if not node.attribute or rng.random() < 0.25:
        name = rng.choice(("axis", "axes", "perm", "keepdims", "to", "group", "kernel_shape", "pads", "value", "bogus"))
        value = rng.choice(
            (rng.choice(_INTEGERS), [rng.choice(_INTEGERS) for _ in range(rng.randrange(1, 4))], 0.5, "a")
        )
        if all(a.name != name for a in node.attribute):
            node.attribute.append(helper.make_attribute(name, value))
        return
    attribute = rng.choice(node.attribute)
    kind = rng.randrange(5)
    if kind == 0:
        node.attribute.remove(attribute)
    elif attribute.type == 2:
        attribute.i = rng.choice(_INTEGERS)
    elif attribute.type == 1:
        attribute.f = rng.choice(_FLOATS)
    elif attribute.type == 3:
        attribute.s = rng.choice((b"", b"SAME_UPPER", b"VALID", b"reflect", b"linear", b"x"))
    elif attribute.type == 7:
        values = list(attribute.ints)
        _change_list(values, rng, _INTEGERS)
        del attribute.ints[:]
        attribute.ints.extend(values)
    elif attribute.type == 6:
        values = list(attribute.floats)
        _change_list(values, rng, _FLOATS)
        del attribute.floats[:]
        attribute.floats.extend(values)
    elif attribute.type == 4:
        _change_tensor(attribute.t, rng)


def _change_list(values: list[Any], rng: random.Random, pool: Sequence[Any]) -> None:
    kind = rng.randrange(4)
    if kind == 0 and values:
        values.pop(rng.randrange(len(values)))
    elif kind == 1 and values:
        values.append(rng.choice(values))
    elif kind == 2:
        values.insert(rng.randrange(len(values) + 1), rng.choice(pool))
    elif values:
        values[rng.randrange(len(values))] = rng.choice(pool)


def _change_inputs(model: Any, graph: Any, rng: random.Random) -> None:
    node = rng.choice(graph.node)
    names = list(node.input)
    pool = [
        "",
        *(i.name for i in graph.input),
        *(t.name for t in graph.initializer),
        *(n for m in graph.node for n in m.output),
    ]
    kind = rng.randrange(4)
    if kind == 0 and names:
        names.pop(rng.randrange(len(names)))
    elif kind == 1:
        names.insert(rng.randrange(len(names) + 1), rng.choice(pool))
    elif kind == 2 and names:
        names[rng.randrange(len(names))] = rng.choice(pool)
    else:
        rng.shuffle(names)
    del node.input[:]
    node.input.extend(names)


def _change_weight(model: Any, graph: Any, rng: random.Random) -> None:
    if graph.initializer:
        _change_tensor(rng.choice(graph.initializer), rng)
    else:
        _change_attribute(model, graph, rng)


def _change_tensor(tensor: Any, rng: random.Random) -> None:
    """Another shape, type or other elements; the tensor itself fits together."""
    numpy_helper, name = _onnx().numpy_helper, tensor.name
    try:
        array = np.array(numpy_helper.to_array(tensor))
    except Exception:  # an element type that NumPy does not have
        return
    kind = rng.randrange(6)
    if kind == 0:
        array = array[None]
    elif kind == 1 and array.ndim and len(array):
        array = array[0]
    elif kind == 2 and array.ndim:
        array = np.concatenate([array, array], axis=rng.randrange(array.ndim))
    elif kind == 3 and array.ndim:
        array = array[:0] if rng.random() < 0.3 else array[:1]
    elif kind == 4:
        if array.dtype.kind in "fiub":
            dtypes = (np.float32, np.int64, np.int32, np.float16, np.float64, np.uint8, np.bool_)
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(dtypes))
    elif array.size and array.dtype.kind in "fiu":
        pool = _INTEGERS[:8] if array.dtype.kind in "iu" else _FLOATS
        flat = array.reshape(-1)
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice(pool)).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))


def _change_graph(model: Any, graph: Any, rng: random.Random) -> None:
    kind = rng.randrange(7)
    node = rng.choice(graph.node)
    if kind == 0:
        other = rng.choice(_seeds()).graph.node
        node.op_type = rng.choice(other).op_type
    elif kind == 1 and graph.input:
        dims = rng.choice(graph.input).type.tensor_type.shape.dim
        if dims:
            dim = rng.choice(dims)
            dim.Clear()
            if rng.random() < 0.3:
                dim.dim_param = "M"
            else:
                dim.dim_value = rng.choice((0, 1, 2, 3, 4, 5, 8))
    elif kind == 2 and graph.input:
        dims = rng.choice(graph.input).type.tensor_type.shape.dim
        if len(dims) > 1 and rng.random() < 0.5:
            del dims[rng.randrange(len(dims))]
        else:
            dims.add().dim_value = 2
    elif kind == 3 and graph.input:
        rng.choice(graph.input).type.tensor_type.elem_type = rng.choice((1, 6, 7, 9, 10, 11, 2, 3))
    elif kind == 4:
        model.opset_import[0].version = rng.choice((1, 7, 9, 11, 13, 17, 18, 20, 21, 22))
    elif kind == 5:
        outputs = list(node.output)
        outputs.append("") if rng.random() < 0.5 else outputs.append("more")
        del node.output[:]
        node.output.extend(outputs)
    else:
        del graph.node[rng.randrange(len(graph.node))]


def _generate(rng: random.Random) -> bytes:
    model = _chain(rng) if rng.random() < 0.4 else copy.deepcopy(rng.choice(_seeds()))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        if model.graph.node:
            _change(model, rng)
    for output in model.graph.output:  # those that are declared say nothing of a graph that has changed
        output.type.tensor_type.ClearField("shape")
    return model.SerializeToString()


# ---------------------------------------------------------------------- reading


def _load(path: Path) -> Any:
    file = open_onnx(path)
    return file, import_graph(file)


def _run(loaded: Any) -> list[np.ndarray]:
    file, graph = loaded
    feeds = []
    dims_of = {i.name: i.type.tensor_type for i in file.graph.input}
    live = {i.name for i in graph.model.net.inputs}
    for name, value in graph.inputs.items():
        if value.top in live:
            feed = _feed(name, dims_of[name])
            feeds.append(np.moveaxis(feed, value.batch_axis or 0, 0).astype(value.dtype))
    outputs = run_imported(graph.model, feeds)
    return [_whole(np.asarray(as_onnx(a, v)), v.batch_axis) for a, v in zip(outputs, graph.outputs, strict=True)]


def _whole(array: np.ndarray, batch_axis: int | None) -> np.ndarray:
    """The array; one row of an output that is a constant, which the net repeats for each sample."""
    return array[0] if batch_axis is None and array.ndim and len(array) > 1 and (array == array[:1]).all() else array


def _feed(name: str, tensor: Any) -> np.ndarray:
    shape = [d.dim_value if d.HasField("dim_value") else _BATCH for d in tensor.shape.dim]
    dtype = np.dtype(_onnx().helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return sample(name, shape, dtype if dtype.kind in "fiub" else np.float32)


def _prune(graph: Any) -> None:
    """Remove the nodes that no output needs: they are not read here, and ONNX Runtime checks them all the same."""
    needed = {o.name for o in graph.output}
    for node in reversed(list(graph.node)):
        if needed.intersection(node.output):
            needed.update(node.input)
        else:
            graph.node.remove(node)


def _reference(path: Path) -> list[np.ndarray]:
    import onnxruntime

    errors = onnxruntime.capi.onnxruntime_pybind11_state
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    model = _onnx().load(path)
    if any(i.type.tensor_type.elem_type > 13 for i in model.graph.input):
        raise NoReferenceError("NumPy has no such elements")
    _prune(model.graph)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        declared = {i.name: i.type.tensor_type for i in model.graph.input}
        feeds = {i.name: _feed(i.name, declared[i.name]) for i in session.get_inputs()}
        return session.run(None, feeds)
    except errors.NotImplemented as error:
        raise NoReferenceError(str(error)[:200]) from None
    except Exception as error:
        texts = (
            "only *guarantees* support",
            "Could not find an implementation",
            "No corresponding Numpy type",
            "Numpy_type",
        )
        if any(text in str(error) for text in texts):
            raise NoReferenceError(str(error)[:200]) from None
        raise RefusalError(str(error)) from None


FORMAT = FuzzFormat("onnx", ".onnx", _generate, _load, _run, _reference)
