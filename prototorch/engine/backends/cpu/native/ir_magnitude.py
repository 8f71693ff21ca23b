"""The largest magnitude among the numbers that a kernel stores into watched arrays, found while they are in registers.

The bits of a float32 without its sign, read as an integer, have the order of magnitudes, and those of infinity and NaN
are above all finite ones: one maximum finds both the largest number and whether all are finite, whatever the order in
which threads store them.

A watched kernel finds, in the word before its arguments, the address of a record of 64-bit words: the address of the
word that takes the maximum, then for up to `MAX_WATCHED` arrays the address and the number of bytes (0: no array).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from prototorch.engine.backends.cpu.native.ir_values import ADDRESS, I32, I64, Num

__all__ = ["MAX_WATCHED", "StoredMagnitudes"]

MAX_WATCHED = 4
_WITHOUT_SIGN = 0x7FFFFFFF


class StoredMagnitudes:
    """The largest magnitude stored through each set of array arguments, in the kernel that ``k`` builds."""

    def __init__(self, k: Any):
        self.k = k
        self._largest: dict[tuple[frozenset[int], int], Any] = {}  # by arguments and lanes

    def add(self, value: Num, arguments: frozenset[int], mask: Num | None) -> None:
        """Take in a number, or a vector whose masked-out lanes do not count, that is stored through one of these
        arguments. float64 counts as the float32 next to it."""
        k = self.k
        if not arguments or not value.is_float:
            return
        value = value.cast("float32").splat(value.lanes if mask is None else mask.lanes)
        bits = Num(k, k.b.bitcast(value.v, k.type("int32", value.lanes)), "int32", value.lanes) & _WITHOUT_SIGN
        if mask is not None:
            bits = k.select(mask, bits, k.zero(value.lanes, "int32"))
        at = self._accumulator(arguments, value.lanes)
        before = Num(k, k.b.load(at), "int32", value.lanes)
        k.b.store(k.select(bits > before, bits, before).v, at)

    def _accumulator(self, arguments: frozenset[int], lanes: int) -> Any:
        key = arguments, lanes
        if key not in self._largest:
            k = self.k
            with k.entry_block():
                at = self._largest[key] = k.b.alloca(k.type("int32", lanes))
                k.b.store(k.zero(lanes, "int32").v, at)
        return self._largest[key]

    def finish(self) -> None:
        """Emit what passes the maxima on, at the end of the kernel."""
        k = self.k
        for arguments in dict.fromkeys(arguments for arguments, _ in self._largest):
            largest: Num | None = None
            for (among, lanes), at in self._largest.items():
                if among == arguments:
                    one = self._reduce(k.b.load(at), lanes)
                    largest = one if largest is None else k.select(one > largest, one, largest)
            assert largest is not None
            record = k.b.inttoptr(k.argument(-1).v, ADDRESS)
            with k.if_then(self._is_watched(record, arguments)):
                maximum = k.b.inttoptr(self._word(record, 0), ADDRESS)
                value = k.b.zext(largest.v, I64)
                with k.b.if_then(k.b.icmp_unsigned(">", value, k.b.load(maximum, typ=I64))):
                    k.b.atomic_rmw("umax", maximum, value, "monotonic")

    def _reduce(self, vector: Any, lanes: int) -> Num:
        if lanes == 1:
            return Num(self.k, vector, "int32")
        name = f"llvm.vector.reduce.smax.{self.k.suffix('int32', lanes)}"
        return Num(self.k, self.k.intrinsic(name, I32, [(vector.type, vector)]), "int32")

    def _is_watched(self, record: Any, arguments: frozenset[int]) -> Num:
        """Whether one of the arguments lies in a watched array."""
        b = self.k.b
        condition = None
        for argument in sorted(arguments):
            word = self.k.argument(argument).v
            for i in range(MAX_WATCHED):
                distance = b.sub(word, self._word(record, 1 + 2 * i))
                inside = b.icmp_unsigned("<", distance, self._word(record, 2 + 2 * i))
                condition = inside if condition is None else b.or_(condition, inside)
        return Num(self.k, condition, "bool")

    def _word(self, record: Any, index: int) -> Any:
        b = self.k.b
        return b.load(b.gep(record, [ir.Constant(I64, index)], source_etype=I64), typ=I64)
