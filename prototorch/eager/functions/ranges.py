"""Sequences of numbers and the identity: arange, linspace, logspace, eye."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototorch.eager.dims import as_int
from prototorch.eager.dtype import as_dtype, get_default_dtype
from prototorch.eager.functions.filling import check_creation
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.operands import write_out
from prototorch.eager.registry import tensor_function
from prototorch.eager.scalars import check_number
from prototorch.errors import ResourceError, UsageError

__all__ = ["arange", "eye", "linspace", "logspace"]

_LARGEST = 1 << 40  #: elements; more is a mistake in a bound


def _number(value: Any, name: str, what: str) -> Any:
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, bool | int | float):
        raise UsageError(f"{name}: {what} must be a number, got {value!r:.60}")
    return number


def _finish(
    array: np.ndarray, name: str, dtype: Any, device: Any, requires_grad: bool, out: Any, options: dict[str, Any]
) -> Any:
    check_creation(name, options)
    result = interpreter_for(device).constant(array.astype(str(dtype)))
    if out is not None:
        return write_out(result, out, name)
    if requires_grad:
        result.requires_grad = True
    return result


@tensor_function(method=False)
def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """The numbers start, start + step, ... below end; ``arange(end)`` begins at 0 (torch.arange).

    dtype: int64 where all are integers, else float32 (`set_default_dtype`). Raises UsageError for a step of 0 or one
    that leads away from ``end``.
    """
    if end is None:
        start, end = 0, start
    first, last, by = (_number(v, "arange", w) for v, w in ((start, "start"), (end, "end"), (step, "step")))
    if by == 0 or not all(map(math.isfinite, (first, last, by))):
        raise UsageError(f"arange: start, end and step must be finite and step not 0, got {first}, {last} and {by}")
    if (last - first) * by < 0:
        raise UsageError(f"arange: a step of {by} does not lead from {first} to {last}")
    is_integer = all(isinstance(v, int) for v in (first, last, by))
    target = as_dtype(dtype) if dtype is not None else as_dtype("int64") if is_integer else get_default_dtype()
    target = out.dtype if dtype is None and out is not None else target
    if target == "int64":
        first, last, by = int(first), int(last), int(by)
    if int(by) == 0 and not target.is_floating_point:
        raise UsageError(f"arange: a step of {step} is 0 in {target!r}")
    # only int64 drops the fractions before the elements are counted, as in PyTorch
    count = -((first - last) // by) if target == "int64" else math.ceil((last - first) / by)
    if not target.is_floating_point:
        first, by = int(first), int(by)
    if count > _LARGEST:
        raise ResourceError(f"arange: {count} elements from {first} to {last}")
    numbers = first + np.arange(count, dtype="float64" if target.is_floating_point else "int64") * by
    return _finish(numbers, "arange", target, device, requires_grad, out, options)


def _spaced(name: str, start: Any, end: Any, steps: Any, dtype: Any, out: Any) -> tuple[np.ndarray, Any]:
    first, last = _number(start, name, "start"), _number(end, name, "end")
    count = as_int(steps, name, "steps")
    if not 0 <= count <= _LARGEST:
        raise UsageError(f"{name}: the number of steps must not be negative, got {count}")
    target = as_dtype(dtype) if dtype is not None else get_default_dtype() if out is None else out.dtype
    if not target.is_floating_point:
        for end_ in (first, last):
            check_number(end_, target, name)
        first, last = int(first), int(last)
    half = np.arange(count, dtype="float64")
    width = (last - first) / (count - 1) if count > 1 else 0.0
    numbers = np.where(half < count / 2, first + width * half, last - width * (count - 1 - half))
    return (numbers if count > 1 else np.full(count, float(first))), target


@tensor_function(method=False)
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """``steps`` numbers at equal distances from start to end, both included (torch.linspace)."""
    numbers, target = _spaced("linspace", start, end, steps, dtype, out)
    return _finish(numbers, "linspace", target, device, requires_grad, out, options)


@tensor_function(method=False)
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """``base`` to the power of ``steps`` numbers at equal distances from start to end (torch.logspace)."""
    numbers, target = _spaced("logspace", start, end, steps, dtype, out)
    with np.errstate(all="ignore"):
        powers = np.power(float(base), numbers)
    return _finish(powers, "logspace", target, device, requires_grad, out, options)


@tensor_function(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """A matrix [n, m] (m: default n) with ones on the diagonal, else zeros (torch.eye)."""
    rows = as_int(n, "eye", "n")
    columns = rows if m is None else as_int(m, "eye", "m")
    if rows < 0 or columns < 0:
        raise UsageError(f"eye: sizes must not be negative, got {rows} and {columns}")
    target = as_dtype(dtype) if dtype is not None else get_default_dtype() if out is None else out.dtype
    return _finish(np.eye(rows, columns), "eye", target, device, requires_grad, out, options)
