"""Bounds of values: refused at once where the elements are known, counted by the plan where a function is traced."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.engine.backends.value_guard import ValueCheck, raise_value_error
from prototorch.errors import IndexRangeError
from prototorch.ops.facts import ValueLimits

__all__ = ["bounded", "bounded_values"]


def bounded_values(
    x: Any, message: str, low: float | None = None, high: float | None = None, excludes_zero: bool = False
) -> Any:
    """A tensor of numbers that must lie in low .. high, both included; None: no limit. NaN lies outside of limits.

    message: of the error, with ``{}`` for the value outside. Raises UsageError where the elements are in memory. In a
    plan its executor raises (see `ops.bounded_values`).
    """
    interpreter, bounds = x.interpreter, ValueLimits(low, high, excludes_zero)
    if getattr(interpreter, "backend", None) is None or not interpreter.has_memory:
        limits = {"low": low, "high": high, "excludes_zero": excludes_zero or None}
        return ops.bounded_values(x, message=message, **{n: v for n, v in limits.items() if v is not None})
    raise_value_error([(ValueCheck(bounds, message), x.numpy())])
    return x


def bounded(
    index: Any, size: int, message: str, low: int = 0, wraps: bool = False, waits_for_device: bool = False
) -> Any:
    """A tensor of integers that must lie in low .. size - 1.

    wraps: negative ones count from the end, as in PyTorch's ``x[index]``; low is then -size, and the result counts from
    0. message: of the error, with ``{}`` for the index outside. Raises IndexRangeError for one, where the elements are
    in the host's memory, or the call ``waits_for_device``; elsewhere on a GPU it reads NaN and writes nothing. In a
    plan its executor raises (see `ops.bounded_index`).
    """
    interpreter = index.interpreter
    backend = getattr(interpreter, "backend", None)
    low = -size if wraps else low
    if backend is None or not interpreter.has_memory:
        return ops.bounded_index(index, size=size, message=message, low=low, wraps=wraps)
    smallest = low
    if index.spec.size and (waits_for_device or not backend.has_device_memory):
        elements = index.numpy() if backend.has_device_memory else index.array
        smallest, largest = int(elements.min()), int(elements.max())
        if smallest < low or largest >= size:
            raise IndexRangeError(message.replace("{}", str(largest if largest >= size else smallest)))
    return ops.where(ops.less(index, 0), index + size, index) if wraps and smallest < 0 else index
