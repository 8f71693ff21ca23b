"""What layers that compute a loss have in common: class indices, floors under probabilities, and the normalizer."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import field

Normalization = Literal["valid", "full", "batch_size", "none"]

NORMALIZATION_DOC = (
    "What the sum is divided by: valid the positions that are not ignored, full all positions, batch_size the "
    "samples, none 1; at least 1 in each case."
)


def normalization_field(default: Normalization) -> Any:
    """The field ``normalization`` of a loss layer."""
    return field(default=default, doc=NORMALIZATION_DOC)


def canonical_axis(ctx: Context, x: ArrayValue, axis: int) -> int:
    """An axis of x, the batch's included, as a non-negative index. ShapeError where there is none."""
    if not -x.ndim <= axis < x.ndim:
        ctx.fail(f"axis {axis} does not exist: the axes of {list(x.shape)} are 0 to {x.ndim - 1}")
    return axis % x.ndim


def classes_last(x: ArrayValue, axis: int) -> Any:
    """x with an axis moved to the end."""
    if axis == x.ndim - 1:
        return x
    return ops.transpose(x, order=(*(i for i in range(x.ndim) if i != axis), axis))


def class_indices(ctx: Context, labels: ArrayValue, shape: tuple[int, ...], what: str = "position") -> Any:
    """Labels of any shape of so many elements as int32 of this shape; floating-point ones are cut off towards 0."""
    if prod(labels.shape) != prod(shape):
        ctx.fail(
            f"it has {prod(labels.shape)} labels of shape {list(labels.shape)} for {prod(shape)} {what}s of shape "
            f"{list(shape)}: expected one label for each {what}"
        )
    if tuple(labels.shape) != shape:
        labels = ops.reshape(labels, shape=shape)
    return labels if labels.dtype == "int32" else ops.cast(labels, dtype="int32")


def pick_class(x: ArrayValue, indices: ArrayValue) -> Any:
    """The elements of x [..., classes] at int32 indices [..., 1]. The executor refuses an index that is no class; where
    nothing checks it, the element is NaN."""
    classes = x.shape[-1]
    indices = bounded_label(indices, classes)
    is_class = ops.logical_and(ops.greater_equal(indices, 0), ops.less(indices, classes))
    picked = ops.take_along_axis(x, ops.where(is_class, indices, ops.zeros_like(indices)))
    return ops.where(is_class, picked, ops.full(shape=(), value=float("nan"), dtype=x.dtype))


def bounded_label(labels: ArrayValue, classes: int) -> Any:
    """Labels as they are; the executor refuses those that are no class."""
    message = f"the label {{}} is none of the {classes} classes, which count from 0"
    return ops.bounded_index(labels, size=classes, message=message)


def floor_value(x: ArrayValue, low: float) -> Any:
    """max(x, low), with the gradient of x also where low counts."""
    return x + ops.stop_gradient(ops.maximum(x, low) - x)


def normalized_sum(values: ArrayValue, valid: Any, normalization: str, batch_size: int) -> Any:
    """The sum of the values over all positions that are valid (bool of the same shape; None: all), over the
    normalizer. A scalar []."""
    if valid is not None:
        values = ops.where(valid, values, ops.zeros_like(values))
    total = ops.sum(values, axis=None)
    if normalization == "valid" and valid is not None:
        count = ops.sum(ops.cast(valid, dtype=values.dtype), axis=None)
        return total / ops.maximum(count, 1.0)
    count = {"none": 1, "batch_size": batch_size}.get(normalization, prod(values.shape))
    return total * (1.0 / max(count, 1))
