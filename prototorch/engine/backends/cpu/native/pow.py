"""a ** b of float32 vectors, computed in float64; floor division and remainder, as in NumPy.

A power is 2 ** (b log2 |a|), with a relative error of the exponent below 1e-12: one rounding to float32 remains.
Limits, infinities, zeros and NaN are those of the C library's pow, as in NumPy.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, Num, UnsupportedError
from prototorch.engine.backends.cpu.native.trig import any_lane

#: 2 / (ln 2 (2 i + 1)): log2((1 + s) / (1 - s)) = s times this in s^2; |s| <= 0.172, so that s^19 is below 1e-14
_LOG2 = tuple(2 / (math.log(2) * (2 * i + 1)) for i in range(8, -1, -1))
#: 2^f on [-1/2, 1/2]: the next term is 7e-12
_EXP2 = tuple(math.log(2) ** i / math.factorial(i) for i in range(9, -1, -1))
_MAX_EXPONENT = 300.0  # beyond this exponent float32 is 0 or infinite


def _constant_value(x: Num) -> float | None:
    return float(x.v.constant) if x.lanes == 1 and isinstance(x.v, ir.Constant) else None


def power(k: KernelBuilder, a: Any, b: Any) -> Num:
    """a ** b."""
    a = a if isinstance(a, Num) else k.num(a, b.dtype)
    b = b if isinstance(b, Num) else k.num(b, a.dtype)
    if a.dtype != "float32" or b.dtype != "float32":
        raise UnsupportedError(f"powers of {a.dtype}")
    exponent = _constant_value(b)
    if exponent in (1.0, 2.0, 3.0, 4.0):
        return a ** int(exponent)
    if exponent == 0.5:
        return k.select(a == float("-inf"), k.num(float("inf")), k.unary_intrinsic("sqrt", a))
    if b.lanes == 1 and a.lanes > 1:
        return _power_of_scalar(k, a, b)
    return _power_of_vector(k, *k.broadcast_pair(a, b))


def _power_of_scalar(k: KernelBuilder, a: Num, b: Num) -> Num:
    """a ** b for a scalar exponent: the common ones, 2 and 3, are products."""
    result = k.variable(a * a)
    with k.if_then((b != 2.0) & (b != 3.0)):
        result.value = _power_of_vector(k, *k.broadcast_pair(a, b))
    return k.select(b == 3.0, result.value * a, result.value)


def _power_of_vector(k: KernelBuilder, a: Num, b: Num) -> Num:
    size = k.unary_intrinsic("fabs", a)
    exponent = _log2(k, size) * b.cast("float64")  # NaN for 0 * infinity, replaced below
    result = _exp2(k, exponent).cast("float32")
    whole = k.unary_intrinsic("rint", b) == b
    half = b * 0.5
    odd = whole & (k.unary_intrinsic("rint", half) != half)
    result = k.select(odd & _is_negative(k, a), -result, result)
    result = k.select((a < 0.0) & ~whole & (size < float("inf")), k.num(float("nan")), result)
    one = (b == 0.0) | (a == 1.0) | ((a == -1.0) & (k.unary_intrinsic("fabs", b) == float("inf")))
    return k.select(one, k.num(1.0), result)


def _is_negative(k: KernelBuilder, x: Num) -> Num:
    """Whether the sign bit is set (also of -0)."""
    return Num(k, k.b.bitcast(x.v, k.type("int32", x.lanes)), "int32", x.lanes) < 0


def _evaluate_polynomial(k: KernelBuilder, z: Num, coefficients: tuple[float, ...]) -> Num:
    result = k.num(coefficients[0], "float64").splat(z.lanes)
    for c in coefficients[1:]:
        result = k.fma(result, z, k.num(c, "float64").splat(z.lanes))
    return result


def _log2(k: KernelBuilder, x: Num) -> Num:
    """The logarithm of a non-negative float32 value, as float64 (in which no float32 value is subnormal)."""
    wide = x.cast("float64")
    bits = Num(k, k.b.bitcast(wide.v, k.type("int64", x.lanes)), "int64", x.lanes)
    e = (bits >> 52) - 1023
    m = Num(k, k.b.bitcast(((bits & (2**52 - 1)) | (1023 << 52)).v, wide.v.type), "float64", x.lanes)
    large = m > math.sqrt(2)
    m = k.select(large, m * 0.5, m)
    count = k.select(large, e + 1, e).cast("float64")
    s = (m - 1.0) / (m + 1.0)
    result = k.fma(_evaluate_polynomial(k, s * s, _LOG2), s, count)
    result = k.select(x == 0.0, k.num(float("-inf"), "float64"), result)
    return k.select((x == float("inf")) | (x != x), wide, result)


def _exp2(k: KernelBuilder, x: Num) -> Num:
    """2 ** x of float64 numbers, as far as it is to be rounded to float32; NaN stays."""
    x = k.select(x > _MAX_EXPONENT, k.num(_MAX_EXPONENT, "float64"), x)
    x = k.select(x < -_MAX_EXPONENT, k.num(-_MAX_EXPONENT, "float64"), x)
    n = k.unary_intrinsic("rint", x)
    near = k.select(x == x, n, k.num(0.0, "float64"))  # NaN has no integer
    bits = (near.cast("int64") + 1023) << 52
    scale = Num(k, k.b.bitcast(bits.v, x.v.type), "float64", x.lanes)
    return _evaluate_polynomial(k, x - n, _EXP2) * scale


def floor_divide(k: KernelBuilder, a: Any, b: Any) -> Num:
    """The floor of a / b; 0 where an integer is divided by 0."""
    a, b = k.broadcast_pair(a, b)
    if not a.is_float:
        rest, result = _int_divmod(k, a, b)
        return k.select(_signs_differ(k, rest, b), result - 1, result)
    rest = _float_remainder(k, a, b)
    result = _exact_divide(k, a - rest, b)
    result = k.select((rest != 0.0) & ((rest < 0.0) ^ (b < 0.0)), result - 1.0, result)
    near = k.unary_intrinsic("floor", result)
    near = k.select(result - near > 0.5, near + 1.0, near)
    return k.select(b == 0.0, _exact_divide(k, a, b), near)


def remainder(k: KernelBuilder, a: Any, b: Any) -> Num:
    """The remainder of floor division, with the sign of b; 0 where an integer is divided by 0."""
    a, b = k.broadcast_pair(a, b)
    if not a.is_float:
        rest, _ = _int_divmod(k, a, b)
        return k.select(_signs_differ(k, rest, b), rest + b, rest)
    rest = _float_remainder(k, a, b)
    moved = k.select((rest != 0.0) & ((rest < 0.0) ^ (b < 0.0)), rest + b, rest)
    kind = k.suffix(a.dtype, a.lanes)
    signed = k.intrinsic(f"llvm.copysign.{kind}", a.v.type, [(a.v.type, moved.v), (a.v.type, b.v)])
    return k.select(moved == 0.0, Num(k, signed, a.dtype, a.lanes), moved)


def _float_remainder(k: KernelBuilder, a: Num, b: Num) -> Num:
    """The exact remainder of division towards 0: a - q b in float64, which represents q b where the quotient has 28
    bits; for others the C library's fmod, element by element."""
    if a.dtype != "float32":
        raise UnsupportedError(f"the remainder of {a.dtype}")
    top, low = a.cast("float64"), b.cast("float64")
    q = k.unary_intrinsic("trunc", _exact_divide(k, top, low))
    usual = (k.unary_intrinsic("fabs", q) < 2.0**28) & (k.unary_intrinsic("fabs", b) < float("inf"))
    rest = k.fma(-q, low, top)
    over = (rest * top) < 0.0  # the quotient was rounded up to an integer
    moved = k.select((rest < 0.0) ^ (low < 0.0), rest + low, rest - low)
    result = k.variable(k.select(over, moved, rest).cast("float32"))
    with k.if_then(any_lane(k, ~usual)):
        slow = Num(k, k.b.frem(a.v, b.v), a.dtype, a.lanes)
        result.value = k.select(usual, result.value, slow)
    return result.value


def _exact_divide(k: KernelBuilder, a: Num, b: Num) -> Num:
    """a / b; never as a * (1 / b), which is infinite for the smallest b."""
    return Num(k, k.b.fdiv(a.v, b.v), a.dtype, a.lanes)


def _int_divmod(k: KernelBuilder, a: Num, b: Num) -> tuple[Num, Num]:
    """Remainder and quotient towards 0. Neither a division by 0 nor one by -1, which overflows for the smallest
    integer, is executed."""
    if a.dtype == "bool":
        raise UnsupportedError("division of booleans")
    unsigned, zero = a.dtype.startswith("u"), b == 0
    special = zero if unsigned else zero | (b == -1)
    safe = k.select(special, k.num(1, a.dtype), b)
    result = Num(k, (k.b.udiv if unsigned else k.b.sdiv)(a.v, safe.v), a.dtype, a.lanes)
    if not unsigned:
        result = k.select(b == -1, -a, result)
    result = k.select(zero, k.num(0, a.dtype), result)
    return k.select(special, k.num(0, a.dtype), a - result * b), result


def _signs_differ(k: KernelBuilder, rest: Num, b: Num) -> Num:
    """Whether an integer remainder is not 0 and its sign is not that of b."""
    if rest.dtype.startswith("u"):
        return Num(k, ir.Constant(k.type("bool", rest.lanes), None), "bool", rest.lanes)
    return (rest != 0) & ((rest < 0) ^ (b < 0))
