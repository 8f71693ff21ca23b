"""Losses of numbers: the difference of an input and a target, and likelihoods."""

from __future__ import annotations

import math
from typing import Any

from prototorch import ops
from prototorch.eager.operands import promote, promote_to_float
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input
from prototorch.nn.reduction import check_pair, check_reduction, reduce_loss

__all__ = ["gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss"]


def _weighted(loss: Any, weight: Any, reduction: str, name: str) -> Any:
    if weight is None:
        return reduce_loss(loss, reduction)
    if tuple(weight.shape) != tuple(loss.shape):
        raise ShapeError(f"{name}: the weights {list(weight.shape)} must have the shape {list(loss.shape)}")
    loss = loss * weight
    return ops.sum(loss) / ops.sum(weight) if reduction == "mean" else reduce_loss(loss, reduction)


def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """(input - target)^2. weight: a factor of each element, by whose sum the mean divides."""
    reduction = check_reduction("mse_loss", reduction, size_average, reduce)
    input, target = promote("mse_loss", *check_pair("mse_loss", input, target))
    return _weighted(ops.square(input - target), weight, reduction, "mse_loss")


def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """|input - target|. weight: a factor of each element, by whose sum the mean divides."""
    reduction = check_reduction("l1_loss", reduction, size_average, reduce)
    input, target = promote("l1_loss", *check_pair("l1_loss", input, target))
    return _weighted(ops.abs(input - target), weight, reduction, "l1_loss")


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), of the difference d."""
    reduction = check_reduction("huber_loss", reduction)
    if delta <= 0:
        raise UsageError(f"huber_loss: delta must be positive, got {delta}")
    input, target = promote("huber_loss", *check_pair("huber_loss", input, target))
    d = ops.abs(input - target)
    loss = ops.where(ops.less_equal(d, delta), ops.square(d) * 0.5, (d - 0.5 * delta) * delta)
    return _weighted(loss, weight, reduction, "huber_loss")


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, of the difference d."""
    reduction = check_reduction("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise UsageError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    input, target = promote("smooth_l1_loss", *check_pair("smooth_l1_loss", input, target))
    d = ops.abs(input - target)
    if not beta:
        return reduce_loss(d, reduction)
    return reduce_loss(ops.where(ops.less(d, beta), ops.square(d) * (0.5 / beta), d - 0.5 * beta), reduction)


def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target * (log(target) - input), of an input of log probabilities; with ``log_target`` the target is one, too.

    reduction: also "batchmean", the sum divided by the number of samples.
    """
    per_sample = reduction == "batchmean"
    reduction = "sum" if per_sample else check_reduction("kl_div", reduction, size_average, reduce)
    input, target = check_pair("kl_div", input, target)
    if log_target:
        loss = ops.exp(target) * (target - input)
    else:
        is_zero = ops.equal(target, 0)
        safe = ops.where(is_zero, ops.ones_like(target), target)
        loss = ops.where(is_zero, ops.zeros_like(target), target * ops.log(safe)) - target * input
    loss = reduce_loss(loss, reduction)
    return loss * (1 / input.shape[0]) if per_sample and input.ndim else loss


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """exp(input) - target * input, or input - target * log(input + eps) without ``log_input``. full: Stirling's
    approximation of log(target!) is added for targets above 1."""
    reduction = check_reduction("poisson_nll_loss", reduction, size_average, reduce)
    check_input(input, "poisson_nll_loss")
    check_input(target, "poisson_nll_loss")
    input, target = promote_to_float("poisson_nll_loss", input, target)
    loss = ops.exp(input) - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        is_large = ops.greater(target, 1)
        safe = ops.where(is_large, target, ops.ones_like(target))
        stirling = safe * ops.log(safe) - safe + ops.log(safe * (2 * math.pi)) * 0.5
        loss = loss + ops.where(is_large, stirling, ops.zeros_like(target))
    return reduce_loss(loss, reduction)


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """(log(var) + (input - target)^2 / var) / 2, of variances of at least ``eps``, which have the input's shape, that
    without the last dimension, or 1 there. full: log(2 pi) / 2 is added.

    Raises UsageError for a negative variance, ShapeError for another shape.
    """
    reduction = check_reduction("gaussian_nll_loss", reduction)
    check_input(input, "gaussian_nll_loss")
    if not hasattr(var, "interpreter"):
        var = ops.broadcast_to(ops.zeros_like(input) + float(var), shape=tuple(input.shape))
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = ops.expand_dims(var, axis=-1)
        elif var.ndim != input.ndim or any(n not in (1, m) for n, m in zip(var.shape, input.shape, strict=True)):
            raise ShapeError(
                f"gaussian_nll_loss: the variances {list(var.shape)} do not fit the input {list(input.shape)}"
            )
    is_number = ops.equal(var, var)  # as in PyTorch, NaN is not refused
    checked = bounded_values(
        ops.where(is_number, var, 0.0), "gaussian_nll_loss: variances must not be negative, got {}", 0
    )
    var = ops.where(is_number, checked, var)
    limited = var + ops.stop_gradient(ops.maximum(var, eps) - var)  # the gradient is that of the variance itself
    loss = (ops.log(limited) + ops.square(input - target) / limited) * 0.5
    return reduce_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
