"""PyTorch's functions of two or three tensors beyond arithmetic: extremes, bounds, interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.dtype import as_dtype
from prototorch.eager.operands import accepts_out, cast_to, match_numbers, promote, promote_to_float
from prototorch.eager.registry import tensor_function
from prototorch.eager.scalars import check_operand
from prototorch.errors import UsageError

__all__ = ["clamp", "maximum", "minimum"]


def _is_float(x: Any) -> bool:
    return as_dtype(str(x.dtype)).is_floating_point


def _two_operands(name: str, input: Any, other: Any) -> list[Any]:
    if not hasattr(input, "interpreter") and not hasattr(other, "interpreter"):
        kinds = f"{type(input).__name__} and {type(other).__name__}"
        raise UsageError(f"{name}: expected two tensors, or a tensor and a number, got {kinds}")
    return promote(name, input, other)


def _extremum(larger: bool, a: Any, b: Any) -> Any:
    """The larger or the smaller of two; where they are equal each gets half of the gradient, as in PyTorch."""
    if str(a.dtype) == "bool":
        return ops.logical_or(a, b) if larger else ops.logical_and(a, b)
    if not _is_float(a) or not (getattr(a, "requires_grad", True) or getattr(b, "requires_grad", True)):
        return ops.maximum(a, b) if larger else ops.minimum(a, b)
    a_wins, b_wins = (ops.greater(a, b), ops.less(a, b)) if larger else (ops.less(a, b), ops.greater(a, b))
    return ops.where(a_wins, a, ops.where(b_wins, b, a * 0.5 + b * 0.5))


@tensor_function
@accepts_out
def maximum(input: Any, other: Any) -> Any:
    """The larger of two elements; NaN where one of them is; equal ones share the gradient (torch.maximum). One of both
    may be a number."""
    return _extremum(True, *_two_operands("maximum", input, other))


@tensor_function
@accepts_out
def minimum(input: Any, other: Any) -> Any:
    """The smaller of two elements; NaN where one of them is; equal ones share the gradient (torch.minimum). One of both
    may be a number."""
    return _extremum(False, *_two_operands("minimum", input, other))


def _without_nan(larger: bool, a: Any, b: Any) -> Any:
    if not _is_float(a):
        return _extremum(larger, a, b)
    takes_a = ops.greater_equal(a, b) if larger else ops.less_equal(a, b)
    return ops.where(ops.logical_or(takes_a, ops.isnan(b)), a, b)


@tensor_function
@accepts_out
def fmax(input: Any, other: Any) -> Any:
    """The larger of two elements; the other one where one is NaN; the first has the gradient of equal ones."""
    return _without_nan(True, *_two_operands("fmax", input, other))


@tensor_function
@accepts_out
def fmin(input: Any, other: Any) -> Any:
    """The smaller of two elements; the other one where one is NaN; the first has the gradient of equal ones."""
    return _without_nan(False, *_two_operands("fmin", input, other))


@tensor_function(in_place=True, aliases=("clip",))
@accepts_out
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Elements brought into [min, max], numbers or tensors; None is no bound (torch.clamp). The gradient passes at the
    bounds, and is 0 beyond. Raises UsageError without any bound."""
    bounds = [b for b in (min, max) if b is not None]
    if not bounds:
        raise UsageError("clamp: expected min, max or both, got neither")
    x, *operands = promote("clamp", input, *bounds, checked=True)
    low = operands[0] if min is not None else None
    high = operands[-1] if max is not None else None
    if str(x.dtype) == "bool":
        x = x if low is None else ops.logical_or(x, low)
        return x if high is None else ops.logical_and(x, high)
    x = x if low is None else ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@tensor_function(in_place=True)
@accepts_out
def clamp_min(input: Any, min: Any) -> Any:
    """Elements that are at least ``min``, a number or a tensor (torch.clamp_min)."""
    return clamp(input, min=min)


@tensor_function(in_place=True)
@accepts_out
def clamp_max(input: Any, max: Any) -> Any:
    """Elements that are at most ``max``, a number or a tensor (torch.clamp_max)."""
    return clamp(input, max=max)


def _logaddexp2(a: Any, b: Any) -> Any:
    scale = math.log(2.0)
    return ops.logaddexp(a * scale, b * scale) / scale


#: names -> the op of two floating-point tensors, in place, what it computes
_FLOAT_FUNCTIONS: dict[tuple[str, ...], tuple[Callable[[Any, Any], Any], bool, str]] = {
    ("atan2", "arctan2"): (ops.atan2, True, "The angle in [-pi, pi] of the point (other, input)"),
    ("hypot",): (ops.hypot, True, "sqrt(input ** 2 + other ** 2)"),
    ("copysign",): (ops.copysign, True, "The size of input with the sign of other"),
    ("nextafter",): (ops.nextafter, True, "The next number after input in the direction of other"),
    ("logaddexp",): (ops.logaddexp, False, "log(exp(input) + exp(other)), without overflow"),
    ("logaddexp2",): (_logaddexp2, False, "log2(2 ** input + 2 ** other), without overflow"),
}  # fmt: skip


def _define(names: tuple[str, ...], op: Callable[[Any, Any], Any], in_place: bool, doc: str) -> None:
    def function(input: Any, other: Any) -> Any:
        return op(*promote_to_float(names[0], input, other))

    function.__name__ = function.__qualname__ = names[0]
    function.__doc__ = f"{doc}, element by element (torch.{names[0]})."
    tensor_function(accepts_out(function), in_place=in_place, aliases=names[1:])


for _names, (_op, _in_place, _doc) in _FLOAT_FUNCTIONS.items():
    _define(_names, _op, _in_place, _doc)


@tensor_function(in_place=True)
@accepts_out
def xlogy(input: Any, other: Any) -> Any:
    """input * log(other), 0 where input is 0 and other is not NaN (torch.xlogy)."""
    a, b = promote_to_float("xlogy", input, other)
    is_zero = ops.logical_and(ops.equal(a, ops.zeros_like(a)), ops.logical_not(ops.isnan(b)))
    return ops.where(is_zero, a * 0.0, a * ops.log(ops.where(is_zero, ops.ones_like(b), b)))


@tensor_function(in_place=True)
@accepts_out
def heaviside(input: Any, values: Any) -> Any:
    """0 where input is negative, 1 where it is positive, ``values`` where it is 0, a tensor or a number
    (torch.heaviside)."""
    input, values = match_numbers("heaviside", input, values)
    if str(getattr(input, "dtype", "")) != str(getattr(values, "dtype", "")):
        raise UsageError(f"heaviside: the element types differ: {input.dtype} and {getattr(values, 'dtype', values)}")
    a, b = promote("heaviside", input, values)
    zero = ops.zeros_like(a)
    if str(a.dtype) == "bool":
        return ops.logical_or(a, b)
    step = ops.where(ops.less(a, zero), zero, ops.ones_like(a))
    y = ops.where(ops.equal(a, zero), b, step)
    return ops.where(ops.isnan(a), zero, y) if _is_float(a) else y


@tensor_function(in_place=True)
@accepts_out
def ldexp(input: Any, other: Any) -> Any:
    """input * 2 ** other (torch.ldexp)."""
    (a, b) = promote_to_float("ldexp", input, other)
    return a * ops.exp2(b)


@tensor_function(in_place=True)
@accepts_out
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input), ``weight`` a number or a tensor (torch.lerp). Raises UsageError for different
    element types."""
    types = {str(v.dtype) for v in (input, end, weight) if hasattr(v, "dtype")}
    if len(types) != 1 or not hasattr(end, "dtype"):
        raise UsageError(f"lerp: expected tensors of one element type, got {', '.join(sorted(types)) or 'numbers'}")
    if not _is_float(input):
        raise UsageError(f"lerp: expected floating-point elements, got {input.dtype}")
    check_operand(weight, input.dtype, "lerp")
    a, b, w = promote("lerp", input, end, weight)
    gap = ops.subtract(b, a)
    near = ops.add(a, ops.multiply(w, gap))
    far = ops.subtract(b, ops.multiply(gap, 1.0 - w))
    return ops.where(ops.less(ops.abs(w), 0.5), near, far)


@tensor_function(in_place=True)
@accepts_out
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2 (torch.addcmul)."""
    x, a, b = promote("addcmul", input, tensor1, tensor2)
    check_operand(value, x.dtype, "addcmul")
    product = ops.multiply(a, b)
    return ops.add(x, product if value == 1 else ops.multiply(product, cast_to(value, x.dtype, x)))


@tensor_function(in_place=True)
@accepts_out
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2 (torch.addcdiv). Raises UsageError for integers."""
    x, a, b = promote("addcdiv", input, tensor1, tensor2)
    if not _is_float(promote("addcdiv", tensor1, tensor2)[0]):
        raise UsageError("addcdiv: a division of integers is not defined; cast the tensors to a floating-point type")
    check_operand(value, x.dtype, "addcdiv")
    return ops.add(x, ops.divide(a if value == 1 else ops.multiply(a, cast_to(value, x.dtype, x)), b))
