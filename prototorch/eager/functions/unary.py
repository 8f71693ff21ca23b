"""PyTorch's functions of each element of one tensor, with floating-point results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.operands import accepts_out, to_float
from prototorch.eager.registry import tensor_function

__all__ = ["define_unary"]

#: name (and its other names) -> the op, what it computes
_FUNCTIONS: dict[tuple[str, ...], tuple[Callable[[Any], Any], str]] = {
    ("exp",): (ops.exp, "e to the power of each element"),
    ("exp2",): (ops.exp2, "2 to the power of each element"),
    ("expm1",): (ops.expm1, "exp(x) - 1 of each element, accurate for small x"),
    ("log",): (ops.log, "The natural logarithm of each element"),
    ("log1p",): (ops.log1p, "log(1 + x) of each element, accurate for small x"),
    ("log2",): (ops.log2, "The logarithm to base 2 of each element"),
    ("log10",): (ops.log10, "The logarithm to base 10 of each element"),
    ("sqrt",): (ops.sqrt, "The square root of each element"),
    ("rsqrt",): (ops.rsqrt, "1 / sqrt(x) of each element"),
    ("sin",): (ops.sin, "The sine of each element, an angle in radians"),
    ("cos",): (ops.cos, "The cosine of each element, an angle in radians"),
    ("tan",): (ops.tan, "The tangent of each element, an angle in radians"),
    ("asin", "arcsin"): (ops.asin, "The angle in [-pi/2, pi/2] with this sine"),
    ("acos", "arccos"): (ops.acos, "The angle in [0, pi] with this cosine"),
    ("atan", "arctan"): (ops.atan, "The angle in (-pi/2, pi/2) with this tangent"),
    ("sinh",): (ops.sinh, "The hyperbolic sine of each element"),
    ("cosh",): (ops.cosh, "The hyperbolic cosine of each element"),
    ("tanh",): (ops.tanh, "The hyperbolic tangent of each element"),
    ("asinh", "arcsinh"): (ops.asinh, "The inverse of sinh of each element"),
    ("acosh", "arccosh"): (ops.acosh, "The inverse of cosh of each element"),
    ("atanh", "arctanh"): (ops.atanh, "The inverse of tanh of each element"),
    ("sigmoid",): (ops.sigmoid, "1 / (1 + exp(-x)) of each element"),
    ("erf",): (ops.erf, "The error function of each element"),
    ("erfc",): (ops.erfc, "1 - erf(x) of each element, accurate for large x"),
    ("erfinv",): (ops.erfinv, "The inverse of the error function of each element"),
    ("lgamma",): (ops.lgamma, "The logarithm of the absolute value of the gamma function of each element"),
    ("digamma",): (ops.digamma, "The derivative of lgamma of each element"),
    ("i0",): (lambda x: ops.exp(ops.abs(x)) * ops.i0e(x), "The modified Bessel function of the first kind, order 0"),
    ("reciprocal",): (lambda x: 1.0 / x, "1 / x of each element"),
    ("deg2rad",): (lambda x: x * (math.pi / 180), "Each element, an angle in degrees, in radians"),
    ("rad2deg",): (lambda x: x * (180 / math.pi), "Each element, an angle in radians, in degrees"),
}


def define_unary(names: tuple[str, ...], op: Callable[[Any], Any], doc: str, **options: Any) -> Any:
    """Register a function of one tensor whose integers become the default floating-point type."""

    def function(input: Any) -> Any:
        return op(to_float(input, names[0]))

    function.__name__ = function.__qualname__ = names[0]
    function.__doc__ = f"{doc}; of integers in the default floating-point type (torch.{names[0]})."
    return tensor_function(accepts_out(function), aliases=names[1:], **{"in_place": True, **options})


for _names, (_op, _doc) in _FUNCTIONS.items():
    define_unary(_names, _op, _doc)


@tensor_function(in_place=True)
@accepts_out
def sinc(input: Any) -> Any:
    """sin(pi x) / (pi x) of each element, 1 at 0 (torch.sinc)."""
    x = to_float(input, "sinc") * math.pi
    is_zero = ops.equal(x, ops.zeros_like(x))
    near = 1.0 - ops.square(x) * (1 / 6)
    return ops.where(is_zero, near, ops.sin(x) / ops.where(is_zero, ops.ones_like(x), x))


@tensor_function(in_place=True)
@accepts_out
def logit(input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)) of each element; with ``eps`` of elements brought into [eps, 1 - eps] first (torch.logit)."""
    x = to_float(input, "logit")
    x = x if eps is None else ops.clip(x, eps, 1 - eps)
    return ops.log(x / (1.0 - x))


@tensor_function(in_place=True)
@accepts_out
def polygamma(n: int, input: Any) -> Any:
    """The n-th derivative of digamma of each element (torch.polygamma)."""
    n, input = (input, n) if hasattr(n, "interpreter") else (n, input)  # as a method the tensor comes first
    x = to_float(input, "polygamma")
    return ops.digamma(x) if n == 0 else ops.polygamma(x, n=int(n))
