"""Sums, means and extrema over dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import NetValue, Operand
from prototorch.interop.onnx.importer.registry import NoLayerError, imports

__all__: list[str] = []

_LAYERS: dict[str, Any] = {
    "ReduceSum": layers.ReduceSum, "ReduceMean": layers.ReduceMean, "ReduceMax": layers.ReduceMax,
    "ReduceMin": layers.ReduceMin, "ReduceProd": layers.ReduceProd, "ReduceLogSumExp": layers.LogSumExp,
}  # fmt: skip
_BEFORE: dict[str, Any] = {"ReduceL1": layers.Abs, "ReduceL2": layers.Square, "ReduceSumSquare": layers.Square}
_AFTER: dict[str, Any] = {"ReduceL2": layers.Sqrt, "ReduceLogSum": layers.Log}
_GLOBAL: dict[tuple[str, int], Any] = {
    ("ReduceMean", 2): layers.GlobalAveragePooling1D, ("ReduceMean", 3): layers.GlobalAveragePooling2D,
    ("ReduceMean", 4): layers.GlobalAveragePooling3D, ("ReduceMax", 2): layers.GlobalMaxPooling1D,
    ("ReduceMax", 3): layers.GlobalMaxPooling2D, ("ReduceMax", 4): layers.GlobalMaxPooling3D,
}  # fmt: skip


@imports(*_LAYERS, "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")
def _reduce(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axes = node.parameter("axes", 1)
    if not axes:
        if node.get("noop_with_empty_axes", 0):
            return _apply(b, _AFTER, node.op, _apply(b, _BEFORE, node.op, x))
        axes = list(range(x.ndim))
    keepdims = bool(node.get("keepdims", 1))
    over = sorted(x.axes(axes))
    if x.is_plain and over == list(range(2, x.ndim)) and (node.op, len(x.dims)) in _GLOBAL and x.dtype == "float32":
        return b.add(_GLOBAL[node.op, len(x.dims)](keepdims=keepdims), x)
    x = _apply(b, _BEFORE, node.op, x)
    y = reduce_over(b, _LAYERS.get(node.op, layers.ReduceSum), x, axes, keepdims)
    return _apply(b, _AFTER, node.op, y)


def _apply(b: NetBuilder, table: dict[str, Any], op: str, x: NetValue) -> NetValue:
    return b.add(table[op](), x) if op in table else x


def reduce_over(b: NetBuilder, kind: Any, x: NetValue, axes: list[int], keepdims: bool, **fields: Any) -> NetValue:
    """A reduction over dimensions of the ONNX value; the batch dimension may move to another place."""
    over = sorted(x.axes(axes))
    y = b.add(b.make(kind, axis=over, keepdims=keepdims, **fields), x)
    return y if keepdims else without_axes(x, y, axes)


def without_axes(x: NetValue, y: NetValue, axes: list[int]) -> NetValue:
    """y, which lacks these dimensions of x, with its batch dimension at its place."""
    if x.batch_axis is None:
        return y
    return replace(y, batch_axis=x.batch_axis - sum(a % x.ndim < x.batch_axis for a in axes))


@imports("ArgMax", "ArgMin")
def _arg(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    if node.get("select_last_index", 0):
        raise NoLayerError("the last of several equal elements has no layer, the first has")
    axis, keepdims = node.get("axis", 0), bool(node.get("keepdims", 1))
    kind = layers.ArgMax if node.op == "ArgMax" else layers.ArgMin
    y = b.add(b.make(kind, axis=x.axis(axis)), x)
    y = without_axes(x, y, [axis])
    if not keepdims:
        return y
    shape = list(y.shape)
    shape.insert(axis % x.ndim, 1)
    return b.reshape(y, shape)


@imports("CumSum")
def _cumsum(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axis = x.axis(int(node.weight(1, "axis").scalar()))
    fields = {"axis": axis, "exclusive": bool(node.get("exclusive", 0)), "reverse": bool(node.get("reverse", 0))}
    return b.add(b.make(layers.CumSum, **fields), x)


@imports("TopK")
def _top_k(b: NetBuilder, node: OnnxNode) -> Any:
    x = node.value(0)
    k = node.get("k") if node.version < 10 else int(node.weight(1, "K").scalar())
    axis = x.axis(node.get("axis", -1))
    if axis != len(x.dims) or not node.get("largest", 1):
        raise NoLayerError("the largest elements of another than the last dimension, or the smallest, have no layer")
    return b.add_many(b.make(layers.TopK, k=k), [x])
