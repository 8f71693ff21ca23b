"""The error function, its complement and its inverse, in array arithmetic.

The coefficients were fitted for this file: in float64 Chebyshev series of erf(x)/x on [0, 1] and of erfc(x) exp(x*x) on
[1, 6], within 2 units in the last place; in float32 the polynomial R with erf(x) = tanh(x R(x*x)) on [0, 4.25], within
1.5e-7. That form needs few passes, and the tanh hides what the polynomial loses to rounding; from 4.25 on it is exactly
1, so that gelu(x) of a large negative x is 0.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.elementwise import UnaryOp, exp, square
from prototorch.ops.facts import flops_per_output

_TANH = (
    1.1283794944084504, 0.10276806769044511, -0.00019256057365084887, -0.0006153546560564811,
    8.344724228499131e-05, -4.044431363464613e-06, -1.51323815284621e-07, 2.3821313361106513e-08,
    -6.780541964623285e-10,
)  # fmt: skip
_NEAR = (
    0.9654687386698673, -0.1405360890227171, 0.019852496688983708, -0.0022854855611440673, 0.00021751715604160108,
    -1.75371694414921e-05, 1.223382738352401e-06, -7.511569160678138e-08, 4.11580059766496e-09,
    -2.0352493920247854e-10, 9.167606746069445e-12, -3.7910930392717217e-13, 1.454817075960679e-14,
    -5.166061616805981e-16,
)  # fmt: skip
_FAR = (
    0.20798329133342885, -0.15436117429436919, 0.0496984454033948, -0.012713147695691885, 0.002479314697072364,
    -0.00033160296057999636, 1.956358330911832e-05, 2.4255574907734528e-06, -5.541277486699158e-07,
    -4.5267543775640776e-09, 1.1340277187747311e-08, -2.637274148620311e-10, -2.5812754483820615e-10,
    5.964757357313207e-12, 6.748923713460816e-12, 4.17650240397811e-14, -1.867773765295233e-13,
    -8.766844618747572e-15, 4.418730573272641e-15,
)  # fmt: skip


def _evaluate_polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    total = x * coefficients[-1]
    total += coefficients[-2]
    for c in coefficients[-3::-1]:
        total *= x
        total += c
    return total


def erf_array(xp: Any, x: Any) -> Any:
    """erf of a floating-point array; NaN stays NaN. Of 16-bit elements in float32: the polynomial would overflow."""
    if x.dtype != xp.float64 and x.dtype != xp.float32:
        return xp.astype(erf_array(xp, xp.astype(x, xp.float32)), x.dtype)
    if x.dtype != xp.float64:
        c = xp.minimum(xp.maximum(x, xp.asarray(-4.25, dtype=x.dtype)), xp.asarray(4.25, dtype=x.dtype))
        r = _evaluate_polynomial(_TANH, c * c)
        r *= c
        return xp.tanh(r)
    size = xp.minimum(xp.abs(x), xp.asarray(6, dtype=x.dtype))
    square = size * size
    near = x * _evaluate_polynomial(_NEAR, 2 * xp.minimum(square, xp.asarray(1, dtype=x.dtype)) - 1)
    far = 1 - xp.exp(-square) * _evaluate_polynomial(_FAR, ((size - 3) / (size + 3) + 1 / 12) * 2.4)
    return xp.where(size <= 1, near, xp.sign(x) * far)


def _scaled_tail(xp: Any, size: Any) -> Any:
    """erfc(x) * exp(x * x) of a float64 array of numbers >= 1; smaller ones give other numbers."""
    six = xp.asarray(6, dtype=size.dtype)
    inner, outer = xp.minimum(size, six), xp.maximum(size, six)
    middle = _evaluate_polynomial(_FAR, ((inner - 3) / (inner + 3) + 1 / 12) * 2.4)
    ratio = -0.5 / (outer * outer)
    series = xp.ones_like(outer)
    for k in range(24, 0, -1):  # the asymptotic series, whose terms fall below the rounding error at 6
        series = series * ratio * (2 * k - 1) + 1
    return xp.where(size <= 6, middle, series / outer * 0.5641895835477563)


def erfc_array(xp: Any, x: Any) -> Any:
    """1 - erf of a float64 array, without the loss of the difference: down to the smallest numbers."""
    size = xp.abs(x)
    tail = xp.exp(-size * size) * _scaled_tail(xp, size)
    tail = xp.where(size == float("inf"), xp.zeros_like(size), tail)
    return xp.where(x < -1, 2 - tail, xp.where(x > 1, tail, 1 - erf_array(xp, x)))


def erfinv_array(xp: Any, y: Any) -> Any:
    """The inverse of erf of a float64 array: a closed form within 0.2 % (Winitzki, 2008), then Halley's method."""
    size = xp.abs(y)
    log = xp.log((1 - size) * (1 + size))
    middle = 4.330746750799873 + log * 0.5  # 2 / (pi a), a = 0.147
    x = xp.sqrt(xp.sqrt(middle * middle - log / 0.147) - middle)
    for _ in range(3):
        residual = xp.where(size < 0.5, erf_array(xp, x) - size, (1 - size) - erfc_array(xp, x))
        step = residual * xp.exp(x * x) * 0.886226925452758
        x = x - step / (1 + x * step)
    edge = xp.full((), float("inf"), dtype=y.dtype)
    return xp.sign(y) * xp.where(size == 1, edge, x)


class Erf(UnaryOp):
    """The error function."""

    derivatives = (lambda g, y, x: g * 1.1283791670955126 * exp(-x * x),)

    def reference(self, xp: Any, x: Any) -> Any:
        return erf_array(xp, x)


class Erfc(UnaryOp):
    """1 - erf(x), accurate for large x."""

    derivatives = (lambda g, y, x: g * -1.1283791670955126 * exp(-x * x),)
    flops = flops_per_output(60)

    def reference(self, xp: Any, x: Any) -> Any:
        return xp.astype(erfc_array(xp, xp.astype(x, xp.float64)), x.dtype)


class Erfcx(UnaryOp):
    """exp(x * x) * erfc(x): the complement of the error function, scaled so that it does not vanish for large x."""

    derivatives = (lambda g, y, x: g * (x * y * 2 - 1.1283791670955126),)
    flops = flops_per_output(60)

    def reference(self, xp: Any, x: Any) -> Any:
        wide = xp.astype(x, xp.float64)
        near = xp.exp(wide * wide) * erfc_array(xp, wide)
        return xp.astype(xp.where(wide > 1, _scaled_tail(xp, xp.abs(wide)), near), x.dtype)


class Erfinv(UnaryOp):
    """The inverse of the error function: infinite at -1 and 1, NaN outside."""

    derivatives = (lambda g, y, x: g * exp(square(y)) * 0.886226925452758,)
    flops = flops_per_output(200)

    def reference(self, xp: Any, x: Any) -> Any:
        return xp.astype(erfinv_array(xp, xp.astype(x, xp.float64)), x.dtype)


erf, erfc, erfcx, erfinv = Erf(), Erfc(), Erfcx(), Erfinv()
