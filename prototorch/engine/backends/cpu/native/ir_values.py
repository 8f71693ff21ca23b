"""Values of a kernel that is being emitted: numbers, vectors, indices and addresses, as `KernelBuilder` hands them out.

They wrap LLVM's values and emit instructions into their kernel when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
ADDRESS = ir.PointerType()
TYPES: dict[str, Any] = {
    "bool": I1, "uint8": I8, "int8": I8, "uint16": I16, "int16": I16, "int32": I32, "uint32": I32, "int64": I64,
    "uint64": I64, "float32": ir.FloatType(), "float64": ir.DoubleType(),
}  # fmt: skip
SIZES = {"bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
         "float32": 4, "float64": 8}  # fmt: skip
FLOATS = ("float32", "float64")
#: products may fuse with sums; nothing is reordered, and no quotient becomes an estimate (1 / sqrt(0) is infinite)
_FAST_MATH = ("contract", "nsz")


class UnsupportedError(Exception):
    """The code cannot be emitted: another level of kernels must run the step."""


class Builder(Protocol):
    """The part of `KernelBuilder` that values need: LLVM's instruction builder ``b``, and conversions."""

    b: Any
    module: Any
    magnitudes: Any

    def word(self, value: Any) -> Any: ...
    def num(self, value: Any, dtype: str = "float32") -> Num: ...
    def broadcast_pair(self, a: Any, b: Any) -> tuple[Num, Num]: ...
    def hoist(self, operation: Any, operands: tuple[Any, ...], make: Callable[[], Any]) -> Any: ...
    def intrinsic(self, name: str, result: Any, operands: list[tuple[Any, Any]]) -> Any: ...
    @staticmethod
    def type(dtype: str, lanes: int = 1) -> Any: ...
    @staticmethod
    def suffix(dtype: str, lanes: int = 1) -> str: ...


class Int64:
    """A 64-bit integer known at run time."""

    __slots__ = ("k", "v")

    def __init__(self, k: Builder, v: Any):
        self.k, self.v = k, v

    def _binary_op(self, method: str, other: Any, swap: bool = False) -> Int64:
        a, b = self.v, self.k.word(other)
        return Int64(self.k, getattr(self.k.b, method)(*((b, a) if swap else (a, b))))

    def __add__(self, o: Any) -> Int64:
        return self if isinstance(o, int) and o == 0 else self._binary_op("add", o)

    def __sub__(self, o: Any) -> Int64:
        return self if isinstance(o, int) and o == 0 else self._binary_op("sub", o)

    def __mul__(self, o: Any) -> Int64:
        return self if isinstance(o, int) and o == 1 else self._binary_op("mul", o)

    def __floordiv__(self, o: Any) -> Int64:
        """Of non-negative values."""
        return self if isinstance(o, int) and o == 1 else self._binary_op("udiv", o)

    def __mod__(self, o: Any) -> Int64:
        """Of non-negative values."""
        return self._binary_op("urem", o)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, o: Any) -> Int64:
        return self._binary_op("sub", o, swap=True)

    def _compare(self, sign: str, o: Any) -> Num:
        return Num(self.k, self.k.b.icmp_signed(sign, self.v, self.k.word(o)), "bool")

    def __lt__(self, o: Any) -> Num:
        return self._compare("<", o)

    def __le__(self, o: Any) -> Num:
        return self._compare("<=", o)

    def __gt__(self, o: Any) -> Num:
        return self._compare(">", o)

    def __ge__(self, o: Any) -> Num:
        return self._compare(">=", o)

    def equals(self, o: Any) -> Num:
        """Whether both are equal."""
        return self._compare("==", o)

    def minimum(self, o: Any) -> Int64:
        """The smaller of both."""
        return Int64(self.k, self.k.b.select((self < o).v, self.v, self.k.word(o)))

    def maximum(self, o: Any) -> Int64:
        """The larger of both."""
        return Int64(self.k, self.k.b.select((self > o).v, self.v, self.k.word(o)))


class Num:
    """A scalar, or a vector of ``lanes`` elements, of a NumPy dtype."""

    __slots__ = ("dtype", "k", "lanes", "v")
    shape = ()
    ndim = 0
    size = 1

    def __init__(self, k: Builder, v: Any, dtype: str, lanes: int = 1):
        self.k, self.v, self.dtype, self.lanes = k, v, dtype, lanes

    @property
    def is_float(self) -> bool:
        """Whether the dtype is floating-point."""
        return self.dtype in FLOATS

    def _broadcast_pair(self, other: Any) -> tuple[Num, Num]:
        return self.k.broadcast_pair(self, other)

    def _arithmetic(self, f: str, i: str, other: Any, swap: bool = False) -> Num:
        a, b = self._broadcast_pair(other)
        if swap:
            a, b = b, a
        if a.dtype == "bool":
            raise UnsupportedError("arithmetic of booleans")
        build, flags = getattr(a.k.b, f if a.is_float else i), {"flags": _FAST_MATH} if a.is_float else {}
        result = a.k.hoist(f, (a.v, b.v), lambda: build(a.v, b.v, **flags))
        return Num(a.k, result, a.dtype, a.lanes)

    def __add__(self, o: Any) -> Num:
        return self._arithmetic("fadd", "add", o)

    def __sub__(self, o: Any) -> Num:
        return self._arithmetic("fsub", "sub", o)

    def __mul__(self, o: Any) -> Num:
        return self._arithmetic("fmul", "mul", o)

    def __truediv__(self, o: Any) -> Num:
        if not self.is_float:
            raise UnsupportedError("division of integers")
        return self._arithmetic("fdiv", "sdiv", o)

    def __rsub__(self, o: Any) -> Num:
        return self._arithmetic("fsub", "sub", o, swap=True)

    def __rtruediv__(self, o: Any) -> Num:
        return self._arithmetic("fdiv", "sdiv", o, swap=True)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Num:
        result = self.k.b.fneg(self.v) if self.is_float else self.k.b.neg(self.v)
        return Num(self.k, result, self.dtype, self.lanes)

    def __pow__(self, exponent: Any) -> Num:
        from_int = exponent if isinstance(exponent, int) else int(exponent) if exponent == round(exponent) else None
        if from_int is None or not 1 <= from_int <= 8:
            raise UnsupportedError(f"the power {exponent}")
        result = self
        for _ in range(from_int - 1):
            result = result * self
        return result

    def __rpow__(self, base: Any) -> Num:
        """A Python number to this power, for a scalar: computed in float64, rounded once."""
        if self.lanes != 1 or not self.is_float:
            raise UnsupportedError("a vector as an exponent")
        k, base = self.k, float(np.asarray(base, self.dtype))
        wide = self.cast("float64")
        operands = k.num(base, "float64").v, wide.v
        result = k.hoist(
            "pow", operands, lambda: k.intrinsic("llvm.pow.f64", operands[0].type, [(v.type, v) for v in operands])
        )
        return Num(k, result, "float64").cast(self.dtype)

    def _bitwise_op(self, method: str, other: Any) -> Num:
        a, b = self._broadcast_pair(other)
        if a.is_float:
            raise UnsupportedError("bits of floating-point numbers")
        return Num(a.k, getattr(a.k.b, method)(a.v, b.v), a.dtype, a.lanes)

    def __and__(self, o: Any) -> Num:
        return self._bitwise_op("and_", o)

    def __or__(self, o: Any) -> Num:
        return self._bitwise_op("or_", o)

    def __xor__(self, o: Any) -> Num:
        return self._bitwise_op("xor", o)

    def __invert__(self) -> Num:
        return Num(self.k, self.k.b.not_(self.v), self.dtype, self.lanes)

    def __rshift__(self, o: Any) -> Num:
        return self._bitwise_op("lshr" if self.dtype.startswith("u") else "ashr", o)

    def __lshift__(self, o: Any) -> Num:
        return self._bitwise_op("shl", o)

    def compare(self, sign: str, other: Any) -> Num:
        """A comparison; false where a value is NaN, except for "!="."""
        a, b = self._broadcast_pair(other)
        if a.is_float:
            result = a.k.b.fcmp_unordered("!=", a.v, b.v) if sign == "!=" else a.k.b.fcmp_ordered(sign, a.v, b.v)
        elif a.dtype.startswith("u") or a.dtype == "bool":
            result = a.k.b.icmp_unsigned(sign, a.v, b.v)
        else:
            result = a.k.b.icmp_signed(sign, a.v, b.v)
        return Num(a.k, result, "bool", a.lanes)

    def __lt__(self, o: Any) -> Num:
        return self.compare("<", o)

    def __le__(self, o: Any) -> Num:
        return self.compare("<=", o)

    def __gt__(self, o: Any) -> Num:
        return self.compare(">", o)

    def __ge__(self, o: Any) -> Num:
        return self.compare(">=", o)

    def __eq__(self, o: Any) -> Num:  # type: ignore[override]
        return self.compare("==", o)

    def __ne__(self, o: Any) -> Num:  # type: ignore[override]
        return self.compare("!=", o)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise UnsupportedError("a branch on a value known at run time")

    def cast(self, dtype: str) -> Num:
        """The value in another dtype, as NumPy's astype."""
        if dtype == self.dtype:
            return self
        if dtype == "bool":
            return self != 0
        result = self.k.hoist(f"cast {dtype}", (self.v,), lambda: self._convert(dtype))
        return Num(self.k, result, dtype, self.lanes)

    def _convert(self, dtype: str) -> Any:
        b, target = self.k.b, self.k.type(dtype, self.lanes)
        if self.is_float:
            if dtype in FLOATS:
                result = (b.fpext if dtype == "float64" else b.fptrunc)(self.v, target)
            else:
                result = (b.fptoui if dtype.startswith("u") else b.fptosi)(self.v, target)
        elif dtype in FLOATS:
            signed = not (self.dtype.startswith("u") or self.dtype == "bool")
            result = (b.sitofp if signed else b.uitofp)(self.v, target)
        else:
            wide, narrow = SIZES[dtype], 0 if self.dtype == "bool" else SIZES[self.dtype]
            if wide < narrow:
                result = b.trunc(self.v, target)
            elif wide > narrow:
                result = (b.zext if self.dtype.startswith("u") or self.dtype == "bool" else b.sext)(self.v, target)
            else:
                result = self.v
        return result

    def splat(self, lanes: int) -> Num:
        """A vector with the value in every lane."""
        if self.lanes == lanes:
            return self
        if self.lanes != 1:
            raise UnsupportedError(f"{self.lanes} lanes as {lanes}")
        if isinstance(self.v, ir.Constant):
            one = self.v.constant
            plain_zero = one == 0 and str(one) != "-0.0"  # written "zeroinitializer", which is read faster
            constant = ir.Constant(self.k.type(self.dtype, lanes), None if plain_zero else [one] * lanes)
            return Num(self.k, constant, self.dtype, lanes)
        return Num(
            self.k, self.k.hoist(f"splat {lanes}", (self.v,), lambda: self._broadcast_scalar(lanes)), self.dtype, lanes
        )

    def _broadcast_scalar(self, lanes: int) -> Any:
        empty = ir.Constant(self.k.type(self.dtype, lanes), ir.Undefined)
        one = self.k.b.insert_element(empty, self.v, ir.Constant(I32, 0))
        return self.k.b.shuffle_vector(one, empty, ir.Constant(ir.VectorType(I32, lanes), None))

    def extract_lane(self, i: int) -> Num:
        """One lane of a vector."""
        return (
            self if self.lanes == 1 else Num(self.k, self.k.b.extract_element(self.v, ir.Constant(I32, i)), self.dtype)
        )

    def to_int64(self) -> Int64:
        """The value as an Int64."""
        return Int64(self.k, self.cast("int64").v)
