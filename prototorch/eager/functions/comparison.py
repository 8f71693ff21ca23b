"""PyTorch's comparisons and logical functions, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.dtype import as_dtype
from prototorch.eager.operands import accepts_out, match_numbers, promote
from prototorch.eager.registry import tensor_function
from prototorch.errors import UsageError

__all__ = ["allclose", "equal", "isclose"]


def _as_compared(name: str, input: Any, other: Any) -> list[Any]:
    a, b = promote(name, input, other)
    return [ops.cast(v, dtype="uint8") for v in (a, b)] if str(a.dtype) == "bool" else [a, b]


#: names -> the op, what it computes
_COMPARISONS: dict[tuple[str, ...], tuple[Callable[[Any, Any], Any], str]] = {
    ("eq",): (ops.equal, "input == other"),
    ("ne", "not_equal"): (ops.not_equal, "input != other"),
    ("lt", "less"): (ops.less, "input < other"),
    ("le", "less_equal"): (ops.less_equal, "input <= other"),
    ("gt", "greater"): (ops.greater, "input > other"),
    ("ge", "greater_equal"): (ops.greater_equal, "input >= other"),
}
_LOGICAL: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "logical_and": (ops.logical_and, "input and other, where a number that is not 0 is True"),
    "logical_or": (ops.logical_or, "input or other, where a number that is not 0 is True"),
    "logical_xor": (ops.logical_xor, "Whether one of input and other is True, where a number that is not 0 is"),
}
_BITWISE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "bitwise_and": (ops.bitwise_and, "The bits that both integers have; of bool elements: and"),
    "bitwise_or": (ops.bitwise_or, "The bits that one of two integers has; of bool elements: or"),
    "bitwise_xor": (ops.bitwise_xor, "The bits that differ between two integers; of bool elements: xor"),
    "bitwise_left_shift": (ops.bitwise_left_shift, "input * 2 ** other, of integers"),
    "bitwise_right_shift": (ops.bitwise_right_shift, "The integer below input / 2 ** other, of integers"),
}


def _define(
    names: tuple[str, ...], op: Callable[[Any, Any], Any], doc: str, operands: Callable[[str, Any, Any], list[Any]]
) -> None:
    def function(input: Any, other: Any) -> Any:
        return op(*operands(names[0], input, other))

    function.__name__ = function.__qualname__ = names[0]
    function.__doc__ = f"{doc}, element by element (torch.{names[0]})."
    tensor_function(accepts_out(function), in_place=True, aliases=names[1:])


def _as_bool(name: str, input: Any, other: Any) -> list[Any]:
    promote(name, input, other)  # for its errors
    return promote(name, input, other, dtype=as_dtype("bool"))


def _as_integers(name: str, input: Any, other: Any) -> list[Any]:
    a, b = promote(name, input, other)
    if as_dtype(str(a.dtype)).is_floating_point:
        raise UsageError(f"{name}: expected integers or bool, got elements of type {a.dtype}")
    return [a, b]


for _names, (_op, _doc) in _COMPARISONS.items():
    _define(_names, _op, _doc, _as_compared)
for _name, (_op, _doc) in _LOGICAL.items():
    _define((_name,), _op, _doc, _as_bool)
for _name, (_op, _doc) in _BITWISE.items():
    _define((_name,), _op, _doc, _as_integers)


@tensor_function
def isclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether |input - other| <= atol + rtol * |other|, element by element; of equal infinities True (torch.isclose).

    equal_nan: whether two NaN count as close. One of both may be a number. Raises UsageError for different element
    types.
    """
    input, other = match_numbers("isclose", input, other)
    if str(getattr(input, "dtype", "")) != str(getattr(other, "dtype", "")):
        raise UsageError(f"isclose: the element types differ: {input.dtype} and {other.dtype}; cast one of them")
    if rtol < 0 or atol < 0:
        raise UsageError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    a, b = _as_compared("isclose", input, other)
    close = ops.equal(a, b)
    if as_dtype(str(a.dtype)).is_floating_point:
        if equal_nan:
            close = ops.logical_or(close, ops.logical_and(ops.isnan(a), ops.isnan(b)))
        gap, room = ops.abs(ops.subtract(a, b)), atol + ops.abs(rtol * b)
        return ops.logical_or(close, ops.logical_and(ops.isfinite(gap), ops.less_equal(gap, room)))
    wide_a, wide_b = (ops.cast(v, dtype="float64") for v in (a, b))
    return ops.logical_or(close, ops.less_equal(ops.abs(wide_a - wide_b), atol + ops.abs(rtol * wide_b)))


@tensor_function
def allclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close (see `isclose`); a bool of Python (torch.allclose)."""
    return bool(ops.all(isclose(input, other, rtol, atol, equal_nan)).numpy())


@tensor_function
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and equal elements; a bool of Python (torch.equal)."""
    for value in (input, other):
        if not hasattr(value, "interpreter"):
            raise UsageError(f"equal: expected two tensors, got {type(value).__name__}; == compares with a number")
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(ops.all(ops.equal(*_as_compared("equal", input, other))).numpy())
