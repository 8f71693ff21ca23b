"""Sine and cosine of float32 vectors: Cody-Waite range reduction to [-pi / 4, pi / 4] in float64, then polynomials.

Errors are within 2 ulp of the result or, near a zero of the function, 1e-7. Values of 2^30 and more go to the C
library's functions one by one.
"""

from __future__ import annotations

import math

from prototorch.engine.backends.cpu.native.ir_builder import I1, KernelBuilder, Num, UnsupportedError

_MAX_POLYNOMIAL = 2.0**30
_HALF_PI_HIGH = 1.57079632679489655800  # pi / 2 in two float64s
_HALF_PI_LOW = 6.12323399573676603587e-17
#: (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 on [-pi / 4, pi / 4], in r^2 (Cephes' sinf and cosf)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def _evaluate_polynomial(k: KernelBuilder, z: Num, coefficients: tuple[float, ...]) -> Num:
    result = k.num(coefficients[0]).splat(z.lanes)
    for c in coefficients[1:]:
        result = k.fma(result, z, k.num(c).splat(z.lanes))
    return result


def _sin_or_cos(k: KernelBuilder, x: Num, name: str) -> Num:
    if x.dtype != "float32":
        raise UnsupportedError(f"{name} of {x.dtype}")
    is_small = k.unary_intrinsic("fabs", x) < _MAX_POLYNOMIAL  # false for NaN
    wide = k.select(is_small, x, k.num(0.0)).cast("float64")
    quadrants = k.unary_intrinsic("rint", wide * (2 / math.pi))
    rest = k.fma(-quadrants, k.num(_HALF_PI_HIGH, "float64"), wide)
    r = k.fma(-quadrants, k.num(_HALF_PI_LOW, "float64"), rest).cast("float32")
    quarter = quadrants.cast("int32") + (1 if name == "cos" else 0)
    z = r * r
    sine = k.fma(_evaluate_polynomial(k, z, _SIN) * z, r, r)
    cosine = k.fma(_evaluate_polynomial(k, z, _COS) * z, z, k.fma(z, k.num(-0.5), k.num(1.0).splat(x.lanes)))
    result = k.select((quarter & 1) == 0, sine, cosine)
    selected = k.variable(k.select((quarter & 2) == 0, result, -result))
    with k.if_then(any_lane(k, ~is_small)):
        selected.value = k.select(is_small, selected.value, k.unary_intrinsic(name, x))
    return selected.value


def any_lane(k: KernelBuilder, x: Num) -> Num:
    """Whether any lane is true."""
    if x.lanes == 1:
        return x
    return Num(k, k.intrinsic(f"llvm.vector.reduce.or.v{x.lanes}i1", I1, [(x.v.type, x.v)]), "bool")


def sin(k: KernelBuilder, x: Num) -> Num:
    """The sine."""
    return _sin_or_cos(k, x, "sin")


def cos(k: KernelBuilder, x: Num) -> Num:
    """The cosine."""
    return _sin_or_cos(k, x, "cos")
