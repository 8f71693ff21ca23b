"""What losses have in common: the reduction, its older arguments, and inputs of one shape."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import ModelWarning, ShapeError, UsageError, warn_user
from prototorch.nn.arguments import check_input

__all__ = ["check_pair", "check_reduction", "reduce_loss"]

_REDUCTIONS = ("mean", "sum", "none")


def check_reduction(name: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction; the older ``size_average`` and ``reduce`` become one, with a warning. Raises UsageError for
    another one than "mean", "sum" and "none"."""
    if size_average is not None or reduce is not None:
        mean = size_average is None or bool(size_average)
        reduction = ("mean" if mean else "sum") if reduce is None or reduce else "none"
        warn_user(
            f"{name}: size_average and reduce are PyTorch's older arguments: write reduction={reduction!r}",
            ModelWarning,
        )
    if reduction not in _REDUCTIONS:
        raise UsageError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r:.60}")
    return reduction


def reduce_loss(loss: Any, reduction: str) -> Any:
    """The mean, the sum, or the elements themselves."""
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def check_pair(name: str, input: Any, target: Any, must_match: bool = False) -> tuple[Any, Any]:
    """Input and target with one shape; others are broadcast with a warning, or refused with ``must_match``."""
    check_input(input, name)
    check_input(target, name)
    if tuple(input.shape) == tuple(target.shape):
        return input, target
    if must_match:
        raise ShapeError(f"{name}: the target {list(target.shape)} must have the input's shape {list(input.shape)}")
    warn_user(
        f"{name}: the target has the shape {list(target.shape)}, the input {list(input.shape)}: they are broadcast, "
        "which is seldom meant; give them one shape",
        ModelWarning,
    )
    wide, other = FUNCTIONS["broadcast_tensors"](input, target)
    return wide, other
