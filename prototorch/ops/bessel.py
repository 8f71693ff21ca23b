"""Modified Bessel functions of the first kind, of orders 0 and 1, times exp(-|x|).

Up to 30 the integral over a circle (Abramowitz and Stegun, 9.6.16 and 9.6.19) by the trapezoidal rule, whose error is
far below the rounding error there; above, Hankel's asymptotic series (9.7.1). Both in float64.
"""

from __future__ import annotations

import math
from typing import Any

from prototorch.ops.elementwise import UnaryOp, abs_, equal, ones_like, sign, where, zeros_like
from prototorch.ops.facts import flops_per_output

_POINTS, _SWITCH, _TERMS = 64, 30.0, 16


def _scaled_bessel(xp: Any, x: Any, order: int) -> Any:
    size = xp.abs(xp.astype(x, xp.float64))
    limit = xp.full((), _SWITCH, dtype=size.dtype)
    near, total = xp.minimum(size, limit), xp.zeros_like(size)
    for k in range(_POINTS // 4 + 1):  # the points of cosines c and -c in one term
        cosine = math.cos(2 * math.pi * k / _POINTS)
        weight = (2 if k in (0, _POINTS // 4) else 4) / _POINTS * cosine**order
        decay = xp.expm1(near * (-2 * cosine))
        total = total + xp.exp(near * (cosine - 1)) * (-decay if order else decay + 2) * (weight / 2)
    far = xp.maximum(size, limit)
    term, series = xp.ones_like(far), xp.ones_like(far)
    for k in range(1, _TERMS):
        term = term * (((2 * k - 1) ** 2 - 4 * order) / (8 * k)) / far
        series = series + term
    y = xp.where(size <= _SWITCH, total, series / xp.sqrt(far * (2 * math.pi)))
    return xp.astype(y, x.dtype) * (xp.sign(x) if order else 1)


class I0e(UnaryOp):
    """exp(-|x|) times the modified Bessel function of the first kind of order 0."""

    name = "i0e"
    derivatives = (lambda g, y, x: g * (i1e(x) - sign(x) * y),)
    flops = flops_per_output(150)

    def reference(self, xp: Any, x: Any) -> Any:
        return _scaled_bessel(xp, x, 0)


class I1e(UnaryOp):
    """exp(-|x|) times the modified Bessel function of the first kind of order 1."""

    name = "i1e"
    derivatives = (lambda g, y, x: g * (i0e(x) - sign(x) * y - _over_x(y, x)),)
    flops = flops_per_output(150)

    def reference(self, xp: Any, x: Any) -> Any:
        return _scaled_bessel(xp, x, 1)


def _over_x(y: Any, x: Any) -> Any:
    """i1e(x) / x; 1/2 at 0."""
    is_zero = equal(x, zeros_like(x))
    half = ones_like(x) * 0.5 + zeros_like(x) * abs_(x)
    return where(is_zero, half, y / where(is_zero, ones_like(x), x))


i0e, i1e = I0e(), I1e()
