"""PyTorch's functions of each element that keep its type, and tests of each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.dtype import as_dtype
from prototorch.eager.operands import accepts_out, as_operand, cast_to
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.eager.type_info import finfo
from prototorch.errors import UsageError

__all__ = ["round"]


def _tensor(input: Any, name: str) -> Any:
    value = as_operand(input, name)
    if isinstance(value, bool | int | float):
        raise UsageError(f"{name}: expected a tensor, got {type(value).__name__}")
    return value


def _is_float(x: Any) -> bool:
    return as_dtype(str(x.dtype)).is_floating_point


def _is_bool(x: Any) -> bool:
    return str(x.dtype) == "bool"


def _copy(x: Any) -> Any:
    return x * 1 if not _is_bool(x) else ops.logical_or(x, x)


def _of_numbers(name: str, op: Callable[[Any], Any], hint: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if _is_bool(x):
            raise UsageError(f"{name}: not defined for bool elements; {hint}")
        return op(x)

    return function


def _of_floats(op: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: op(x) if _is_float(x) else _copy(x)


def _test(op: Callable[[Any], Any], of_integers: bool = False) -> Callable[[Any], Any]:
    """A test of floating-point elements, which has one answer for all integers."""

    def function(x: Any) -> Any:
        if _is_float(x):
            return op(x)
        same = ops.equal(x, x)
        return same if of_integers else ops.logical_not(same)

    return function


_INFINITY = float("inf")


def _sign_bit(x: Any) -> Any:
    return ops.signbit(x) if _is_float(x) else ops.less(x, ops.zeros_like(x)) if not _is_bool(x) else x != x


def _abs(x: Any) -> Any:
    return _copy(x) if str(x.dtype).startswith(("uint", "bool")) else ops.abs(x)


def _sign(x: Any) -> Any:
    return _copy(x) if _is_bool(x) else ops.sign(x)


def _logical_not(x: Any) -> Any:
    return ops.logical_not(cast_to(x, "bool"))


#: names -> function, in place, what it computes
_FUNCTIONS: dict[tuple[str, ...], tuple[Callable[[Any], Any], bool, str]] = {
    ("neg", "negative"): (_of_numbers("neg", ops.negative, "use ~x or logical_not"), True, "-x of each element"),
    ("positive",): (_of_numbers("positive", lambda x: x, "use the tensor itself"), False, "The tensor itself"),
    ("abs", "absolute"): (_abs, True, "The absolute value of each element"),
    ("sign",): (_sign, True, "-1, 0 or 1 by the sign of each element"),
    ("sgn",): (_sign, True, "-1, 0 or 1 by the sign of each element"),
    ("floor",): (_of_floats(ops.floor), True, "The largest integer that is not above each element"),
    ("ceil",): (_of_floats(ops.ceil), True, "The smallest integer that is not below each element"),
    ("trunc", "fix"): (_of_floats(ops.trunc), True, "The integer part of each element"),
    ("frac",): (lambda x: x - ops.trunc(x), True, "The part of each element behind the decimal point, with its sign"),
    ("square",): (lambda x: cast_to(x, "int64") if _is_bool(x) else ops.square(x), True, "x * x of each element"),
    ("relu",): (lambda x: ops.relu(x) if _is_float(x) else ops.maximum(x, ops.zeros_like(x)), True,
                "max(x, 0) of each element"),
    ("isnan",): (_test(ops.isnan), False, "Whether each element is NaN"),
    ("isinf",): (_test(ops.isinf), False, "Whether each element is infinite"),
    ("isfinite",): (_test(ops.isfinite, True), False, "Whether each element is neither infinite nor NaN"),
    ("isposinf",): (_test(lambda x: ops.equal(x, _INFINITY)), False, "Whether each element is +infinity"),
    ("isneginf",): (_test(lambda x: ops.equal(x, -_INFINITY)), False, "Whether each element is -infinity"),
    ("isreal",): (_test(lambda x: ops.logical_or(ops.equal(x, x), ops.isnan(x)), True), False,
                  "Whether each element has no imaginary part: True for all"),
    ("signbit",): (_sign_bit, False, "Whether the sign bit of each element is set: of negative numbers and -0.0"),
    ("logical_not",): (_logical_not, True, "The negation of each element: True for 0, False for others"),
    ("bitwise_not",): (ops.bitwise_not, True, "All bits of each element inverted; of bool elements the negation"),
}  # fmt: skip


def _define(names: tuple[str, ...], op: Callable[[Any], Any], in_place: bool, doc: str) -> None:
    def function(input: Any) -> Any:
        return op(_tensor(input, names[0]))

    function.__name__ = function.__qualname__ = names[0]
    function.__doc__ = f"{doc} (torch.{names[0]})."
    tensor_function(accepts_out(function), in_place=in_place, aliases=names[1:])


for _names, (_op, _in_place, _doc) in _FUNCTIONS.items():
    _define(_names, _op, _in_place, _doc)


@tensor_function(in_place=True)
@accepts_out
def round(input: Any, *, decimals: int = 0) -> Any:
    """Each element rounded to ``decimals`` places (default 0; negative: to tens, hundreds), halves to even."""
    x = _tensor(input, "round")
    if not _is_float(x):
        if decimals:
            raise UsageError(f"round: decimals={decimals} is defined for floating-point elements alone, got {x.dtype}")
        return _copy(x)
    if decimals == 0:
        return ops.round(x)
    power = float(10 ** abs(decimals))
    return ops.round(x * power) / power if decimals > 0 else ops.round(x / power) * power


@tensor_method(name="__round__")
def _python_round(self: Tensor, ndigits: int | None = None) -> Any:
    """``round(x, 2)``: as `round`, a tensor."""
    return round(self, decimals=ndigits or 0)


@tensor_function(in_place=True)
@accepts_out
def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN replaced by ``nan`` (default 0), the infinities by ``posinf`` and ``neginf`` (default the largest and the
    smallest number of the element type)."""
    x = _tensor(input, "nan_to_num")
    if not _is_float(x):
        return _copy(x)
    largest = finfo(x.dtype).max
    x = ops.where(ops.isnan(x), cast_to(float(nan or 0), x.dtype, x), x)
    top = cast_to(float(largest if posinf is None else posinf), x.dtype, x)
    bottom = cast_to(float(-largest if neginf is None else neginf), x.dtype, x)
    return ops.where(ops.equal(x, _INFINITY), top, ops.where(ops.equal(x, -_INFINITY), bottom, x))
