"""Losses of margins: of classes, of pairs, of triplets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.operands import cast_to, promote_to_float
from prototorch.eager.value_bounds import bounded
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input
from prototorch.nn.functional.linear import pairwise_distance
from prototorch.nn.reduction import check_pair, check_reduction, reduce_loss

__all__ = ["cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
           "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_loss",
           "triplet_margin_with_distance_loss"]  # fmt: skip


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    reduction = check_reduction("hinge_embedding_loss", reduction, size_average, reduce)
    check_input(input, "hinge_embedding_loss")
    far = ops.where(ops.not_equal(target, 1), ops.relu(margin - input), 0.0)
    near = ops.where(ops.not_equal(target, -1), input, 0.0)
    return reduce_loss(far + near, reduction)


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, -target * (input1 - input2) + margin), with a target of 1 or -1."""
    reduction = check_reduction("margin_ranking_loss", reduction, size_average, reduce)
    check_input(input1, "margin_ranking_loss")
    if len({input1.ndim, input2.ndim, target.ndim}) > 1:
        raise ShapeError(
            f"margin_ranking_loss: expected inputs and target of one number of dimensions, got {list(input1.shape)}, "
            f"{list(input2.shape)} and {list(target.shape)}"
        )
    return reduce_loss(_hinge(-target * (input1 - input2) + margin), reduction)


def _hinge(x: Any) -> Any:
    """max(0, x), with PyTorch's gradient of 1 at 0."""
    return ops.where(ops.greater_equal(x, 0), x, ops.zeros_like(x))


def soft_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """log(1 + exp(-target * input)), with a target of 1 or -1."""
    reduction = check_reduction("soft_margin_loss", reduction, size_average, reduce)
    input, target = check_pair("soft_margin_loss", input, target, must_match=True)
    return reduce_loss(ops.softplus(-target * input), reduction)


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1: inputs [batch, n], target
    [batch]; or [n] and a target without dimensions."""
    reduction = check_reduction("cosine_embedding_loss", reduction, size_average, reduce)
    check_input(input1, "cosine_embedding_loss")
    if target.ndim + 1 != input1.ndim or target.ndim + 1 != input2.ndim or target.ndim > 1:
        raise ShapeError(
            f"cosine_embedding_loss: expected inputs [batch, n] and a target [batch], got {list(input1.shape)}, "
            f"{list(input2.shape)} and {list(target.shape)}"
        )
    input1, input2 = promote_to_float("cosine_embedding_loss", input1, input2)
    axis, target = input1.ndim - 1, cast_to(target, input1.dtype)
    square = lambda x: ops.sum(ops.square(x), axis=axis) + 1e-12  # noqa: E731
    cosine = ops.sum(input1 * input2, axis=axis) / ops.sqrt(square(input1) * square(input2))
    near = ops.where(ops.equal(target, 1), 1 - cosine, 0.0)
    far = ops.where(ops.equal(target, -1), _hinge(cosine - margin), 0.0)
    return reduce_loss(near + far, reduction)


def _labels(name: str, input: Any, target: Any, per_row: int) -> tuple[Any, Any]:
    check_input(input, name)
    check_input(target, name)
    if not input.ndim and not target.ndim:
        input, target = ops.reshape(input, shape=(1,)), ops.reshape(target, shape=(1,) * per_row)
    if input.ndim not in (1, 2) or target.ndim != input.ndim - 1 + per_row:
        raise ShapeError(
            f"{name}: expected an input [batch, classes] or [classes] with a target to fit, got "
            f"{list(input.shape)} and {list(target.shape)}"
        )
    if str(target.dtype) != "int64":
        raise UsageError(f"{name}: labels must be int64, got {target.dtype}: use .long()")
    classes = input.shape[-1]
    message = f"{name}: labels must lie in 0 .. {classes - 1}, got {{}}"
    target = bounded(target, classes, message, low=-1 if per_row else 0, waits_for_device=True)
    if input.ndim == 1:
        return ops.expand_dims(input, axis=0), ops.expand_dims(target, axis=0)
    return input, target


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The sum over other classes of max(0, margin - input[label] + input[class])^p, divided by the number of classes:
    input [batch, classes], target [batch]; or [classes] and a target [] or [1]. p: 1 or 2. weight: a factor for each
    class."""
    reduction = check_reduction("multi_margin_loss", reduction, size_average, reduce)
    if p not in (1, 2):
        raise UsageError(f"multi_margin_loss: p must be 1 or 2, got {p!r:.60}")
    check_input(input, "multi_margin_loss")
    if input.ndim == 1 and tuple(getattr(target, "shape", ())) == (1,):
        input = ops.expand_dims(input, axis=0)
    x, labels = _labels("multi_margin_loss", input, target, 0)
    classes = x.shape[1]
    own = ops.take_along_axis(x, ops.expand_dims(labels, axis=-1))
    z = _hinge(x - own + margin)
    z = ops.square(z) if p == 2 else z
    if weight is not None:
        z = z * ops.reshape(ops.take(ops.reshape(weight, shape=(classes, 1)), labels), shape=(labels.shape[0], 1))
    others = 1 - ops.one_hot(labels, classes=classes, dtype=str(x.dtype))
    loss = ops.sum(z * others, axis=1) * (1 / classes)
    return reduce_loss(loss if input.ndim == 2 else ops.squeeze(loss, axis=0), reduction)


def multilabel_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """The sum over labels and other classes of max(0, 1 - input[label] + input[class]), divided by the number of
    classes: input and target [batch, classes]; a row's labels are those before its first -1."""
    reduction = check_reduction("multilabel_margin_loss", reduction, size_average, reduce)
    x, labels = _labels("multilabel_margin_loss", input, target, 1)
    if tuple(x.shape) != tuple(labels.shape):
        raise ShapeError(
            f"multilabel_margin_loss: the target {list(labels.shape)} must have the input's shape {list(x.shape)}"
        )
    classes = x.shape[1]
    ended = ops.cumsum(ops.cast(ops.less(labels, 0), dtype="int64"), axis=1)
    is_label = ops.cast(ops.equal(ended, 0), dtype=str(x.dtype))
    at = ops.maximum(labels, 0)
    one_hot = ops.one_hot(at, classes=classes, dtype=str(x.dtype)) * ops.expand_dims(is_label, axis=-1)
    is_other = 1 - ops.max(one_hot, axis=1)
    own = ops.take_along_axis(x, at)
    z = _hinge(1 - ops.expand_dims(own, axis=-1) + ops.expand_dims(x, axis=1))
    counted_pairs = ops.expand_dims(is_label, axis=-1) * ops.expand_dims(is_other, axis=1)
    loss = ops.sum(z * counted_pairs, axis=(1, 2)) * (1 / classes)
    return reduce_loss(loss if input.ndim == 2 else ops.squeeze(loss, axis=0), reduction)


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The mean over classes of the binary cross entropy of sigmoid(input) with targets 0 and 1."""
    reduction = check_reduction("multilabel_soft_margin_loss", reduction, size_average, reduce)
    check_input(input, "multilabel_soft_margin_loss")
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduce_loss(ops.mean(loss, axis=loss.ndim - 1), reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), with the p-norm as distance over the last dimension.
    swap: the smaller of the negative's distances to the anchor and to the positive counts."""
    reduction = check_reduction("triplet_margin_loss", reduction, size_average, reduce)
    distance = lambda a, b: pairwise_distance(a, b, p, eps)  # noqa: E731
    return _triplet("triplet_margin_loss", anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """As `triplet_margin_loss`, with a distance of one's own; default `pairwise_distance`."""
    reduction = check_reduction("triplet_margin_with_distance_loss", reduction)
    return _triplet(
        "triplet_margin_with_distance_loss",
        anchor,
        positive,
        negative,
        distance_function or pairwise_distance,
        margin,
        swap,
        reduction,
    )


def _triplet(
    name: str,
    anchor: Any,
    positive: Any,
    negative: Any,
    distance: Callable[[Any, Any], Any],
    margin: float,
    swap: bool,
    reduction: str,
) -> Any:
    for tensor in (anchor, positive, negative):
        check_input(tensor, name)
    if len({anchor.ndim, positive.ndim, negative.ndim}) > 1:
        raise ShapeError(
            f"{name}: anchor {list(anchor.shape)}, positive {list(positive.shape)} and negative "
            f"{list(negative.shape)} must have one number of dimensions"
        )
    if margin <= 0:
        raise UsageError(f"{name}: margin must be positive, got {margin}")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduce_loss(_hinge(near - far + margin), reduction)
