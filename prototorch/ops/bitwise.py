"""Operations on the bits of integers, and on bool elements. Nothing here has a derivative."""

from __future__ import annotations

from typing import Any

from prototorch.ops.elementwise import BinaryOp, ComparisonOp, UnaryOp
from prototorch.spec import Spec


class _BitwiseOp(BinaryOp):
    """Two inputs of one integer dtype; bool where ``takes_bool``."""

    takes_bool = True

    def infer_spec(self, a: Spec, b: Spec) -> Spec:
        if a.is_float or (a.dtype == "bool" and not self.takes_bool):
            raise self.shape_error(f"expected integers{' or bool' if self.takes_bool else ''}, got {a.dtype}")
        return super().infer_spec(a, b)


class BitwiseAnd(_BitwiseOp):
    array_function = "bitwise_and"


class BitwiseOr(_BitwiseOp):
    array_function = "bitwise_or"


class BitwiseXor(_BitwiseOp):
    array_function = "bitwise_xor"


class _Shift(_BitwiseOp):
    """A shift by a number of bits that is not negative; one of all bits or more moves every bit out."""

    takes_bool = False
    inplace = {}

    @staticmethod
    def distance(xp: Any, a: Any, b: Any) -> tuple[Any, Any, int]:
        """Distances within range, where they are not, and the largest one."""
        largest = xp.iinfo(a.dtype).bits - 1
        outside = (b < 0) | (b > largest)
        return xp.where(outside, xp.zeros((), dtype=b.dtype), b), outside, largest


class BitwiseLeftShift(_Shift):
    """a * 2 ** b; 0 where b is not in [0, bits of the dtype)."""

    def reference(self, xp: Any, a: Any, b: Any) -> Any:
        inside, outside, _ = self.distance(xp, a, b)
        return xp.where(outside, xp.zeros((), dtype=a.dtype), xp.bitwise_left_shift(a, inside))


class BitwiseRightShift(_Shift):
    """a // 2 ** b; where b is not in [0, bits of the dtype) the sign bit alone remains, of an unsigned one 0."""

    def reference(self, xp: Any, a: Any, b: Any) -> Any:
        inside, outside, largest = self.distance(xp, a, b)
        if xp.iinfo(a.dtype).min == 0:
            return xp.where(outside, xp.zeros((), dtype=a.dtype), xp.bitwise_right_shift(a, inside))
        last = xp.full((), largest, dtype=b.dtype)
        return xp.bitwise_right_shift(a, xp.where(outside, last, inside))


class BitwiseNot(UnaryOp):
    """All bits inverted; of bool elements: the negation."""

    array_function, float_only = "bitwise_invert", False

    def infer_spec(self, x: Spec) -> Spec:
        if x.is_float:
            raise self.shape_error(f"expected integers or bool, got {x.dtype}")
        return Spec(x.shape, x.dtype)


class LogicalXor(ComparisonOp):
    array_function = "logical_xor"


bitwise_and, bitwise_or, bitwise_xor, bitwise_not = BitwiseAnd(), BitwiseOr(), BitwiseXor(), BitwiseNot()
bitwise_left_shift, bitwise_right_shift, logical_xor = BitwiseLeftShift(), BitwiseRightShift(), LogicalXor()
