"""Emits a kernel's code as LLVM IR, from Python.

A kernel is one function ``(arguments, first, last, local, shared)``: ``arguments`` an array of 64-bit words (addresses
and integers), ``first ... last`` the iterations to run now, ``local`` scratch memory of the thread, ``shared``
scratch memory of the kernel. `KernelBuilder` builds its LLVM IR:

    k = KernelBuilder("scale")
    x, y = k.pointer(0), k.pointer(1)
    with k.range(k.first, k.last) as row:
        k.for_each_vector(n, lambda i, mask: y.store(x.load(row * n + i, k.lanes, mask) * 2.0, row * n + i, mask))

What is known when the code is emitted (shapes, strides) is a Python number and becomes a constant of the code; an
integer that is known at run time is an `Int64`. `Num` is a scalar or a vector and looks like an array of no dimensions,
so that the reference implementation of an op can be run on it (see `array_tracer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_magnitude import StoredMagnitudes
from prototorch.engine.backends.cpu.native.ir_memory import MutableNum, Pointer
from prototorch.engine.backends.cpu.native.ir_values import (
    ADDRESS,
    FLOATS,
    I1,
    I8,
    I16,
    I32,
    I64,
    SIZES,
    TYPES,
    Int64,
    Num,
    UnsupportedError,
)

__all__ = [
    "ADDRESS",
    "FLOATS",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "SIZES",
    "TYPES",
    "Int64",
    "KernelBuilder",
    "MutableNum",
    "Num",
    "Pointer",
    "UnsupportedError",
]  # fmt: skip


class KernelBuilder:
    """Builds the IR of one kernel. ``lanes`` is the number of float32 elements of the machine's vectors.

    is_watched: whether the kernel finds the largest magnitude that it stores into watched arrays (see
    `ir_magnitude.py`).
    """

    def __init__(self, name: str, is_watched: bool = False):
        self.name = name
        self.lanes = vector_lanes("float32")
        self.module = ir.Module(name)
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS, I64, I64, ADDRESS, ADDRESS])
        self.function = ir.Function(self.module, kind, name)
        entry = self.function.append_basic_block("entry")
        self.b = ir.IRBuilder(self.function.append_basic_block("body"))
        ir.IRBuilder(entry).branch(self.b.block)
        words, first, last, local, shared = self.function.args
        self._entry = entry
        self._entry_values: dict[int, Any] = {}  # values defined in the entry block, by identity
        self._hoisted: dict[Any, Any] = {}  # hoisted values, by operation and operands
        self._arguments = Pointer(self, words, "int64")
        self.magnitudes = StoredMagnitudes(self) if is_watched else None
        self.first, self.last = Int64(self, first), Int64(self, last)
        #: scratch memory of this thread, and of all threads together; see `Code.local` and `Code.shared`
        self.local, self.shared = Pointer(self, local), Pointer(self, shared)

    def finish(self) -> str:
        """The IR as text."""
        if self.magnitudes is not None:
            self.magnitudes.finish()
        self.b.ret_void()
        return str(self.module)

    # arguments and constants

    def argument(self, index: int) -> Int64:
        """An integer argument."""
        with self.entry_block():
            return Int64(self, self._arguments.load(index).v)

    def pointer(self, index: int, dtype: str = "float32", nontemporal: bool = False) -> Pointer:
        """An array argument."""
        with self.entry_block():
            v = self.b.inttoptr(self._arguments.load(index).v, ADDRESS)
            return Pointer(self, v, dtype, nontemporal, frozenset((index,)))

    def word(self, value: Any) -> Any:
        """A Python int or an Int as LLVM's value."""
        if isinstance(value, Int64):
            return value.v
        return ir.Constant(I64, int(value))

    def num(self, value: Any, dtype: str = "float32") -> Num:
        """A value as a Num; a Python number becomes a constant of the dtype."""
        if isinstance(value, Num):
            return value
        if isinstance(value, Int64):
            return Num(self, value.v, "int64").cast(dtype)
        if getattr(value, "shape", None) == ():
            value = value.item()
        kind = TYPES[dtype]
        return Num(self, ir.Constant(kind, float(value) if dtype in FLOATS else int(value)), dtype)

    def zero(self, lanes: int = 1, dtype: str = "float32") -> Num:
        """Zero, or a vector of zeros."""
        return self.num(0, dtype).splat(lanes)

    def iota(self, lanes: int, dtype: str = "int32") -> Num:
        """The vector 0, 1, 2, ..."""
        return Num(self, ir.Constant(self.type(dtype, lanes), list(range(lanes)) if lanes > 1 else 0), dtype, lanes)

    @staticmethod
    def type(dtype: str, lanes: int = 1) -> Any:
        """LLVM's type."""
        return TYPES[dtype] if lanes == 1 else ir.VectorType(TYPES[dtype], lanes)

    @staticmethod
    def suffix(dtype: str, lanes: int = 1) -> str:
        """The suffix of intrinsics for a type."""
        scalar = {"float32": "f32", "float64": "f64", "bool": "i1"}.get(dtype) or f"i{8 * SIZES[dtype]}"
        return scalar if lanes == 1 else f"v{lanes}{scalar}"

    def broadcast_pair(self, a: Any, b: Any) -> tuple[Num, Num]:
        """Two values with the same lanes; a Python number gets the other's dtype."""
        a = self.num(a, b.dtype) if not isinstance(a, Num) else a
        b = self.num(b, a.dtype) if not isinstance(b, Num) else b
        if a.dtype != b.dtype:
            raise UnsupportedError(f"{a.dtype} with {b.dtype}")
        lanes = max(a.lanes, b.lanes)
        return a.splat(lanes), b.splat(lanes)

    def variable(self, value: Any) -> MutableNum:
        """A value that can be assigned again."""
        return MutableNum(self, value if isinstance(value, Num) else Int64(self, self.word(value)))

    # control

    @contextmanager
    def entry_block(self) -> Iterator[None]:
        """Inside, instructions are emitted into the entry block; they may use arguments and other values of that
        block."""
        if self.b.block is self._entry:
            yield
            return
        with self.b.goto_entry_block():
            yield

    def hoist(self, operation: Any, operands: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """LLVM's value of ``make()``. Where all operands are constants or values of the entry block, it is emitted
        there, once: what depends only on numbers that are the same for the whole kernel (an optimizer's learning rate,
        its bias corrections) is not computed for each vector."""
        if not all(isinstance(v, ir.Constant) or id(v) in self._entry_values for v in operands):
            return make()
        key = (operation, *(f"{v}" if isinstance(v, ir.Constant) else id(v) for v in operands))
        if key not in self._hoisted:
            with self.entry_block():
                self._hoisted[key] = self._mark_entry_value(make())
        return self._hoisted[key]

    def _mark_entry_value(self, v: Any) -> Any:
        self._entry_values[id(v)] = v
        return v

    def load_invariant(self, pointer: Pointer) -> Num:
        """The value at an argument's address, read once, in the entry block."""
        key = "load", id(pointer.v)
        if key not in self._hoisted:
            with self.entry_block():
                self._hoisted[key] = pointer.load(invariant=True)
            self._mark_entry_value(self._hoisted[key].v)
        return self._hoisted[key]

    @contextmanager
    def range(self, start: Any, stop: Any = None, step: int = 1) -> Iterator[Int64]:
        """A loop over start, start + step, ... below stop; from 0 where only the stop is given."""
        if stop is None:
            start, stop = 0, start
        b = self.b
        if isinstance(start, int) and isinstance(stop, int) and start < stop <= start + step:
            yield Int64(self, self.word(start))
            return
        before = b.block
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "loop", "after"))
        begin, end = self.word(start), self.word(stop)
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(begin, before)
        b.cbranch(b.icmp_signed("<", i, end), body, after)
        b.position_at_end(body)
        yield Int64(self, i)
        i.add_incoming(b.add(i, ir.Constant(I64, step)), b.block)
        b.branch(head)
        b.position_at_end(after)

    @contextmanager
    def if_then(self, condition: Num) -> Iterator[None]:
        """Inside, instructions are executed only where the condition is true."""
        with self.b.if_then(condition.v):
            yield

    def mask(self, count: Any, lanes: int) -> Num:
        """A mask of the lanes below a count."""
        if isinstance(count, int):
            return self.constant_mask([i < count for i in range(lanes)])
        narrow = Num(self, self.b.trunc(self.word(count), I32), "int32").splat(lanes)
        steps = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        return Num(self, self.b.icmp_signed("<", steps, narrow.v), "bool", lanes)

    def constant_mask(self, lanes: list[bool]) -> Num:
        """bool lanes with these values, known when the code is emitted."""
        return Num(self, ir.Constant(ir.VectorType(I1, len(lanes)), [int(h) for h in lanes]), "bool", len(lanes))

    def for_each_vector(self, count: Any, body: Callable[[Int64, Num | None], None], lanes: int | None = None) -> None:
        """``body(i, None)`` for i = 0, lanes, 2 * lanes, ... and ``body(i, mask)`` for what remains."""
        lanes = lanes or self.lanes
        if isinstance(count, int):
            whole, rest = count - count % lanes, count % lanes
            if whole:
                with self.range(0, whole, lanes) as i:
                    body(i, None)
            if rest:
                body(Int64(self, self.word(whole)), self.mask(rest, lanes))
            return
        rest = count % lanes
        whole = count - rest
        with self.range(0, whole, lanes) as i:
            body(i, None)
        with self.if_then(rest > 0):
            body(whole, self.mask(rest, lanes))

    # arithmetic beyond the operators

    def intrinsic(self, name: str, result: Any, operands: list[tuple[Any, Any]], flags: tuple[str, ...] = ()) -> Any:
        """A call of one of LLVM's intrinsics."""
        kinds, values = [t for t, _ in operands], [v for _, v in operands]
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, kinds), name)
        return self.b.call(function, values, fastmath=flags)

    def unary_intrinsic(self, name: str, x: Num) -> Num:
        """An intrinsic of one number, element by element (``sqrt``, ``fabs``, ``floor``)."""
        full = f"llvm.{name}.{self.suffix(x.dtype, x.lanes)}"
        result = self.hoist(full, (x.v,), lambda: self.intrinsic(full, x.v.type, [(x.v.type, x.v)]))
        return Num(self, result, x.dtype, x.lanes)

    def fma(self, a: Any, b: Any, c: Num) -> Num:
        """a * b + c, rounded once."""
        a, b = self.num(a, c.dtype).splat(c.lanes), self.num(b, c.dtype).splat(c.lanes)
        kind = c.v.type
        result = self.intrinsic(
            f"llvm.fma.{self.suffix(c.dtype, c.lanes)}", kind, [(kind, a.v), (kind, b.v), (kind, c.v)]
        )
        return Num(self, result, c.dtype, c.lanes)

    def select(self, condition: Num, a: Any, b: Any) -> Num:
        """a where the condition holds, else b."""
        if not isinstance(a, Num) and not isinstance(b, Num):
            a = self.num(a)
        a, b = self.broadcast_pair(a, b)
        lanes = max(a.lanes, condition.lanes)
        condition, a, b = condition.splat(lanes), a.splat(lanes), b.splat(lanes)
        return Num(self, self.b.select(condition.v, a.v, b.v), a.dtype, lanes)

    def select_int(self, condition: Num, a: Any, b: Any) -> Int64:
        """The integer a where the condition holds, else b."""
        return Int64(self, self.b.select(condition.v, self.word(a), self.word(b)))

    def select_pointer(self, condition: Num, a: Pointer, b: Pointer) -> Pointer:
        """The address a where the condition holds, else b."""
        return Pointer(self, self.b.select(condition.v, a.v, b.v), a.dtype, arguments=a.arguments | b.arguments)

    def insert_lane(self, vector: Num, value: Num, lane: int) -> Num:
        """A vector with one lane replaced."""
        result = self.b.insert_element(vector.v, value.v, ir.Constant(I32, lane))
        return Num(self, result, vector.dtype, vector.lanes)

    def maximum(self, a: Any, b: Any) -> Num:
        """The larger of both; NaN where one is NaN, as NumPy's."""
        a, b = self.broadcast_pair(a, b)
        larger = self.select(a > b, a, b)
        return self.select(a != a, a, larger) if a.is_float else larger

    def minimum(self, a: Any, b: Any) -> Num:
        """The smaller of both; NaN where one is NaN, as NumPy's."""
        a, b = self.broadcast_pair(a, b)
        smaller = self.select(a < b, a, b)
        return self.select(a != a, a, smaller) if a.is_float else smaller

    def reduce_add(self, x: Num) -> Num:
        """The sum of a vector's lanes, in a fixed order."""
        if x.lanes == 1:
            return x
        if x.is_float:
            start = ir.Constant(TYPES[x.dtype], 0.0)
            result = self.intrinsic(
                f"llvm.vector.reduce.fadd.{self.suffix(x.dtype, x.lanes)}",
                TYPES[x.dtype],
                [(TYPES[x.dtype], start), (x.v.type, x.v)],
                ("reassoc",),
            )
        else:
            result = self.intrinsic(
                f"llvm.vector.reduce.add.{self.suffix(x.dtype, x.lanes)}", TYPES[x.dtype], [(x.v.type, x.v)]
            )
        return Num(self, result, x.dtype)

    def reduce_max(self, x: Num) -> Num:
        """The largest of a vector's lanes; NaN where one is NaN."""
        lanes = x.lanes
        while lanes > 1:
            lanes //= 2
            x = self.maximum(self.slice_lanes(x, 0, lanes), self.slice_lanes(x, lanes, lanes))
        return x

    def interleave(self, a: Num, b: Num, low: bool) -> Num:
        """a0 b0 a1 b1 ... of the lower or the upper halves of two vectors."""
        n = a.lanes
        start = 0 if low else n // 2
        order = [j for i in range(n // 2) for j in (start + i, n + start + i)]
        result = self.b.shuffle_vector(a.v, b.v, ir.Constant(ir.VectorType(I32, n), order))
        return Num(self, result, a.dtype, n)

    def shuffle(self, a: Num, b: Num, order: list[int]) -> Num:
        """Lanes of two vectors by index; indices of the second continue those of the first."""
        indices = ir.Constant(ir.VectorType(I32, len(order)), order)
        return Num(self, self.b.shuffle_vector(a.v, b.v, indices), a.dtype, len(order))

    def slice_lanes(self, x: Num, start: int, lanes: int) -> Num:
        """Contiguous lanes of a vector."""
        if lanes == 1:
            return x.extract_lane(start)
        order = ir.Constant(ir.VectorType(I32, lanes), list(range(start, start + lanes)))
        return Num(self, self.b.shuffle_vector(x.v, x.v, order), x.dtype, lanes)
