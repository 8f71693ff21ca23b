"""PyTorch's arithmetic of two tensors, or of a tensor and a number: shapes broadcast, element types are promoted."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.dtype import as_dtype
from prototorch.eager.operands import accepts_out, as_operand, cast_to, common_dtype, promote, promote_to_float
from prototorch.eager.registry import tensor_function
from prototorch.eager.scalars import check_number, number_array
from prototorch.eager.tensor import Tensor
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import UsageError

__all__ = ["add", "div", "floor_divide", "fmod", "mul", "pow", "remainder", "sub"]


def _is_float(x: Any) -> bool:
    return as_dtype(str(x.dtype)).is_floating_point


def _in_float32(input: Any, other: Any) -> tuple[list[Any], str] | None:
    """A half-precision tensor and a number in float32, and the tensor's element type, which is that of the result; None
    where they are other operands, or the number is an element of that type.

    PyTorch computes such products and quotients in float32 with the number as it is: in float16 70000 is infinite.
    """
    tensor, number = (input, other) if type(other) in (int, float) else (other, input)
    if type(number) not in (int, float) or str(getattr(tensor, "dtype", "")) not in ("float16", "bfloat16"):
        return None
    dtype = str(tensor.dtype)
    if float(number_array(number, dtype)) == number or number != number:
        return None
    return [cast_to(v, "float32", tensor) for v in (input, other)], dtype


def _scale(name: str, alpha: Any, b: Any) -> Any:
    """b * alpha, where a result of the common element type can take it."""
    if type(alpha) is int and alpha == 1:
        return b
    factor = alpha.item() if hasattr(alpha, "item") else alpha
    if isinstance(factor, float) and not _is_float(b):
        raise UsageError(f"{name}: alpha={factor} must be an integer for elements of type {b.dtype}")
    if isinstance(factor, bool) and str(b.dtype) != "bool":
        raise UsageError(f"{name}: alpha={factor} is bool, and the elements are {b.dtype}")
    if str(b.dtype) == "bool":
        return b if factor else ops.logical_xor(b, b)
    return ops.multiply(b, cast_to(factor, b.dtype, b, checked=name))


@tensor_function(in_place=True)
@accepts_out
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other (torch.add)."""
    a, b = promote("add", input, other)
    b = _scale("add", alpha, b)
    return ops.logical_or(a, b) if str(a.dtype) == "bool" else ops.add(a, b)


@tensor_function(in_place=True, aliases=("subtract",))
@accepts_out
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other (torch.sub). Raises UsageError for bool operands."""
    for value in (input, other):
        if str(getattr(value, "dtype", "")) == "bool" or isinstance(value, bool):
            raise UsageError("sub: - is not defined for bool operands; use ^ or logical_xor, or cast them")
    a, b = promote("sub", input, other)
    return ops.subtract(a, _scale("sub", alpha, b))


@tensor_function
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input (torch.rsub)."""
    return sub(other, input, alpha=alpha)


@tensor_function(in_place=True, aliases=("multiply",))
@accepts_out
def mul(input: Any, other: Any) -> Any:
    """input * other (torch.mul)."""
    wide = _in_float32(input, other)
    if wide is not None:
        return cast_to(ops.multiply(*wide[0]), wide[1])
    a, b = promote("mul", input, other)
    return ops.logical_and(a, b) if str(a.dtype) == "bool" else ops.multiply(a, b)


@tensor_function(in_place=True, aliases=("divide",))
@accepts_out
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other (torch.div): of integers in the default floating-point type. rounding_mode: None, "trunc" (the
    integer part) or "floor" (the integer below), which keep integers. Raises UsageError for another one, and for a
    division of integers by 0."""
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise UsageError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r:.40}")
    wide = _in_float32(input, other) if type(other) in (int, float) else None
    if wide is not None:
        return cast_to(ops.trunc(ops.divide(*wide[0])), wide[1])
    a, b = _numbers("div", input, other)
    if _is_float(a):
        return ops.trunc(ops.divide(a, b))
    b = _nonzero("div", b, other)
    return ops.floor_divide(ops.subtract(a, ops.fmod(a, b)), b)


def _numbers(name: str, input: Any, other: Any) -> list[Any]:
    """Operands of one element type, which is not bool."""
    a, b = promote(name, input, other)
    if str(a.dtype) == "bool":
        raise UsageError(f"{name}: not defined for bool elements; cast them, for example by x.int()")
    return [a, b]


def _nonzero(name: str, b: Any, other: Any) -> Any:
    """A divisor of integers. Raises UsageError where it is 0 in its type, as 256 is in uint8."""
    message = f"{name}: division of integers by 0"
    if not isinstance(other, bool | int | float):
        return bounded_values(b, message, excludes_zero=True)
    if not number_array(other, str(b.dtype)):
        raise UsageError(message)
    return b


@tensor_function(in_place=True)
@accepts_out
def true_divide(input: Any, other: Any) -> Any:
    """input / other (torch.true_divide)."""
    wide = _in_float32(input, other)
    if wide is not None:
        return cast_to(ops.divide(*wide[0]), wide[1])
    return ops.divide(*promote_to_float("div", input, other))


@tensor_function(in_place=True)
@accepts_out
def floor_divide(input: Any, other: Any) -> Any:
    """The integer below input / other, which has no gradient (torch.floor_divide)."""
    wide = _in_float32(input, other) if type(other) in (int, float) else None
    if wide is not None:
        return cast_to(ops.floor_divide(*wide[0]), wide[1])
    a, b = _numbers("floor_divide", input, other)
    if not _is_float(a):
        b = _nonzero("floor_divide", b, other)
    return ops.floor_divide(a, b)


@tensor_function(in_place=True)
@accepts_out
def remainder(input: Any, other: Any) -> Any:
    """The remainder of `floor_divide`, with the divisor's sign as Python's % (torch.remainder)."""
    a, b = _numbers("remainder", input, other)
    if not _is_float(a):
        b = _nonzero("remainder", b, other)
    return ops.remainder(a, b)


@tensor_function(in_place=True)
@accepts_out
def fmod(input: Any, other: Any) -> Any:
    """The remainder of a division that rounds towards 0, with the dividend's sign as C's fmod (torch.fmod)."""
    a, b = _numbers("fmod", input, other)
    if not _is_float(a):
        b = _nonzero("fmod", b, other)
    return ops.fmod(a, b)


@tensor_function(in_place=True)
@accepts_out
def pow(input: Any, exponent: Any) -> Any:
    """input to the power of exponent (torch.pow). Raises UsageError for integers to a negative integer."""
    is_wide = type(input) is Tensor and input.spec.dtype in ("float32", "float64")
    if is_wide and (type(exponent) is float or type(exponent) is int):
        return _number_power(input, float(exponent))
    base, power = as_operand(input, "pow"), as_operand(exponent, "pow")
    if isinstance(power, bool | int | float) and not isinstance(base, bool | int | float):
        dtype = common_dtype((base, power))
        if not dtype.is_floating_point and power < 0:
            raise UsageError(f"pow: integers to the negative integer power {power} are no integers; cast them to float")
        if dtype not in ("float32", "float64"):
            check_number(power, dtype, "pow")
        return _number_power(cast_to(base, dtype), float(power) if dtype.is_floating_point else int(power))
    a, b = promote("pow", base, power)
    if str(a.dtype) == "bool":
        return ops.logical_or(a, ops.logical_not(b))
    if not _is_float(a):
        return _integer_power(a, b)
    return ops.power(a, b)


def _integer_power(a: Any, b: Any) -> Any:
    """Integers to integer powers; to negative ones the integer part of the result: 1, -1 or 0, as in PyTorch."""
    zero, one = ops.zeros_like(a), ops.ones_like(a)
    is_negative = ops.less(b, zero)
    sign = ops.where(ops.equal(ops.remainder(b, cast_to(2, b.dtype, b)), zero), one, -one)
    small = ops.where(ops.equal(a, one), one, ops.where(ops.equal(a, -one), sign, zero))
    return ops.where(is_negative, small, ops.power(a, ops.where(is_negative, zero, b)))


def _number_power(x: Any, power: Any) -> Any:
    """x to a constant power, with a derivative that exists wherever that of the power does."""
    if str(x.dtype) == "bool":
        return ops.logical_or(x, x) if power else ops.logical_or(x, ops.logical_not(x))
    if power == 2:
        return ops.square(x)
    if power == 1:
        return x * 1
    if power == 3:
        return ops.square(x) * x
    if power == 0.5:
        return ops.sqrt(x)
    if power == -1:
        return 1.0 / x
    return ops.power(x, cast_to(power, x.dtype, x))


@tensor_function(in_place=True)
@accepts_out
def float_power(input: Any, exponent: Any) -> Any:
    """input to the power of exponent in float64 (torch.float_power)."""
    return ops.power(*promote("float_power", input, exponent, dtype=as_dtype("float64")))
