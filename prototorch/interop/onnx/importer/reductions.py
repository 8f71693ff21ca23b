"""Sums, means and extrema over dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.onnx.row import ReductionPair
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import NetValue, Operand, positive_axis
from prototorch.interop.onnx.importer.registry import NoLayerError, imports
from prototorch.interop.onnx.op_pairs import op_pairs, pairs_by_op

__all__: list[str] = []


@imports(*(pair.name for pair in op_pairs() if isinstance(pair, ReductionPair)))
def _reduce(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    pair = pairs_by_op()[node.op]
    assert isinstance(pair, ReductionPair)
    axes = node.parameter("axes", 1)
    if not axes:
        if node.flag("noop_with_empty_axes", 0):
            return _apply(b, pair.after, _apply(b, pair.before, x))
        axes = list(range(x.ndim))
    keepdims = node.flag("keepdims", 1)
    over, rank = sorted(x.axes(axes)), len(x.dims) - 1
    if pair.pooling and x.is_plain and over == list(range(2, x.ndim)) and x.dtype == "float32":
        kinds: Any = pairs_by_op()[pair.pooling].layers
        if 1 <= rank <= len(kinds):
            return b.add(kinds[rank - 1](keepdims=keepdims), x)
    y = reduce_over(b, pair.reduction or pair.layers[0], _apply(b, pair.before, x), axes, keepdims)
    return _apply(b, pair.after, y)


def _apply(b: NetBuilder, kind: Any, x: NetValue) -> NetValue:
    return x if kind is None else b.add(kind(), x)


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
    if node.flag("select_last_index", 0):
        raise NoLayerError("the last of several equal elements has no layer, the first has")
    axis, keepdims = node.get("axis", 0), node.flag("keepdims", 1)
    kind = layers.ArgMax if node.op == "ArgMax" else layers.ArgMin
    y = b.add(b.make(kind, axis=x.axis(axis)), x)
    y = without_axes(x, y, [axis])
    if not keepdims:
        return y
    shape = list(y.shape)
    shape.insert(positive_axis(axis, x.ndim), 1)
    return b.reshape(y, shape)


@imports("CumSum")
def _cumsum(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axis = x.axis(int(node.weight(1, "axis").scalar()))
    fields = {"axis": axis, "exclusive": node.flag("exclusive", 0), "reverse": node.flag("reverse", 0)}
    return b.add(b.make(layers.CumSum, **fields), x)


@imports("TopK")
def _top_k(b: NetBuilder, node: OnnxNode) -> Any:
    x = node.value(0)
    k = node.get("k") if node.version < 10 else int(node.weight(1, "K").scalar())
    axis = x.axis(node.get("axis", -1))
    if axis != len(x.dims) or not node.flag("largest", 1):
        raise NoLayerError("the largest elements of another than the last dimension, or the smallest, have no layer")
    return b.add_many(b.make(layers.TopK, k=k), [x])
