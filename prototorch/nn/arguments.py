"""The arguments that modules and functions share: sizes for each dimension, reductions, batches of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.errors import ModelWarning, ShapeError, UsageError, warn_user

__all__ = ["as_sizes", "as_tuple", "check_dtype", "check_input", "note_dense_gradients", "with_batch"]


def as_sizes(value: Any, rank: int, name: str, least: int = 0) -> tuple[int, ...]:
    """An integer, or ``rank`` integers, as a tuple. Raises UsageError for anything else, and for one below
    ``least``."""
    sizes = as_tuple(value, rank, name)
    if len(sizes) != rank:
        raise UsageError(f"{name} must be one integer or {rank}, got {len(sizes)}: {value!r:.60}")
    if any(n < least for n in sizes):
        raise UsageError(f"{name} must be at least {least}, got {value!r:.60}")
    return sizes


def as_tuple(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """An integer repeated, or the integers of a sequence. Raises UsageError for what is no integer."""
    values = value if isinstance(value, tuple | list) else (value,) * rank
    if len(values) == 1 and rank > 1:
        values = (values[0],) * rank
    try:
        if any(isinstance(n, bool) for n in values):
            raise TypeError
        return tuple(n.__index__() for n in values)
    except (AttributeError, TypeError):
        expected = "an integer" if rank == 1 else "an integer or several"
        raise UsageError(f"{name} must be {expected}, got {value!r:.60}") from None


def check_input(x: Any, name: str) -> None:
    """Raises UsageError for what is no tensor."""
    if getattr(x, "interpreter", None) is None:
        raise UsageError(f"{name}: expected a tensor, got {type(x).__name__}; make one of it by pt.tensor(...)")


def check_dtype(x: Any, parameter: Any, name: str) -> None:
    """Raises UsageError for an input of another element type than a module's parameters."""
    if x.spec.dtype != parameter.spec.dtype:
        raise UsageError(
            f"{name}: the input is {x.dtype!r}, the parameters are {parameter.dtype!r}: cast one of them, by "
            "input.to(dtype) or module.to(dtype)"
        )


def with_batch(x: Any, rank: int, name: str, function: Callable[[Any], Any], channels: bool = True) -> Any:
    """``function(x)`` of [batch, channels, and ``rank`` dimensions]; an x without the batch gets one of 1, which the
    result (or each of several) loses again. Raises ShapeError for another number of dimensions."""
    check_input(x, name)
    full = rank + 1 + channels
    if x.ndim == full:
        return function(x)
    if x.ndim != full - 1:
        raise ShapeError(
            f"{name}: expected an input of {full} dimensions (batch, {'channels, ' if channels else ''}{rank} "
            f"spatial), or {full - 1} without the batch, got {list(x.shape)}"
        )
    result = function(ops.expand_dims(x, axis=0))
    if isinstance(result, tuple):
        return tuple(ops.squeeze(part, axis=0) for part in result)
    return ops.squeeze(result, axis=0)


def note_dense_gradients(name: str) -> None:
    """Warn that ``sparse=True`` changes nothing."""
    warn_user(f"{name}(sparse=True): gradients are dense tensors here, of the same numbers", ModelWarning)
