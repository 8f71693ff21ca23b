"""The emitter: a kernel's machine code, said in Python.

A kernel is one function ``(arguments, first, last, local, shared)``: ``arguments`` an array of 64-bit words (addresses and
whole numbers), ``first ... last`` the pieces of work to do now, ``local`` scratch memory of the thread, ``shared`` scratch
memory of the kernel. `Kernel` builds its LLVM IR:

    k = Kernel("scale")
    x, y = k.pointer(0), k.pointer(1)
    with k.range(k.first, k.last) as row:
        k.vectors(n, lambda i, mask: y.store(x.load(row * n + i, mask=mask, lanes=k.lanes) * 2.0, row * n + i, mask=mask))

What is known when the plan is made (shapes, strides) is a Python number and becomes a constant of the code; what is known at
run time is an `Int`. `Num` is a number or a vector of numbers and looks like an array of no dimensions, so that the plain
body of an op can be run on it (see `arrays.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir

from prototorch.backends.cpu.native.machine import lanes_of

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
ADDRESS = ir.PointerType()
TYPES: dict[str, Any] = {
    "bool": I1, "uint8": I8, "int8": I8, "uint16": I16, "int16": I16, "int32": I32, "uint32": I32, "int64": I64, "uint64": I64,
    "float32": ir.FloatType(), "float64": ir.DoubleType(),
}  # fmt: skip
SIZES = {"bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
         "float32": 4, "float64": 8}  # fmt: skip
FLOATS = ("float32", "float64")
_FAST = ("contract", "nsz", "arcp")  # products may fuse with sums; nothing is reordered


class Unsupported(Exception):
    """What is asked for cannot be emitted: another level of kernels is to do it."""


class Int:
    """A whole number of 64 bits that is known at run time."""

    __slots__ = ("k", "v")

    def __init__(self, k: Kernel, v: Any):
        self.k, self.v = k, v

    def _with(self, method: str, other: Any, swap: bool = False) -> Int:
        a, b = self.v, self.k.word(other)
        return Int(self.k, getattr(self.k.b, method)(*((b, a) if swap else (a, b))))

    def __add__(self, o: Any) -> Int:
        return self if isinstance(o, int) and o == 0 else self._with("add", o)

    def __sub__(self, o: Any) -> Int:
        return self if isinstance(o, int) and o == 0 else self._with("sub", o)

    def __mul__(self, o: Any) -> Int:
        return self if isinstance(o, int) and o == 1 else self._with("mul", o)

    def __floordiv__(self, o: Any) -> Int:
        """Of numbers that are not negative."""
        return self if isinstance(o, int) and o == 1 else self._with("udiv", o)

    def __mod__(self, o: Any) -> Int:
        """Of numbers that are not negative."""
        return self._with("urem", o)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, o: Any) -> Int:
        return self._with("sub", o, swap=True)

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
        """Whether both are the same number."""
        return self._compare("==", o)

    def minimum(self, o: Any) -> Int:
        """The smaller of both."""
        return Int(self.k, self.k.b.select((self < o).v, self.v, self.k.word(o)))

    def maximum(self, o: Any) -> Int:
        """The larger of both."""
        return Int(self.k, self.k.b.select((self > o).v, self.v, self.k.word(o)))


class Num:
    """A number, or a vector of ``lanes`` numbers, of a type by NumPy's name."""

    __slots__ = ("dtype", "k", "lanes", "v")
    shape = ()
    ndim = 0
    size = 1

    def __init__(self, k: Kernel, v: Any, dtype: str, lanes: int = 1):
        self.k, self.v, self.dtype, self.lanes = k, v, dtype, lanes

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.dtype in FLOATS

    def _pair(self, other: Any) -> tuple[Num, Num]:
        return self.k.alike(self, other)

    def _arithmetic(self, f: str, i: str, other: Any, swap: bool = False) -> Num:
        a, b = self._pair(other)
        if swap:
            a, b = b, a
        if a.dtype == "bool":
            raise Unsupported("arithmetic of truth values")
        made = getattr(a.k.b, f)(a.v, b.v, flags=_FAST) if a.is_float else getattr(a.k.b, i)(a.v, b.v)
        return Num(a.k, made, a.dtype, a.lanes)

    def __add__(self, o: Any) -> Num:
        return self._arithmetic("fadd", "add", o)

    def __sub__(self, o: Any) -> Num:
        return self._arithmetic("fsub", "sub", o)

    def __mul__(self, o: Any) -> Num:
        return self._arithmetic("fmul", "mul", o)

    def __truediv__(self, o: Any) -> Num:
        if not self.is_float:
            raise Unsupported("division of whole numbers")
        return self._arithmetic("fdiv", "sdiv", o)

    def __rsub__(self, o: Any) -> Num:
        return self._arithmetic("fsub", "sub", o, swap=True)

    def __rtruediv__(self, o: Any) -> Num:
        return self._arithmetic("fdiv", "sdiv", o, swap=True)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Num:
        made = self.k.b.fneg(self.v) if self.is_float else self.k.b.neg(self.v)
        return Num(self.k, made, self.dtype, self.lanes)

    def __pow__(self, exponent: Any) -> Num:
        from_int = exponent if isinstance(exponent, int) else int(exponent) if exponent == round(exponent) else None
        if from_int is None or not 1 <= from_int <= 8:
            raise Unsupported(f"the power {exponent}")
        made = self
        for _ in range(from_int - 1):
            made = made * self
        return made

    def __rpow__(self, base: Any) -> Num:
        """A Python number to this power, for a single number: computed in float64, rounded once."""
        if self.lanes != 1 or not self.is_float:
            raise Unsupported("a vector as an exponent")
        k, base = self.k, float(np.asarray(base, self.dtype))
        wide = self.cast("float64")
        made = k.intrinsic(
            "llvm.pow.f64", wide.v.type, [(wide.v.type, k.num(base, "float64").v), (wide.v.type, wide.v)]
        )
        return Num(k, made, "float64").cast(self.dtype)

    def _bits(self, method: str, other: Any) -> Num:
        a, b = self._pair(other)
        if a.is_float:
            raise Unsupported("bits of floating-point numbers")
        return Num(a.k, getattr(a.k.b, method)(a.v, b.v), a.dtype, a.lanes)

    def __and__(self, o: Any) -> Num:
        return self._bits("and_", o)

    def __or__(self, o: Any) -> Num:
        return self._bits("or_", o)

    def __xor__(self, o: Any) -> Num:
        return self._bits("xor", o)

    def __invert__(self) -> Num:
        return Num(self.k, self.k.b.not_(self.v), self.dtype, self.lanes)

    def __rshift__(self, o: Any) -> Num:
        return self._bits("lshr" if self.dtype.startswith("u") else "ashr", o)

    def __lshift__(self, o: Any) -> Num:
        return self._bits("shl", o)

    def compare(self, sign: str, other: Any) -> Num:
        """A comparison; false where a number is NaN, but for "!="."""
        a, b = self._pair(other)
        if a.is_float:
            made = a.k.b.fcmp_unordered("!=", a.v, b.v) if sign == "!=" else a.k.b.fcmp_ordered(sign, a.v, b.v)
        elif a.dtype.startswith("u") or a.dtype == "bool":
            made = a.k.b.icmp_unsigned(sign, a.v, b.v)
        else:
            made = a.k.b.icmp_signed(sign, a.v, b.v)
        return Num(a.k, made, "bool", a.lanes)

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
        raise Unsupported("a branch on a number that is known at run time")

    def cast(self, dtype: str) -> Num:
        """The number as another type, as NumPy's astype."""
        k, b = self.k, self.k.b
        if dtype == self.dtype:
            return self
        target = k.type(dtype, self.lanes)
        if dtype == "bool":
            return self != 0
        if self.is_float:
            if dtype in FLOATS:
                made = (b.fpext if dtype == "float64" else b.fptrunc)(self.v, target)
            else:
                made = (b.fptoui if dtype.startswith("u") else b.fptosi)(self.v, target)
        elif dtype in FLOATS:
            signed = not (self.dtype.startswith("u") or self.dtype == "bool")
            made = (b.sitofp if signed else b.uitofp)(self.v, target)
        else:
            wide, narrow = SIZES[dtype], 0 if self.dtype == "bool" else SIZES[self.dtype]
            if wide < narrow:
                made = b.trunc(self.v, target)
            elif wide > narrow:
                made = (b.zext if self.dtype.startswith("u") or self.dtype == "bool" else b.sext)(self.v, target)
            else:
                made = self.v
        return Num(k, made, dtype, self.lanes)

    def splat(self, lanes: int) -> Num:
        """The number in every lane of a vector."""
        if self.lanes == lanes:
            return self
        if self.lanes != 1:
            raise Unsupported(f"{self.lanes} lanes as {lanes}")
        if isinstance(self.v, ir.Constant):
            return Num(
                self.k, ir.Constant(self.k.type(self.dtype, lanes), [self.v.constant] * lanes), self.dtype, lanes
            )
        empty = ir.Constant(self.k.type(self.dtype, lanes), ir.Undefined)
        one = self.k.b.insert_element(empty, self.v, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
        return Num(self.k, self.k.b.shuffle_vector(one, empty, zeros), self.dtype, lanes)

    def lane(self, i: int) -> Num:
        """One number of a vector."""
        return (
            self if self.lanes == 1 else Num(self.k, self.k.b.extract_element(self.v, ir.Constant(I32, i)), self.dtype)
        )

    def int(self) -> Int:
        """A whole number as an index."""
        return Int(self.k, self.cast("int64").v)


class Pointer:
    """An address of elements of a type; indices count elements. To one that ``streams`` whole vectors are written past
    the caches, and must go to addresses that are multiples of their size (see `streams.py`)."""

    __slots__ = ("dtype", "k", "streams", "v")

    def __init__(self, k: Kernel, v: Any, dtype: str = "float32", streams: bool = False):
        self.k, self.v, self.dtype, self.streams = k, v, dtype, streams

    def __add__(self, count: Any) -> Pointer:
        if isinstance(count, int) and count == 0:
            return self
        kind = I8 if self.dtype == "bool" else TYPES[self.dtype]
        return Pointer(self.k, self.k.b.gep(self.v, [self.k.word(count)], source_etype=kind), self.dtype, self.streams)

    def as_type(self, dtype: str) -> Pointer:
        """The same address seen as elements of another type."""
        return Pointer(self.k, self.v, dtype)

    def load(self, index: Any = 0, lanes: int = 1, mask: Num | None = None, fixed: bool = False) -> Num:
        """One element, or a vector of neighbours; lanes that the mask leaves out are 0 and not touched. ``fixed``: the
        kernel never writes there, so that what follows from it alone is computed once, before all loops."""
        k, at = self.k, self + index
        held = "uint8" if self.dtype == "bool" else self.dtype
        if mask is None:
            made = k.b.load(at.v, typ=k.type(held, lanes))
            made.align = SIZES[self.dtype]
            if fixed:
                made.set_metadata("invariant.load", k.module.add_metadata([]))
        else:
            kind = k.type(held, lanes)
            zero = ir.Constant(kind, [0] * lanes if held not in FLOATS else [0.0] * lanes)
            made = k.intrinsic("llvm.masked.load." + k.suffix(held, lanes) + ".p0", kind,
                               [(ADDRESS, at.v), (I32, ir.Constant(I32, SIZES[self.dtype])), (mask.v.type, mask.v),
                                (kind, zero)])  # fmt: skip
        found = Num(k, made, held, lanes)
        return found != 0 if self.dtype == "bool" else found

    def store(self, value: Any, index: Any = 0, mask: Num | None = None) -> None:
        """Write an element or a vector of neighbours, but for the lanes that the mask leaves out."""
        k, at = self.k, self + index
        held = "uint8" if self.dtype == "bool" else self.dtype
        value = k.num(value, held).cast(held)
        if mask is None:
            made = k.b.store(value.v, at.v)
            stream = self.streams and value.lanes > 1
            made.align = SIZES[self.dtype] * (value.lanes if stream else 1)
            if stream:
                made.set_metadata("nontemporal", k.module.add_metadata([ir.Constant(I32, 1)]))
            return
        value = value.splat(mask.lanes)
        kind = k.type(held, mask.lanes)
        k.intrinsic("llvm.masked.store." + k.suffix(held, mask.lanes) + ".p0", ir.VoidType(),
                    [(kind, value.v), (ADDRESS, at.v), (I32, ir.Constant(I32, SIZES[self.dtype])),
                     (mask.v.type, mask.v)])  # fmt: skip

    def prefetch(self, index: Any = 0) -> None:
        """Ask for the cache line ahead of its use."""
        at = self + index
        words = [(I32, ir.Constant(I32, n)) for n in (0, 3, 1)]
        self.k.intrinsic("llvm.prefetch.p0", ir.VoidType(), [(ADDRESS, at.v), *words])


class Variable:
    """A number that is written more than once (a register, once LLVM has done its work)."""

    __slots__ = ("_at", "_dtype", "_lanes", "k")

    def __init__(self, k: Kernel, value: Num | Int):
        self.k = k
        self._dtype = value.dtype if isinstance(value, Num) else ""
        self._lanes = value.lanes if isinstance(value, Num) else 1
        with k.b.goto_entry_block():
            self._at = k.b.alloca(value.v.type)
        k.b.store(value.v, self._at)

    @property
    def value(self) -> Any:
        """What it is now."""
        v = self.k.b.load(self._at)
        return Num(self.k, v, self._dtype, self._lanes) if self._dtype else Int(self.k, v)

    @value.setter
    def value(self, new: Any) -> None:
        new = self.k.num(new, self._dtype).splat(self._lanes).v if self._dtype else self.k.word(new)
        self.k.b.store(new, self._at)


class Kernel:
    """Builds one kernel. ``lanes`` are the float32 numbers of the machine's vector."""

    def __init__(self, name: str):
        self.name = name
        self.lanes = lanes_of("float32")
        self.module = ir.Module(name)
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS, I64, I64, ADDRESS, ADDRESS])
        self.function = ir.Function(self.module, kind, name)
        entry = self.function.append_basic_block("entry")
        self.b = ir.IRBuilder(self.function.append_basic_block("body"))
        ir.IRBuilder(entry).branch(self.b.block)
        words, first, last, local, shared = self.function.args
        self._words = Pointer(self, words, "int64")
        self.first, self.last = Int(self, first), Int(self, last)
        #: scratch memory of this thread, and of all threads together; see `Code.local` and `Code.shared`
        self.local, self.shared = Pointer(self, local), Pointer(self, shared)

    def finish(self) -> str:
        """The IR as text."""
        self.b.ret_void()
        return str(self.module)

    # arguments and constants

    def argument(self, index: int) -> Int:
        """A whole number given at run time."""
        return Int(self, self._words.load(index).v)

    def pointer(self, index: int, dtype: str = "float32", streams: bool = False) -> Pointer:
        """An array given at run time."""
        return Pointer(self, self.b.inttoptr(self._words.load(index).v, ADDRESS), dtype, streams)

    def word(self, value: Any) -> Any:
        """A Python int or an Int as LLVM's value."""
        if isinstance(value, Int):
            return value.v
        return ir.Constant(I64, int(value))

    def num(self, value: Any, dtype: str = "float32") -> Num:
        """A number as a Num; a Python number becomes a constant of the type."""
        if isinstance(value, Num):
            return value
        if isinstance(value, Int):
            return Num(self, value.v, "int64").cast(dtype)
        if getattr(value, "shape", None) == ():
            value = value.item()
        kind = TYPES[dtype]
        return Num(self, ir.Constant(kind, float(value) if dtype in FLOATS else int(value)), dtype)

    def zero(self, lanes: int = 1, dtype: str = "float32") -> Num:
        """Zero, or a vector of zeros."""
        return self.num(0, dtype).splat(lanes)

    def iota(self, lanes: int, dtype: str = "int32") -> Num:
        """The whole numbers 0, 1, ... of a vector."""
        return Num(self, ir.Constant(self.type(dtype, lanes), list(range(lanes)) if lanes > 1 else 0), dtype, lanes)

    @staticmethod
    def type(dtype: str, lanes: int = 1) -> Any:
        """LLVM's type."""
        return TYPES[dtype] if lanes == 1 else ir.VectorType(TYPES[dtype], lanes)

    @staticmethod
    def suffix(dtype: str, lanes: int = 1) -> str:
        """How intrinsics name a type."""
        plain = {"float32": "f32", "float64": "f64", "bool": "i1"}.get(dtype) or f"i{8 * SIZES[dtype]}"
        return plain if lanes == 1 else f"v{lanes}{plain}"

    def alike(self, a: Any, b: Any) -> tuple[Num, Num]:
        """Two numbers brought to the same lanes; a Python number takes the other's type."""
        a = self.num(a, b.dtype) if not isinstance(a, Num) else a
        b = self.num(b, a.dtype) if not isinstance(b, Num) else b
        if a.dtype != b.dtype:
            raise Unsupported(f"{a.dtype} with {b.dtype}")
        lanes = max(a.lanes, b.lanes)
        return a.splat(lanes), b.splat(lanes)

    def variable(self, value: Any) -> Variable:
        """A number that can be written again."""
        return Variable(self, value if isinstance(value, Num) else Int(self, self.word(value)))

    # control

    @contextmanager
    def range(self, start: Any, stop: Any = None, step: int = 1) -> Iterator[Int]:
        """A loop over start, start + step, ... below stop; from 0 where only the stop is given."""
        if stop is None:
            start, stop = 0, start
        b = self.b
        if isinstance(start, int) and isinstance(stop, int) and start < stop <= start + step:
            yield Int(self, self.word(start))
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
        yield Int(self, i)
        i.add_incoming(b.add(i, ir.Constant(I64, step)), b.block)
        b.branch(head)
        b.position_at_end(after)

    @contextmanager
    def when(self, condition: Num) -> Iterator[None]:
        """What is said inside happens only where the condition holds."""
        with self.b.if_then(condition.v):
            yield

    def mask(self, count: Any, lanes: int) -> Num:
        """Which lanes are below a count."""
        if isinstance(count, int):
            return self.lanes_of([i < count for i in range(lanes)])
        narrow = Num(self, self.b.trunc(self.word(count), I32), "int32").splat(lanes)
        steps = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        return Num(self, self.b.icmp_signed("<", steps, narrow.v), "bool", lanes)

    def lanes_of(self, held: list[bool]) -> Num:
        """A mask of lanes that are known when the code is made."""
        return Num(self, ir.Constant(ir.VectorType(I1, len(held)), [int(h) for h in held]), "bool", len(held))

    def vectors(self, count: Any, body: Callable[[Int, Num | None], None], lanes: int | None = None) -> None:
        """``body(i, None)`` for i = 0, lanes, 2 * lanes, ... and ``body(i, mask)`` for what remains."""
        lanes = lanes or self.lanes
        if isinstance(count, int):
            whole, rest = count - count % lanes, count % lanes
            if whole:
                with self.range(0, whole, lanes) as i:
                    body(i, None)
            if rest:
                body(Int(self, self.word(whole)), self.mask(rest, lanes))
            return
        rest = count % lanes
        whole = count - rest
        with self.range(0, whole, lanes) as i:
            body(i, None)
        with self.when(rest > 0):
            body(whole, self.mask(rest, lanes))

    # arithmetic that operators do not say

    def intrinsic(self, name: str, result: Any, given: list[tuple[Any, Any]], flags: tuple[str, ...] = ()) -> Any:
        """A call of one of LLVM's intrinsics."""
        kinds, values = [t for t, _ in given], [v for _, v in given]
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, kinds), name)
        return self.b.call(function, values, fastmath=flags)

    def call1(self, name: str, x: Num) -> Num:
        """An intrinsic of one number, element by element (``sqrt``, ``fabs``, ``floor``)."""
        made = self.intrinsic(f"llvm.{name}.{self.suffix(x.dtype, x.lanes)}", x.v.type, [(x.v.type, x.v)])
        return Num(self, made, x.dtype, x.lanes)

    def fma(self, a: Any, b: Any, c: Num) -> Num:
        """a * b + c, rounded once."""
        a, b = self.num(a, c.dtype).splat(c.lanes), self.num(b, c.dtype).splat(c.lanes)
        kind = c.v.type
        made = self.intrinsic(
            f"llvm.fma.{self.suffix(c.dtype, c.lanes)}", kind, [(kind, a.v), (kind, b.v), (kind, c.v)]
        )
        return Num(self, made, c.dtype, c.lanes)

    def select(self, condition: Num, a: Any, b: Any) -> Num:
        """a where the condition holds, else b."""
        if not isinstance(a, Num) and not isinstance(b, Num):
            a = self.num(a)
        a, b = self.alike(a, b)
        lanes = max(a.lanes, condition.lanes)
        condition, a, b = condition.splat(lanes), a.splat(lanes), b.splat(lanes)
        return Num(self, self.b.select(condition.v, a.v, b.v), a.dtype, lanes)

    def select_word(self, condition: Num, a: Any, b: Any) -> Int:
        """The whole number a where the condition holds, else b."""
        return Int(self, self.b.select(condition.v, self.word(a), self.word(b)))

    def choose(self, condition: Num, a: Pointer, b: Pointer) -> Pointer:
        """The address a where the condition holds, else b."""
        return Pointer(self, self.b.select(condition.v, a.v, b.v), a.dtype)

    def insert(self, vector: Num, value: Num, lane: int) -> Num:
        """A vector with one lane replaced."""
        made = self.b.insert_element(vector.v, value.v, ir.Constant(I32, lane))
        return Num(self, made, vector.dtype, vector.lanes)

    def maximum(self, a: Any, b: Any) -> Num:
        """The larger of both; NaN where one is NaN, as NumPy's."""
        a, b = self.alike(a, b)
        larger = self.select(a > b, a, b)
        return self.select(a != a, a, larger) if a.is_float else larger

    def minimum(self, a: Any, b: Any) -> Num:
        """The smaller of both; NaN where one is NaN, as NumPy's."""
        a, b = self.alike(a, b)
        smaller = self.select(a < b, a, b)
        return self.select(a != a, a, smaller) if a.is_float else smaller

    def total(self, x: Num) -> Num:
        """The sum of a vector's lanes, in a fixed order."""
        if x.lanes == 1:
            return x
        if x.is_float:
            start = ir.Constant(TYPES[x.dtype], 0.0)
            made = self.intrinsic(f"llvm.vector.reduce.fadd.{self.suffix(x.dtype, x.lanes)}", TYPES[x.dtype],
                                  [(TYPES[x.dtype], start), (x.v.type, x.v)], ("reassoc",))  # fmt: skip
        else:
            made = self.intrinsic(f"llvm.vector.reduce.add.{self.suffix(x.dtype, x.lanes)}", TYPES[x.dtype],
                                  [(x.v.type, x.v)])  # fmt: skip
        return Num(self, made, x.dtype)

    def largest(self, x: Num) -> Num:
        """The largest of a vector's lanes; NaN where one is NaN."""
        lanes = x.lanes
        while lanes > 1:
            lanes //= 2
            x = self.maximum(self.part(x, 0, lanes), self.part(x, lanes, lanes))
        return x

    def interleaved(self, a: Num, b: Num, low: bool) -> Num:
        """a0 b0 a1 b1 ... of the lower or the upper halves of two vectors."""
        n = a.lanes
        start = 0 if low else n // 2
        order = [j for i in range(n // 2) for j in (start + i, n + start + i)]
        made = self.b.shuffle_vector(a.v, b.v, ir.Constant(ir.VectorType(I32, n), order))
        return Num(self, made, a.dtype, n)

    def shuffled(self, a: Num, b: Num, order: list[int]) -> Num:
        """Lanes of two vectors; those of the second are counted on from the first's."""
        places = ir.Constant(ir.VectorType(I32, len(order)), order)
        return Num(self, self.b.shuffle_vector(a.v, b.v, places), a.dtype, len(order))

    def part(self, x: Num, start: int, lanes: int) -> Num:
        """Neighbouring lanes of a vector."""
        if lanes == 1:
            return x.lane(start)
        order = ir.Constant(ir.VectorType(I32, lanes), list(range(start, start + lanes)))
        return Num(self, self.b.shuffle_vector(x.v, x.v, order), x.dtype, lanes)
