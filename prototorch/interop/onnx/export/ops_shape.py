"""Ops that move elements: shapes, slices, lookups; and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.interop.onnx.export.walker import OpExport, exports_op, onnx_dtype
from prototorch.interop.onnx.op_pairs import reductions_by_our_op
from prototorch.interop.symbolic_batch import BatchMultiple, Dim
from prototorch.ops.reduce import normalize_axes

_INT64_MAX = 2**63 - 1


@exports_op("reshape")
def _reshape(export: OpExport) -> None:
    dims, out = export.dims(), export.output_dims
    if dims == out:
        export.walker.bind(export.node.outputs[0], export.name(0))
        if export.node.outputs[0] in export.walker.preferred:
            export.result("Identity", [export.name(0)])
    elif len(out) == 2 and len(dims) > 1 and dims[0] == out[0] == BatchMultiple():
        export.result("Flatten", [export.name(0)])
    else:
        export.result("Reshape", [export.name(0), export.shape(out)])


@exports_op("transpose")
def _transpose(export: OpExport) -> None:
    export.result("Transpose", [export.name(0)], {"perm": list(export.attributes["order"])})


@exports_op("slice")
def _slice(export: OpExport) -> None:
    axes, starts, stops, steps = [], [], [], []
    bounds = (export.attributes[k] for k in ("start", "stop", "step"))
    for axis, (n, start, stop, step) in enumerate(zip(export.dims(), *bounds, strict=True)):
        if start == 0 and stop == n and step == 1:
            continue
        axes.append(axis)
        starts.append(start)
        stops.append(_INT64_MAX if stop == n else stop)
        steps.append(step)
    names = [export.integers(starts), export.integers(stops), export.integers(axes)]
    export.result("Slice", [export.name(0), *names, *([export.integers(steps)] if set(steps) != {1} else [])])


@exports_op("flip")
def _flip(export: OpExport) -> None:
    axis = export.attributes["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis)
    export.result("Slice", [export.name(0), *flip_arguments(export, axes)])


def flip_arguments(export: Any, axes: Sequence[int]) -> list[str]:
    """The further inputs of a Slice that reverses axes."""
    ends = ([-1] * len(axes), [-_INT64_MAX] * len(axes), list(axes), [-1] * len(axes))
    return [export.constant(np.array(values, np.int64), "integers") for values in ends]


@exports_op("pad")
def _pad(export: OpExport) -> None:
    pads = export.attributes["pads"]
    mode = export.attributes_or_defaults()["mode"]
    amounts = export.integers([a for a, _ in pads] + [b for _, b in pads])
    if mode != "constant":
        export.result("Pad", [export.name(0), amounts], {"mode": mode})
        return
    value = export.attributes_or_defaults()["value"]
    fill = [export.constant(np.asarray(value, export.inputs[0].dtype))] if value else []
    export.result("Pad", [export.name(0), amounts, *fill])


@exports_op("broadcast_to")
def _broadcast_to(export: OpExport) -> None:
    dims, out = export.dims(), export.output_dims
    lead: tuple[Dim, ...] = (1,) * (len(out) - len(dims))
    repeats = [1 if n == m else m for n, m in zip(lead + dims, out, strict=True)]
    export.result("Expand", [export.name(0), export.builder.shape(repeats, export.scope)])


@exports_op("take")
def _take(export: OpExport) -> None:
    export.result("Gather", [export.name(0), _indices(export, 1)])


@exports_op("static_gather")
def _static_gather(export: OpExport) -> None:
    positions = export.integers(export.attributes["indices"])
    export.result("Gather", [export.name(0), positions], {"axis": export.attributes["axis"]})


@exports_op("take_along_axis")
def _take_along_axis(export: OpExport) -> None:
    export.result("GatherElements", [export.name(0), _indices(export, 1)], {"axis": -1})


def _indices(export: OpExport, index: int) -> str:
    """An input as indices: int32 or int64."""
    if export.inputs[index].dtype in ("int32", "int64"):
        return export.name(index)
    return export.emit("Cast", [export.name(index)], {"to": onnx_dtype("int64")})


@exports_op("one_hot")
def _one_hot(export: OpExport) -> None:
    column = export.emit("Unsqueeze", [_indices(export, 0), export.integers([-1])])
    if export.inputs[0].dtype == "int32":
        column = export.emit("Cast", [column], {"to": onnx_dtype("int64")})
    hit = export.emit("Equal", [column, export.integers(range(export.attributes["classes"]))])
    export.result("Cast", [hit], {"to": onnx_dtype(export.attributes_or_defaults()["dtype"])})


@exports_op("argmax", "argmin")
def _arg_extremum(export: OpExport) -> None:
    op = "ArgMax" if export.node.op.name == "argmax" else "ArgMin"
    indices = export.emit(op, [export.name(0)], {"axis": export.attributes["axis"], "keepdims": 0})
    export.result("Cast", [indices], {"to": onnx_dtype("int32")})


@exports_op("cumsum")
def _cumsum(export: OpExport) -> None:
    axis = export.constant(np.array(export.attributes["axis"], np.int64), "axis")
    export.result("CumSum", [export.name(0), axis], {"reverse": int(export.attributes_or_defaults()["reverse"])})


@exports_op("any", "all")
def _bool_reduction(export: OpExport) -> None:
    op = "ReduceMax" if export.node.op.name == "any" else "ReduceMin"
    numbers = export.emit("Cast", [export.name(0)], {"to": onnx_dtype("int32")})
    reduction = export.emit(op, *_reduction_arguments(export, numbers, 18))
    export.result("Cast", [reduction], {"to": onnx_dtype("bool")})


@exports_op(*reductions_by_our_op())
def _reduction(export: OpExport) -> None:
    pair = reductions_by_our_op()[export.node.op.name]
    dims, attrs = export.dims(), export.attributes_or_defaults()
    if pair.pooling and len(dims) > 2 and normalize_axes(attrs["axis"], len(dims)) == tuple(range(2, len(dims))):
        if attrs["keepdims"]:
            export.result(pair.pooling, [export.name(0)])
        else:
            export.result("Flatten", [export.emit(pair.pooling, [export.name(0)])])
        return
    export.result(pair.name, *_reduction_arguments(export, export.name(0), pair.axes_input))


def _reduction_arguments(export: OpExport, name: str, since: int) -> tuple[list[str], dict[str, Any]]:
    attrs = export.attributes_or_defaults()
    axes = normalize_axes(attrs["axis"], len(export.dims()))
    keep = {"keepdims": int(attrs["keepdims"])}
    if export.opset >= since:
        return [name, export.integers(axes)], keep
    return [name], {"axes": list(axes), **keep}


@exports_op("top_k")
def _top_k(export: OpExport) -> None:
    values, indices = export.node.outputs
    names = [export.walker.output_name(values, f"{export.scope}/TopK"), export.builder.unique_name("TopK/indices")]
    export.builder.emit("TopK", [export.name(0), export.integers([export.attributes["k"]])], names, export.scope)
    export.result("Cast", [names[1]], {"to": onnx_dtype("int32")}, value=indices)
