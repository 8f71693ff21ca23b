"""Losses of classes as layers: of logits, of probabilities, and with a matrix of gains."""

from __future__ import annotations

from math import log, prod
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.loss_terms import (
    Normalization,
    canonical_axis,
    class_indices,
    classes_last,
    floor_value,
    normalization_field,
    normalized_sum,
    pick_class,
)
from prototorch.schema import example, field

_SCALAR: dict[str, Any] = {"batched": False, "batch_axis": False}
_INDICES = ("float32", "int32")
_FLOOR_DOC = (
    "The smallest probability that counts in the loss; a smaller one counts as this one, while the gradient is that "
    "without a floor. 0: none."
)


class _SoftmaxLoss(Layer):
    channel_axis_note = "its field `axis` says where the classes are: axis 1, as in Caffe"
    axis: int = field(default=1, doc="The axis of the classes, the batch dimension being 0.")
    ignore_class: int | None = field(
        default=None, min=-(1 << 31), max=(1 << 31) - 1, doc="A label whose positions do not count."
    )
    normalization: Normalization = normalization_field("valid")
    min_probability: float = field(default=0.0, min=0, below=1, doc=_FLOOR_DOC)

    def labels_and_mask(self, ctx: Context, x: ArrayValue, labels: ArrayValue, axis: int) -> tuple[Any, Any]:
        """The class indices, in the shape of x without the axis, 0 where they are ignored, and where they count."""
        indices = class_indices(ctx, labels, (*x.shape[:axis], *x.shape[axis + 1 :]))
        if self.ignore_class is None:
            return indices, None
        valid = ops.not_equal(indices, self.ignore_class)
        return ops.where(valid, indices, ops.zeros_like(indices)), valid


class SoftmaxCrossentropyLoss(_SoftmaxLoss):
    """The mean of -log(softmax(x)[label]): the loss of logits and class indices, as a layer (Caffe's SoftmaxWithLoss).

    Inputs: x [batch, ..., classes, ...], the classes along ``axis``, and labels, one for each position, of any shape
    with as many elements: integers, or floating-point numbers that are cut off towards 0. Output: a scalar []. A label
    that is no class gives NaN. Add it to the training loss with AddLoss.
    """

    inputs = 2
    examples = [
        example("SoftmaxCrossentropyLoss { }", inputs=[(5,), ()], dtype=_INDICES, range=((-2, 2), (0, 5)), **_SCALAR),
        example("SoftmaxCrossentropyLoss { ignore_class: 1  min_probability: 1e-30 }", inputs=[(3, 2), (1, 2)],
                dtype=_INDICES, range=((-2, 2), (0, 3)), **_SCALAR),
        example('SoftmaxCrossentropyLoss { axis: -1  normalization: "batch_size" }', inputs=[(2, 4), (2,)],
                dtype=_INDICES, range=((-2, 2), (0, 4)), **_SCALAR),
    ]  # fmt: skip

    def call(self, ctx: Context, x: ArrayValue, labels: ArrayValue) -> Any:
        axis = canonical_axis(ctx, x, self.axis)
        indices, valid = self.labels_and_mask(ctx, x, labels, axis)
        values = ops.sparse_softmax_cross_entropy(classes_last(x, axis), indices)
        if self.min_probability:
            values = -floor_value(-values, log(self.min_probability))
        return normalized_sum(values, valid, self.normalization, prod(x.shape[:axis]))


class InfogainLoss(_SoftmaxLoss):
    """The mean of -sum over l of H[label, l] log(softmax(x)[l]): a gain for each pair of classes (Caffe's
    InfogainLoss).

    Inputs: x and labels as those of SoftmaxCrossentropyLoss, and H of classes^2 elements, row by row, unless
    ``matrix`` holds it. With the unit matrix it is SoftmaxCrossentropyLoss. Output: a scalar [], and with
    ``return_probabilities`` softmax(x).
    """

    inputs = (2, 3)
    matrix: list[float] | None = field(default=None, doc="H, row by row; none: it is the third input.")
    return_probabilities: bool = field(default=False, doc="Whether to give softmax(x), too.")
    examples = [
        example("InfogainLoss { matrix: [1, 0.5, 0, 2] }", inputs=[(2,), ()], dtype=_INDICES, range=((-2, 2), (0, 2)),
                **_SCALAR),
        example('InfogainLoss { axis: 2  ignore_class: 2  normalization: "full"  return_probabilities: true  '
                "matrix: [1, 0, 0.5, 0, 2, 0, 0.25, 0, 1] }", inputs=[(2, 3), (2,)], dtype=_INDICES,
                range=((-2, 2), (0, 3)), **_SCALAR),
    ]  # fmt: skip

    def output_count(self) -> int:
        return 1 + self.return_probabilities

    def call(self, ctx: Context, x: ArrayValue, labels: ArrayValue, *gains: ArrayValue) -> Any:
        axis = canonical_axis(ctx, x, self.axis)
        classes = x.shape[axis]
        if bool(gains) == (self.matrix is not None):
            ctx.fail(
                "H is either the third input or the field matrix"
                if gains
                else "it needs H: a third input, or the field matrix"
            )
        size = prod(gains[0].shape) if gains else len(self.matrix or ())
        if size != classes * classes:
            ctx.fail(f"H has {size} elements; {classes} classes need {classes} x {classes}")
        table = gains[0] if gains else np.asarray(self.matrix, dtype=x.dtype)
        table = ops.reshape(table, shape=(classes, classes))
        indices, valid = self.labels_and_mask(ctx, x, labels, axis)
        terms = ops.log_softmax(classes_last(x, axis), axis=-1)
        if self.min_probability:
            terms = floor_value(terms, log(self.min_probability))
        values = -ops.sum(ops.take(table, indices) * terms, axis=-1)
        loss = normalized_sum(values, valid, self.normalization, prod(x.shape[:axis]))
        return (loss, ops.softmax(x, axis=axis)) if self.return_probabilities else loss


class MultinomialLogisticLoss(Layer):
    """The mean over the batch of -log(p[label]), for probabilities p (Caffe's MultinomialLogisticLoss).

    Inputs: p [batch, ...], whose elements of a sample are the classes, and a label for each sample, [batch] or
    [batch, 1, ...]. Output: a scalar []. A label that is no class gives NaN.
    """

    channel_axis_note = "all elements of a sample are the classes, as in Caffe"
    inputs = 2
    min_probability: float = field(
        default=0.0,
        min=0,
        below=1,
        doc="The smallest probability that counts; a smaller one has the gradient of log p at this one. 0: none.",
    )
    examples = [
        example("MultinomialLogisticLoss { }", inputs=[(4,), (1,)], dtype=_INDICES, range=((0.1, 1), (0, 4)),
                **_SCALAR),
        example("MultinomialLogisticLoss { min_probability: 1e-20 }", inputs=[(2, 2), ()], dtype=_INDICES,
                range=((0.1, 1), (0, 4)), **_SCALAR),
    ]  # fmt: skip

    def call(self, ctx: Context, x: ArrayValue, labels: ArrayValue) -> Any:
        batch = x.shape[0]
        indices = class_indices(ctx, labels, (batch, 1), "sample")
        rows = ops.reshape(x, shape=(batch, prod(x.shape[1:])))
        picked = pick_class(rows, indices)
        if self.min_probability:
            picked = floor_value(picked, self.min_probability)
        return -ops.sum(ops.log(picked), axis=None) * (1.0 / max(batch, 1))
