"""Memory as a kernel's code sees it: typed addresses, and numbers that are assigned more than once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from prototorch.engine.backends.cpu.native.ir_values import ADDRESS, I8, I32, SIZES, TYPES, Builder, Int64, Num

__all__ = ["MutableNum", "Pointer"]


class Pointer:
    """An address of elements of a type; indices count elements. To one that ``streams`` whole vectors are written past
    the caches, and must go to addresses that are multiples of their size (see `nontemporal.py`).

    ``arguments`` are the numbers of the kernel's arguments in whose arrays it may lie: none for scratch memory.
    """

    __slots__ = ("arguments", "dtype", "k", "nontemporal", "v")

    def __init__(
        self,
        k: Builder,
        v: Any,
        dtype: str = "float32",
        nontemporal: bool = False,
        arguments: frozenset[int] = frozenset(),
    ):
        self.k, self.v, self.dtype, self.nontemporal, self.arguments = k, v, dtype, nontemporal, arguments

    def __add__(self, count: Any) -> Pointer:
        if isinstance(count, int) and count == 0:
            return self
        kind = I8 if self.dtype == "bool" else TYPES[self.dtype]
        v = self.k.b.gep(self.v, [self.k.word(count)], source_etype=kind)
        return Pointer(self.k, v, self.dtype, self.nontemporal, self.arguments)

    def as_type(self, dtype: str) -> Pointer:
        """The same address seen as elements of another type."""
        return Pointer(self.k, self.v, dtype, arguments=self.arguments)

    def load(self, index: Any = 0, lanes: int = 1, mask: Num | None = None, invariant: bool = False) -> Num:
        """One element, or a vector of neighbours; masked-out lanes are 0 and not read. ``invariant``:
        the kernel never writes there, so that what depends on it alone is hoisted out of all loops."""
        k, at = self.k, self + index
        stored_dtype = "uint8" if self.dtype == "bool" else self.dtype
        if mask is None:
            result = k.b.load(at.v, typ=k.type(stored_dtype, lanes))
            result.align = SIZES[self.dtype]
            if invariant:
                result.set_metadata("invariant.load", k.module.add_metadata([]))
        else:
            kind = k.type(stored_dtype, lanes)
            zero = ir.Constant(kind, None)
            result = k.intrinsic(
                "llvm.masked.load." + k.suffix(stored_dtype, lanes) + ".p0",
                kind,
                [(ADDRESS, at.v), (I32, ir.Constant(I32, SIZES[self.dtype])), (mask.v.type, mask.v), (kind, zero)],
            )
        loaded = Num(k, result, stored_dtype, lanes)
        return loaded != 0 if self.dtype == "bool" else loaded

    def store(self, value: Any, index: Any = 0, mask: Num | None = None) -> None:
        """Store an element or a contiguous vector, except for the masked-out lanes."""
        k, at = self.k, self + index
        stored_dtype = "uint8" if self.dtype == "bool" else self.dtype
        value = k.num(value, stored_dtype).cast(stored_dtype)
        if k.magnitudes is not None:
            k.magnitudes.add(value, self.arguments, mask)
        if mask is None:
            result = k.b.store(value.v, at.v)
            stream = self.nontemporal and value.lanes > 1
            result.align = SIZES[self.dtype] * (value.lanes if stream else 1)
            if stream:
                result.set_metadata("nontemporal", k.module.add_metadata([ir.Constant(I32, 1)]))
            return
        value = value.splat(mask.lanes)
        kind = k.type(stored_dtype, mask.lanes)
        k.intrinsic(
            "llvm.masked.store." + k.suffix(stored_dtype, mask.lanes) + ".p0",
            ir.VoidType(),
            [(kind, value.v), (ADDRESS, at.v), (I32, ir.Constant(I32, SIZES[self.dtype])), (mask.v.type, mask.v)],
        )

    def prefetch(self, index: Any = 0, locality: int = 3) -> None:
        """Ask for the cache line ahead of its use; ``near``: 3 for the nearest cache, 2 for the one behind it."""
        at = self + index
        words = [(I32, ir.Constant(I32, n)) for n in (0, locality, 1)]
        self.k.intrinsic("llvm.prefetch.p0", ir.VoidType(), [(ADDRESS, at.v), *words])


class MutableNum:
    """A value that is assigned more than once (LLVM keeps it in a register)."""

    __slots__ = ("_at", "_dtype", "_lanes", "k")

    def __init__(self, k: Builder, value: Num | Int64):
        self.k = k
        self._dtype = value.dtype if isinstance(value, Num) else ""
        self._lanes = value.lanes if isinstance(value, Num) else 1
        with k.b.goto_entry_block():
            self._at = k.b.alloca(value.v.type)
        k.b.store(value.v, self._at)

    @property
    def value(self) -> Any:
        """The current value."""
        v = self.k.b.load(self._at)
        return Num(self.k, v, self._dtype, self._lanes) if self._dtype else Int64(self.k, v)

    @value.setter
    def value(self, new: Any) -> None:
        new = self.k.num(new, self._dtype).splat(self._lanes).v if self._dtype else self.k.word(new)
        self.k.b.store(new, self._at)
