"""exp, log and the functions derived from them, for float32 vectors: polynomials after an exact range reduction.

Errors, measured over the whole range of float32 against float64 (tests): exp and log within 2 ulp, expm1, log1p and
tanh within 4. Limits, infinities and NaN as in NumPy.
"""

from __future__ import annotations

from llvmlite import ir

from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, Num, UnsupportedError

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # together ln 2; the first has few bits, so that n * it is exact
_EXP = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2)
#: (log(1 + z) - z + z * z / 2) / z ** 3 on [sqrt(1/2) - 1, sqrt(2) - 1] (Cephes' logf)
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip


def _require_float32(x: Num) -> None:
    if x.dtype != "float32":
        raise UnsupportedError(f"this function for {x.dtype}")


def _bitcast_to_int(k: KernelBuilder, x: Num) -> Num:
    return Num(k, k.b.bitcast(x.v, k.type("int32", x.lanes)), "int32", x.lanes)


def _bitcast_to_float(k: KernelBuilder, x: Num) -> Num:
    return Num(k, k.b.bitcast(x.v, k.type("float32", x.lanes)), "float32", x.lanes)


def _evaluate_polynomial(k: KernelBuilder, z: Num, coefficients: tuple[float, ...]) -> Num:
    result = k.num(coefficients[0]).splat(z.lanes)
    for c in coefficients[1:]:
        result = k.fma(result, z, k.num(c).splat(z.lanes))
    return result


def _power_of_two(k: KernelBuilder, n: Num) -> Num:
    """2 ** n for integers -126 ... 127 given as float32."""
    return _bitcast_to_float(k, (n.cast("int32") + 127) << 23)


def _reduce_range(k: KernelBuilder, x: Num) -> tuple[Num, Num, Num]:
    """n, r and exp(r) - 1, where x = n ln 2 + r."""
    n = k.unary_intrinsic("rint", x * _LOG2E)
    r = k.fma(-n, k.num(_LN2_LOW).splat(x.lanes), k.fma(-n, k.num(_LN2_HIGH).splat(x.lanes), x))
    return n, r, k.fma(_evaluate_polynomial(k, r, _EXP) * r, r, r)


def _clamp(k: KernelBuilder, x: Num, low: float, high: float) -> Num:
    """x clipped to bounds; NaN stays NaN."""
    x = k.select(x > high, k.num(high), x)
    return k.select(x < low, k.num(low), x)


def exp(k: KernelBuilder, x: Num) -> Num:
    """e ** x; subnormal results keep their precision, because the scale is applied in two steps. At the bounds the
    result is 0 or infinite already."""
    _require_float32(x)
    n, _, less = _reduce_range(k, _clamp(k, x, -104.0, 89.0))
    half = k.unary_intrinsic("floor", n * 0.5)
    return (less + 1.0) * _power_of_two(k, half) * _power_of_two(k, n - half)


def expm1(k: KernelBuilder, x: Num) -> Num:
    """e ** x - 1, exact near 0."""
    _require_float32(x)
    n, _, less = _reduce_range(k, _clamp(k, x, -20.0, 89.0))
    half = k.unary_intrinsic("floor", n * 0.5)
    a, b = _power_of_two(k, half), _power_of_two(k, n - half)
    result = k.select(x > 17.0, (less + 1.0) * a * b, k.fma(less * a, b, a * b - 1.0))  # a * b alone may overflow
    result = k.select(x > 89.0, k.num(float("inf")), result)
    result = k.select(k.unary_intrinsic("fabs", x) < 1e-20, x, result)
    return k.select(x != x, x, result)


def _split_exponent(k: KernelBuilder, x: Num) -> tuple[Num, Num]:
    """x = 2 ** e * (1 + z) with 1 + z in [sqrt(1/2), sqrt(2)); for normal x."""
    bits = _bitcast_to_int(k, x)
    e = (bits >> 23) - 127
    m = _bitcast_to_float(k, (bits & 0x7FFFFF) | 0x3F800000)
    large = m > 1.4142135623730951
    m = k.select(large, m * 0.5, m)
    e = k.select(large, e + 1, e)
    return e.cast("float32"), m - 1.0


def _log_from_parts(k: KernelBuilder, e: Num, z: Num) -> Num:
    z2 = z * z
    y = _evaluate_polynomial(k, z, _LOG) * z * z2
    y = k.fma(e, k.num(_LN2_LOW).splat(z.lanes), y) - z2 * 0.5
    return k.fma(e, k.num(_LN2_HIGH).splat(z.lanes), z + y)


def log(k: KernelBuilder, x: Num) -> Num:
    """The natural logarithm."""
    _require_float32(x)
    tiny = x < 1.17549435e-38
    e, z = _split_exponent(k, k.select(tiny, x * 8388608.0, x))
    result = _log_from_parts(k, k.select(tiny, e - 23.0, e), z)
    result = k.select(x == 0.0, k.num(float("-inf")), result)
    result = k.select(x < 0.0, k.num(float("nan")), result)
    return k.select((x == float("inf")) | (x != x), x, result)


def log1p(k: KernelBuilder, x: Num) -> Num:
    """log(1 + x), exact near 0: log(u) with a correction of the rounding of u = 1 + x."""
    _require_float32(x)
    u = x + 1.0
    result = log(k, u) + k.select(k.unary_intrinsic("fabs", x) < 1.0, x - (u - 1.0), k.num(0.0)) / u
    result = k.select(k.unary_intrinsic("fabs", x) < 1e-7, x, result)
    return k.select((u == float("inf")) | (u == 0.0), log(k, u), result)


def tanh(k: KernelBuilder, x: Num) -> Num:
    """The hyperbolic tangent: with t = e ** (2 |x|) - 1, t / (t + 2) gets the sign of x; from 10 on it is 1."""
    _require_float32(x)
    size = k.unary_intrinsic("fabs", x)
    n, _, less = _reduce_range(k, k.select(size > 10.0, k.num(10.0), size) * 2.0)
    scale = _power_of_two(k, n)
    t = k.fma(less, scale, scale - 1.0)
    sign = ir.Constant(k.type("int32", x.lanes), [-(2**31)] * x.lanes if x.lanes > 1 else -(2**31))
    bits = _bitcast_to_int(k, x) & Num(k, sign, "int32", x.lanes)
    return _bitcast_to_float(k, _bitcast_to_int(k, t / (t + 2.0)) | bits)
