"""Losses with a margin as layers: of scores, and of pairs of embeddings."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.loss_terms import class_indices
from prototorch.schema import example, field

_SCALAR: dict[str, Any] = {"batched": False, "batch_axis": False}


class HingeLoss(Layer):
    """The mean over the batch of the sum over the classes of max(0, 1 - t x), or its square (Caffe's HingeLoss).

    Inputs: scores x [batch, ...], whose elements of a sample are the classes, and the class of each sample, [batch] or
    [batch, 1, ...]; t is 1 for that class and -1 for the others (one against all). Output: a scalar [].
    """

    channel_axis_note = "all elements of a sample are the classes, as in Caffe"
    inputs = 2
    norm: Literal["l1", "l2"] = field(default="l1", doc="l1: the sum of the margins; l2: of their squares.")
    examples = [
        example("HingeLoss { }", inputs=[(4,), ()], dtype=("float32", "int32"), range=((-2, 2), (0, 4)), **_SCALAR),
        example('HingeLoss { norm: "l2" }', inputs=[(2, 2), (1,)], dtype=("float32", "int32"),
                range=((-2, 2), (0, 4)), **_SCALAR),
    ]  # fmt: skip

    def call(self, ctx: Context, x: ArrayValue, labels: ArrayValue) -> Any:
        batch, classes = x.shape[0], prod(x.shape[1:])
        indices = class_indices(ctx, labels, (batch,), "sample")
        is_class = ops.logical_and(ops.greater_equal(indices, 0), ops.less(indices, classes))
        signs = ops.one_hot(indices, classes=classes, dtype=x.dtype) * 2.0 - 1.0
        margins = ops.relu(1.0 - signs * ops.reshape(x, shape=(batch, classes)))
        sums = ops.sum(margins if self.norm == "l1" else ops.square(margins), axis=1)
        sums = ops.where(is_class, sums, ops.full(shape=(), value=float("nan"), dtype=x.dtype))
        return ops.sum(sums, axis=None) * (1.0 / max(batch, 1))


class ContrastivePairLoss(Layer):
    """The contrastive loss of pairs of embeddings a and b (Hadsell, Chopra, LeCun 2006; Caffe's ContrastiveLoss).

    With d = |a - b|, the mean over the batch of d^2 / 2 where the pair is similar (its label is not 0), else of max(0,
    margin - d)^2 / 2. Inputs: a and b [batch, ...], and a label for each pair, [batch] or [batch, 1, ...]. Output: a
    scalar [].
    """

    inputs = 3
    margin: float = field(default=1.0, doc="The distance beyond which dissimilar pairs have no loss.")
    legacy_version: bool = field(default=False, doc="Use max(0, margin - d^2) / 2 for dissimilar pairs.")
    gradient_epsilon: float = field(
        default=0.0, min=0, doc="Added to d where the gradient of a dissimilar pair divides by it; Caffe adds 1e-4."
    )
    examples = [
        example("ContrastivePairLoss { margin: 4 }", inputs=[(3,), (3,), ()], dtype=("float32", "float32", "int32"),
                **_SCALAR),
        example("ContrastivePairLoss { margin: 5  legacy_version: true }", inputs=[(2, 1), (2, 1), (1,)],
                dtype=("float32", "float32", "int32"), **_SCALAR),
    ]  # fmt: skip

    def call(self, ctx: Context, a: ArrayValue, b: ArrayValue, labels: ArrayValue) -> Any:
        if a.shape[:1] != b.shape[:1] or prod(a.shape) != prod(b.shape):
            ctx.fail(f"the embeddings must have as many elements, not {list(a.shape)} and {list(b.shape)}")
        batch, size = a.shape[0], prod(a.shape[1:])
        similar = ops.not_equal(class_indices(ctx, labels, (batch,), "pair"), 0)
        difference = ops.reshape(a, shape=(batch, size)) - ops.reshape(b, shape=(batch, size))
        square = ops.sum(ops.square(difference), axis=1)
        apart = ops.relu(self.margin - square) if self.legacy_version else self._gap(square)
        return ops.sum(ops.where(similar, square, apart), axis=None) * (0.5 / max(batch, 1))

    def _gap(self, square: ArrayValue) -> Any:
        """max(0, margin - d)^2 for d^2."""
        if not self.gradient_epsilon:
            return ops.square(ops.relu(self.margin - ops.sqrt(ops.maximum(square, 1e-30))))
        distance = ops.sqrt(ops.stop_gradient(square))
        gap = ops.relu(self.margin - distance)
        derivative = gap / (distance + self.gradient_epsilon)
        return ops.square(gap) - derivative * (square - ops.stop_gradient(square))
