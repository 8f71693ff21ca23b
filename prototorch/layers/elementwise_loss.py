"""Losses of single elements as layers: squared errors, and binary crossentropy of logits."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.loss_terms import Normalization, normalization_field, normalized_sum
from prototorch.schema import example, field

_SCALAR: dict[str, Any] = {"batched": False, "batch_axis": False}


class EuclideanLoss(Layer):
    """Half the mean over the batch of the squared distance of a and b: sum (a - b)^2 / (2 batch) (Caffe's
    EuclideanLoss).

    Inputs: a and b [batch, ...] of as many elements; the gradient goes to both. Output: a scalar [].
    """

    inputs = 2
    examples = [
        example("EuclideanLoss { }", inputs=[(3,), (3,)], **_SCALAR),
        example("EuclideanLoss { }", inputs=[(4,), (2, 2)], **_SCALAR),
    ]

    def call(self, ctx: Context, a: ArrayValue, b: ArrayValue) -> Any:
        b = _as_shape(ctx, b, a)
        return ops.sum(ops.square(a - b), axis=None) * (0.5 / max(a.shape[0], 1))


class SigmoidCrossentropyLoss(Layer):
    """The sum of -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)), over the normalizer (Caffe's
    SigmoidCrossEntropyLoss).

    Inputs: logits x [batch, ...], and targets of as many elements, from 0 to 1. Output: a scalar [].
    """

    inputs = 2
    ignore_class: int | None = field(
        default=None,
        min=-(1 << 31),
        max=(1 << 31) - 1,
        doc="Targets with this integer part do not count (0 leaves out all between -1 and 1).",
    )
    normalization: Normalization = normalization_field("batch_size")
    examples = [
        example("SigmoidCrossentropyLoss { }", inputs=[(3,), (3,)], range=((-2, 2), (0, 1)), **_SCALAR),
        example('SigmoidCrossentropyLoss { ignore_class: 1  normalization: "valid" }', inputs=[(2, 2), (4,)],
                dtype=("float32", "int32"), range=((-2, 2), (0, 2)), **_SCALAR),
    ]  # fmt: skip

    def call(self, ctx: Context, x: ArrayValue, targets: ArrayValue) -> Any:
        targets = _as_shape(ctx, targets, x)
        values = ops.sigmoid_cross_entropy(x, targets)
        valid = None
        if self.ignore_class is not None:
            valid = ops.not_equal(ops.cast(targets, dtype="int32"), self.ignore_class)
        return normalized_sum(values, valid, self.normalization, x.shape[0])


def _as_shape(ctx: Context, x: ArrayValue, like: ArrayValue) -> Any:
    """x in the shape of another of as many elements in each sample."""
    if x.shape[:1] != like.shape[:1] or prod(x.shape) != prod(like.shape):
        ctx.fail(f"its inputs must have as many elements in each sample, not {list(like.shape)} and {list(x.shape)}")
    return x if tuple(x.shape) == tuple(like.shape) else ops.reshape(x, shape=tuple(like.shape))
