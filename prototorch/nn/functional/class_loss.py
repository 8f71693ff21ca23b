"""Losses of classes: negative log likelihood, cross entropy, binary cross entropy."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.value_bounds import bounded, bounded_values
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input
from prototorch.nn.reduction import check_reduction, reduce_loss

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"]


def _class_axis(name: str, input: Any) -> int:
    check_input(input, name)
    if not input.ndim:
        raise ShapeError(f"{name}: expected an input [classes] or [batch, classes, ...], got no dimension")
    return 0 if input.ndim == 1 else 1


def _class_shape(input: Any, axis: int) -> tuple[int, ...]:
    return tuple(n for k, n in enumerate(input.shape) if k != axis)


def _picked(values: Any, labels: Any, axis: int) -> Any:
    """Of each row of classes the element of the label."""
    order = (*(k for k in range(values.ndim) if k != axis), axis)
    last = ops.transpose(values, order=order) if axis != values.ndim - 1 else values
    return ops.squeeze(ops.take_along_axis(last, ops.expand_dims(labels, axis=-1)), axis=-1)


def _likelihood(
    name: str, log_probabilities: Any, target: Any, weight: Any, ignore_index: int, axis: int
) -> tuple[Any, Any, Any]:
    """The elements' losses, their weights, and the labels with 0 for those that are ignored."""
    classes = log_probabilities.shape[axis]
    if tuple(target.shape) != _class_shape(log_probabilities, axis):
        raise ShapeError(
            f"{name}: the labels {list(target.shape)} must have the input's shape {list(log_probabilities.shape)} "
            "without the classes"
        )
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(f"{name}: expected a weight for each of {classes} classes, got {list(weight.shape)}")
    is_counted = ops.not_equal(target, ignore_index)
    labels = bounded(
        ops.where(is_counted, target, ops.zeros_like(target)),
        classes,
        f"{name}: labels must lie in 0 .. {classes - 1} (or be ignore_index {ignore_index}), got {{}}",
        waits_for_device=True,
    )
    counted_weights = ops.cast(is_counted, dtype=str(log_probabilities.dtype))
    weights = (
        counted_weights
        if weight is None
        else ops.reshape(ops.take(ops.reshape(weight, shape=(classes, 1)), labels), shape=tuple(labels.shape))
        * counted_weights
    )
    loss = -_picked(log_probabilities, labels, axis)
    return ops.where(is_counted, loss * weights, ops.zeros_like(loss)), weights, labels


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The negative log probability of the label: input [batch, classes, ...] of log probabilities (or [classes]),
    target of int64 labels [batch, ...].

    weight: a factor for each class, by whose sum the mean divides. ignore_index: a label that does not count. Raises
    IndexRangeError for a label that is no class, ShapeError and UsageError for what does not fit.
    """
    reduction = check_reduction("nll_loss", reduction, size_average, reduce)
    axis = _class_axis("nll_loss", input)
    check_input(target, "nll_loss")
    _check_integer("nll_loss", target)
    loss, weights, _ = _likelihood("nll_loss", input, target, weight, ignore_index, axis)
    return ops.sum(loss) / ops.sum(weights) if reduction == "mean" else reduce_loss(loss, reduction)


def _check_integer(name: str, target: Any) -> None:
    if str(target.dtype) not in ("int64", "uint8"):
        raise UsageError(f"{name}: labels must be int64, got {target.dtype}: use .long()")


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The cross entropy of logits [batch, classes, ...] (or [classes]) with int64 labels [batch, ...], or with
    probabilities of the input's shape.

    weight: a factor for each class. ignore_index: a label that does not count. label_smoothing: the part of the
    probability, in [0, 1], that is spread over all classes. Raises IndexRangeError for a label that is no class,
    ShapeError and UsageError for what does not fit.
    """
    reduction = check_reduction("cross_entropy", reduction, size_average, reduce)
    axis = _class_axis("cross_entropy", input)
    check_input(target, "cross_entropy")
    if not 0 <= label_smoothing <= 1:
        raise UsageError(f"cross_entropy: label_smoothing must lie in [0, 1], got {label_smoothing}")
    classes = input.shape[axis]
    log_probabilities = ops.log_softmax(input, axis=axis)
    by_class = None
    if weight is not None:
        if tuple(weight.shape) != (classes,):
            raise ShapeError(
                f"cross_entropy: expected a weight for each of {classes} classes, got {list(weight.shape)}"
            )
        by_class = ops.reshape(weight, shape=tuple(classes if k == axis else 1 for k in range(input.ndim)))
    if target.spec.is_float:
        if tuple(target.shape) != tuple(input.shape):
            raise ShapeError(
                f"cross_entropy: probabilities {list(target.shape)} must have the input's shape {list(input.shape)}; "
                "labels are int64"
            )
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / classes
        weighted = log_probabilities if by_class is None else log_probabilities * by_class
        loss = -ops.sum(weighted * target, axis=axis)
        if reduction == "mean":
            return ops.sum(loss) * (1 / max(loss.spec.size, 1))
        return reduce_loss(loss, reduction)
    _check_integer("cross_entropy", target)
    loss, weights, _ = _likelihood("cross_entropy", log_probabilities, target, weight, ignore_index, axis)
    total = ops.sum(weights)
    if not label_smoothing:
        return ops.sum(loss) / total if reduction == "mean" else reduce_loss(loss, reduction)
    uniform_loss = -ops.sum(log_probabilities if by_class is None else log_probabilities * by_class, axis=axis)
    uniform_loss = ops.where(ops.not_equal(target, ignore_index), uniform_loss, ops.zeros_like(uniform_loss))
    both = loss * (1 - label_smoothing) + uniform_loss * (label_smoothing / classes)
    return ops.sum(both) / total if reduction == "mean" else reduce_loss(both, reduction)


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """-(t log p + (1 - t) log(1 - p)) of probabilities p and targets t; logarithms are at least -100. weight: a factor
    of each element, which broadcasts.

    Raises UsageError for a probability outside [0, 1], ShapeError for other shapes.
    """
    reduction = check_reduction("binary_cross_entropy", reduction, size_average, reduce)
    _check_same("binary_cross_entropy", input, target)
    words = "binary_cross_entropy: probabilities must lie in [0, 1], got {}; take the one with logits"
    input = bounded_values(input, words, 0, 1)
    variance = input * (1 - input)
    is_inside = ops.greater_equal(variance, 1e-12)
    safe = ops.where(is_inside, input, 0.5)
    inside = -(target * ops.log(safe) + (1 - target) * ops.log(1 - safe))
    logs = _limited_log(input), _limited_log(1 - input)
    factor = ops.stop_gradient((input - target) * 1e12)  # PyTorch's gradient divides by 1e-12 at least
    at_border = -(target * logs[0] + (1 - target) * logs[1]) + (input - ops.stop_gradient(input)) * factor
    loss = ops.where(is_inside, inside, at_border)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def _limited_log(p: Any) -> Any:
    """log(p), at least -100, without a gradient."""
    least = 1e-300 if str(p.dtype) == "float64" else 1e-37
    logs = ops.maximum(ops.log(ops.maximum(p, least)), -100.0)
    return ops.stop_gradient(ops.where(ops.less(p, least), -100.0, logs))


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """`binary_cross_entropy` of sigmoid(input), without overflow. pos_weight: a factor of positive targets, which
    broadcasts."""
    reduction = check_reduction("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    _check_same("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        loss = ops.softplus(input) - input * target
    else:
        factor = (pos_weight - 1) * target + 1
        loss = (1 - target) * input + factor * ops.softplus(-input)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def _check_same(name: str, input: Any, target: Any) -> None:
    check_input(input, name)
    check_input(target, name)
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(f"{name}: the target {list(target.shape)} must have the input's shape {list(input.shape)}")
