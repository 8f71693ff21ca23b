"""The gamma function's logarithm, its derivatives, and Hurwitz' zeta function.

All are computed in float64 by Stirling's series and the Euler-Maclaurin formula (Abramowitz and Stegun, 6.1.40, 6.3.18
and 23.2.9), after the argument is moved to 10 or above by the recurrence relation.
"""

from __future__ import annotations

import math
from typing import Any

from prototorch.ops.elementwise import BinaryOp, UnaryOp
from prototorch.ops.facts import flops_per_output
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec

_SHIFT = 10
#: the Bernoulli numbers B2, B4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def _reduced_angle(xp: Any, x: Any) -> Any:
    """pi times the distance of x from the nearest integer, with its sign."""
    return (x - xp.round(x)) * math.pi


def lgamma_array(xp: Any, x: Any) -> Any:
    """log|gamma(x)| of a float64 array."""
    is_left = x < 0.5
    z = xp.where(is_left, 1 - x, x)
    product = z
    for k in range(1, _SHIFT):
        product = product * (z + k)
    is_small = z < _SHIFT
    w = xp.where(is_small, z + _SHIFT, z)
    square, power = 1 / (w * w), 1 / w
    total = (w - 0.5) * xp.log(w) - w + 0.9189385332046727
    for j, b in enumerate(_BERNOULLI[:8], start=1):
        total, power = total + power * (b / (2 * j * (2 * j - 1))), power * square
    one = xp.ones((), dtype=x.dtype)
    total = total - xp.where(is_small, xp.log(xp.where(is_small, product, one)), one - 1)
    sine = xp.abs(xp.sin(_reduced_angle(xp, x)))
    reflected = math.log(math.pi) - xp.log(sine) - total
    infinite = xp.abs(x) == float("inf")
    return xp.where(infinite, xp.abs(x), xp.where(is_left, reflected, total))


def digamma_array(xp: Any, x: Any) -> Any:
    """The derivative of log gamma(x) of a float64 array: NaN at negative integers, an infinity at 0."""
    is_left = x < 0
    z = xp.where(is_left, 1 - x, x)
    total = xp.zeros_like(z)
    is_small = z < _SHIFT
    for k in range(_SHIFT):
        total = total - xp.where(is_small, 1 / (z + k), xp.zeros_like(z))
    w = xp.where(is_small, z + _SHIFT, z)
    square = 1 / (w * w)
    power = square
    total = total + xp.log(w) - 0.5 / w
    for j, b in enumerate(_BERNOULLI[:8], start=1):
        total, power = total - power * (b / (2 * j)), power * square
    angle = _reduced_angle(xp, x)
    reflected = total - math.pi * xp.cos(angle) / xp.sin(angle)
    pole = xp.full((), float("nan"), dtype=x.dtype)
    reflected = xp.where(x == xp.round(x), pole, reflected)
    return xp.where(x == 0, -1 / x, xp.where(is_left, reflected, total))


def zeta_array(xp: Any, s: Any, q: Any) -> Any:
    """The sum of (q + k) ** -s over k >= 0 of float64 arrays, for s > 1 and q > 0; elsewhere NaN, inf at the poles."""
    total = q**-s
    for k in range(1, _SHIFT):
        total = total + (q + k) ** -s
    w = q + _SHIFT
    power = w**-s
    total = total + power * w / (s - 1) + power / 2
    factor, power = s, power / w
    for j, b in enumerate(_BERNOULLI, start=1):
        total = total + factor * power * (b / math.factorial(2 * j))
        factor, power = factor * (s + (2 * j - 1)) * (s + 2 * j), power / (w * w)
    nan, infinity = (xp.full((), v, dtype=q.dtype) for v in (float("nan"), float("inf")))
    total = xp.where((s < 1) | (q < 0), nan, total)
    return xp.where((s == 1) | ((q <= 0) & (q == xp.floor(q)) & (s > 1)), infinity, total)


def _cotangent_derivative(n: int) -> list[int]:
    """The n-th derivative of the cotangent as a polynomial of the cotangent: coefficients, the constant one first."""
    p = [0, 1]
    for _ in range(n):
        derivative = [k * c for k, c in enumerate(p)][1:]
        p = [-(a + b) for a, b in zip([*derivative, 0, 0], [0, 0, *derivative], strict=True)]
    return p


def _in_float64(xp: Any, function: Any, *arrays: Any) -> Any:
    return xp.astype(function(xp, *(xp.astype(a, xp.float64) for a in arrays)), arrays[0].dtype)


class Lgamma(UnaryOp):
    """The logarithm of the absolute value of the gamma function."""

    derivatives = (lambda g, y, x: g * digamma(x),)
    flops = flops_per_output(60)

    def reference(self, xp: Any, x: Any) -> Any:
        return _in_float64(xp, lgamma_array, x)


class Digamma(UnaryOp):
    """The derivative of the logarithm of the gamma function."""

    derivatives = (lambda g, y, x: g * polygamma(x, n=1),)
    flops = flops_per_output(60)

    def reference(self, xp: Any, x: Any) -> Any:
        return _in_float64(xp, digamma_array, x)


class Polygamma(UnaryOp):
    """``polygamma(x, n=)``: the n-th derivative of digamma, n >= 1."""

    derivatives = (lambda g, y, x, n: g * polygamma(x, n=n + 1),)
    flops = flops_per_output(80)

    def infer_spec(self, x: Spec, n: int) -> Spec:
        if n < 1:
            raise self.shape_error(f"n must be at least 1, got {n}; n = 0 is digamma")
        return super().infer_spec(x)

    def reference(self, xp: Any, x: Any, n: int) -> Any:
        def in_float64(xp: Any, x: Any) -> Any:
            is_left, s = x < 0, xp.full((), n + 1.0, dtype=x.dtype)
            y = zeta_array(xp, s, xp.where(is_left, 1 - x, x)) * (math.factorial(n) * (-1) ** (n + 1))
            angle = _reduced_angle(xp, x)
            cotangent = xp.cos(angle) / xp.sin(angle)
            total = xp.zeros_like(x)
            for c in reversed(_cotangent_derivative(n)):
                total = total * cotangent + c
            return xp.where(is_left, y * (-1) ** n - total * math.pi ** (n + 1), y)

        return _in_float64(xp, in_float64, x)


class HurwitzZeta(BinaryOp):
    """``hurwitz_zeta(s, q)``: the sum of (q + k) ** -s over k >= 0, for s > 1 and q > 0. No gradient by s."""

    derivatives = (None, lambda g, y, s, q: sum_to(-g * s * hurwitz_zeta(s + 1, q), q.shape))
    flops = flops_per_output(80)

    def infer_spec(self, a: Spec, b: Spec) -> Spec:
        if not a.is_float:
            raise self.shape_error(f"expected floating-point elements, got {a.dtype}")
        return super().infer_spec(a, b)

    def reference(self, xp: Any, s: Any, q: Any) -> Any:
        return _in_float64(xp, zeta_array, s, q)


lgamma, digamma, polygamma, hurwitz_zeta = Lgamma(), Digamma(), Polygamma(), HurwitzZeta()
