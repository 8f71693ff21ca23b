"""The accuracy of a batch as a layer."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.loss_terms import canonical_axis, class_indices, classes_last, pick_class
from prototorch.schema import example, field

_SCALAR: dict[str, Any] = {"batched": False, "batch_axis": False, "gradient": False}


class ClassAccuracy(Layer):
    """The share of positions whose label is among the ``top_k`` classes with the largest scores (Caffe's Accuracy).

    Inputs: scores [batch, ..., classes, ...], the classes along ``axis``, and labels, one for each position, of any
    shape with as many elements. A label counts as one of the k only if fewer than k other classes have a score that is
    at least its own, so that a tie counts as wrong. Output: a scalar [], 0 where no position counts; with
    ``per_class`` also [classes], the accuracy of the positions of each class. It has no derivative.
    """

    channel_axis_note = "its field `axis` says where the classes are: axis 1, as in Caffe"
    inputs = 2
    top_k: int = field(default=1, min=0, doc="How many of the largest scores count.")
    axis: int = field(default=1, doc="The axis of the classes, the batch dimension being 0.")
    ignore_class: int | None = field(
        default=None, min=-(1 << 31), max=(1 << 31) - 1, doc="A label whose positions do not count."
    )
    per_class: bool = field(default=False, doc="Whether to give the accuracy of each class, too.")
    examples = [
        example("ClassAccuracy { }", inputs=[(4,), ()], dtype=("float32", "int32"), range=((-1, 1), (0, 4)), **_SCALAR),
        example("ClassAccuracy { axis: -1  top_k: 2  ignore_class: 0  per_class: true }", inputs=[(3, 4), (3,)],
                dtype=("float32", "int32"), range=((-1, 1), (0, 4)), **_SCALAR),
    ]  # fmt: skip

    def output_count(self) -> int:
        return 1 + self.per_class

    def call(self, ctx: Context, x: ArrayValue, labels: ArrayValue) -> Any:
        axis = canonical_axis(ctx, x, self.axis)
        classes, count = x.shape[axis], prod(x.shape) // max(x.shape[axis], 1)
        if self.top_k > classes:
            ctx.fail(f"top_k {self.top_k} exceeds the {classes} classes along axis {axis} of {list(x.shape)}")
        scores = ops.stop_gradient(ops.reshape(classes_last(x, axis), shape=(count, classes)))
        indices = class_indices(ctx, labels, (count, 1))
        valid = None if self.ignore_class is None else ops.not_equal(indices, self.ignore_class)
        if valid is not None:
            indices = ops.where(valid, indices, ops.zeros_like(indices))
        own = pick_class(scores, indices)
        is_class = ops.logical_and(ops.greater_equal(indices, 0), ops.less(indices, classes))
        better = ops.sum(ops.cast(ops.greater_equal(scores, own), dtype=x.dtype), axis=1, keepdims=True)
        right = ops.cast(ops.less(better, self.top_k + 0.5), dtype=x.dtype)
        right = ops.where(is_class, right, ops.full(shape=(), value=float("nan"), dtype=x.dtype))
        weight = ops.ones_like(right) if valid is None else ops.cast(valid, dtype=x.dtype)
        weight = ops.broadcast_to(weight, shape=(count, 1))
        right = ops.where(ops.greater(weight, 0.5), right, ops.zeros_like(right))
        total = _share(ops.sum(right, axis=None), ops.sum(weight, axis=None))
        if not self.per_class:
            return total
        rows = ops.one_hot(ops.reshape(indices, shape=(count,)), classes=classes, dtype=x.dtype)
        return total, _share(ops.sum(rows * right, axis=0), ops.sum(rows * weight, axis=0))


def _share(part: Any, total: Any) -> Any:
    """part / total; 0 where there is nothing."""
    return part / ops.maximum(total, 1.0)
