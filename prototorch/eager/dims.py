"""Numbers of dimensions and sizes as PyTorch's functions take them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from prototorch.errors import RangeError, ShapeError, UsageError

__all__ = ["as_float", "as_int", "as_ints", "as_shape", "dim_numbers", "given_ints", "normalize_dim"]


def as_int(value: Any, name: str, what: str) -> int:
    """An argument as an integer: Python's, NumPy's, or a tensor of one integer. Raises UsageError for others.

    name: the function, what: the argument, for the message.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise UsageError(f"{name}: {what} must be an integer, got {value!r:.60}")


def as_float(value: Any, name: str, what: str) -> float:
    """An argument as a number. Raises UsageError for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name}: {what} must be a number, got {value!r:.60}") from None


def as_ints(values: Sequence[Any], name: str, what: str) -> tuple[int, ...]:
    """Integers that are given one by one or as one sequence: ``f(2, 3)`` or ``f((2, 3))``."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        values = values[0]
    return tuple(as_int(v, name, what) for v in values)


def given_ints(values: Sequence[Any], keyword: Any, name: str, what: str) -> tuple[int, ...]:
    """As `as_ints`, of integers that may be given by a keyword argument instead."""
    if keyword is None:
        return as_ints(values, name, what)
    if values:
        raise UsageError(f"{name}: the integers are given twice, by position and by name")
    return as_ints((tuple(keyword) if isinstance(keyword, tuple | list) else (keyword,),), name, what)


def normalize_dim(dim: Any, ndim: int, name: str) -> int:
    """A number of a dimension as one from 0; negative ones count from the end. A scalar counts as one dimension.

    Raises RangeError (an IndexError) for one that is out of range, UsageError for what is no integer.
    """
    number, count = as_int(dim, name, "dim"), max(ndim, 1)
    if not -count <= number < count:
        raise RangeError(f"{name}: dim must be between {-count} and {count - 1} for {ndim} dimensions, got {number}")
    return number % count


def dim_numbers(dims: Any, ndim: int, name: str) -> tuple[int, ...]:
    """Numbers of dimensions, one or a sequence, as ones from 0 in their order; None is all of them.

    Raises RangeError for one that is out of range, ShapeError for one that is given twice.
    """
    if dims is None:
        return tuple(range(ndim))
    requested = tuple(dims) if isinstance(dims, tuple | list) else (dims,)
    numbers = tuple(normalize_dim(d, ndim, name) for d in requested)
    if len(set(numbers)) != len(numbers):
        raise ShapeError(f"{name}: the dims {list(requested)} of {ndim} dimensions name one twice")
    return numbers


def as_shape(sizes: Sequence[Any], name: str) -> tuple[int, ...]:
    """A shape that is given by its sizes or as one sequence: ``f(2, 3)`` or ``f((2, 3))``; none is negative."""
    shape = as_ints(sizes, name, "a size")
    if any(n < 0 for n in shape):
        raise ShapeError(f"{name}: sizes must not be negative, got {list(shape)}")
    return shape
