"""Reductions over any axes.

Memory's axes, merged, are kept and reduced ones in turn. Where the last is reduced, a vector of partial results runs
along it and its lanes are put together at the end; where it is kept, each lane is a result of its own. One reduced
axis, the longest, is cut into parts of about PIECE elements, whose results lie in shared scratch memory until a second
task puts them together in order, in float64 for sums: a sum of any length has the rounding of a sum of some hundred
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Code, Tasks, code, native
from prototorch.backends.cpu.native.emit import SIZES, Int, Kernel, Num, Pointer, Unsupported, Variable
from prototorch.backends.cpu.native.kernels.elementwise import memory_order
from prototorch.backends.cpu.native.kernels.reduce_plan import PIECE, Axis, Plan, merged, planned
from prototorch.backends.cpu.native.machine import lanes_of, registers
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

#: numbers added into a lane before the lane is added to another
_BLOCK = 64
_TYPES = ("float32", "float64", "int32", "int64", "bool")


class Kind:
    """What is done to two numbers, and where it begins."""

    def __init__(self, k: Kernel, name: str, dtype: str):
        self.k, self.name, self.dtype = k, name, dtype
        low, high = (float("-inf"), float("inf")) if dtype in ("float32", "float64") else _bounds(dtype)
        self.neutral = {"sum": 0, "mean": 0, "prod": 1, "max": low, "min": high, "any": 0, "all": 1}[name]

    def start(self, lanes: int) -> Num:
        """The neutral number."""
        return self.k.num(self.neutral, self.dtype).splat(lanes)

    def both(self, a: Num, b: Num) -> Num:
        """Two numbers as one."""
        if self.name in ("sum", "mean"):
            return a + b
        if self.name == "prod":
            return a * b
        if self.name in ("any", "all"):
            return a | b if self.name == "any" else a & b
        return self.k.maximum(a, b) if self.name == "max" else self.k.minimum(a, b)

    def across(self, x: Num) -> Num:
        """The lanes of a vector as one number, in a fixed order."""
        lanes = x.lanes
        while lanes > 1:
            lanes //= 2
            x = self.both(self.k.part(x, 0, lanes), self.k.part(x, lanes, lanes))
        return x

    def taken(self, found: Num, mask: Num | None) -> Num:
        """Numbers as they are reduced; the neutral one where the mask leaves them out."""
        found = found.cast("uint8" if found.dtype == "bool" else self.dtype)
        return found if mask is None else self.k.select(mask, found, self.start(found.lanes))


def _bounds(dtype: str) -> tuple[int, int]:
    if dtype in ("bool", "uint8"):
        return 0, 1
    bits = 8 * SIZES[dtype]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _lanes(dtype: str) -> int:
    return lanes_of(dtype) if dtype not in ("bool", "uint8") else lanes_of("float32")


#: gives the numbers from an element of memory on: (the element, lanes, mask)
Read = Callable[[Any, int, "Num | None"], Num]


def _reduce(k: Kernel, plan: Plan, name: str, dtype: str, last: bool) -> None:
    """The reduction of an array: arguments are x and, where ``last`` stores results, the result."""
    x = k.pointer(0, dtype)
    reduced(k, plan, name, dtype, k.pointer(1, dtype) if last else None, x.load)


def reduced(k: Kernel, plan: Plan, name: str, dtype: str, out: Pointer | None, read: Read) -> None:
    """One item is one part of one outer index (and one block of columns). Without ``out`` the parts' results go to
    shared scratch memory. Every element is read once."""
    held = "uint8" if dtype == "bool" else dtype
    kind, lanes, last = Kind(k, name, held), _lanes(dtype), out is not None
    out = k.shared.as_type(held) if out is None else out
    blocks = -(-plan.width // plan.block)
    count = plan.cut.size * prod(a.size for a in plan.inner)
    with k.range(k.first, k.last) as item:
        part, rest = item % plan.parts, item // plan.parts
        column, place = (rest % blocks) * plan.block, rest // blocks
        rest = place
        here: Any = column
        for i in range(len(plan.outer) - 1, -1, -1):
            axis = plan.outer[i]
            here = here + (rest % axis.size if i else rest) * axis.stride
            rest = rest // axis.size
        begin: Any = part * plan.length if plan.parts > 1 else 0
        end: Any = (begin + plan.length).minimum(plan.cut.size) if plan.parts > 1 else plan.cut.size
        # results of a piece lie behind one another, and the parts of them behind each other
        at = part * plan.results + place * plan.width + column

        def store(value: Num, i: Any, mask: Num | None) -> None:
            if last and name == "mean":
                value = value / k.num(float(count), held)
            out.store(value.cast("bool").cast("uint8") if dtype == "bool" else value, at + i, mask)

        if plan.width == 1:
            store(_along(k, kind, plan, read, here, begin, end, lanes), 0, None)
        else:
            wide = (Int(k, k.word(plan.width)) - column).minimum(plan.block) if blocks > 1 else plan.width
            _beside(k, kind, plan, read, here, begin, end, lanes, wide, store)


def _along(k: Kernel, kind: Kind, plan: Plan, read: Read, x: Any, begin: Any, end: Any, lanes: int) -> Num:
    """One result: vectors along the last axis of memory, four at a time."""
    axes = sorted([*plan.inner, plan.cut], key=lambda a: -a.stride)
    held = [k.variable(kind.start(lanes)) for _ in range(4)]

    def nest(axes: Sequence[Axis], x: Any) -> None:
        axis, more = axes[0], axes[1:]
        start, stop = (begin, end) if axis is plan.cut else (0, axis.size)
        if more:
            with k.range(start, stop) as i:
                nest(more, x + i * axis.stride)
            return
        if axis.stride != 1:
            raise Unsupported("a last axis that is not dense")
        x, total = x + start, stop - start
        whole = total - total % (4 * lanes)
        with k.range(0, whole, 4 * lanes) as i:
            for u, v in enumerate(held):
                v.value = kind.both(v.value, kind.taken(read(i + u * lanes + x, lanes, None), None))

        def body(i: Int, mask: Num | None) -> None:
            held[0].value = kind.both(held[0].value, kind.taken(read(i + whole + x, lanes, mask), mask))

        k.vectors(total - whole, body, lanes)

    nest(axes, x)
    a, b, c, d = (v.value for v in held)
    return kind.across(kind.both(kind.both(a, b), kind.both(c, d)))


def _beside(k: Kernel, kind: Kind, plan: Plan, read: Read, x: Any, begin: Any, end: Any, lanes: int, width: Any,
            store: Any) -> None:  # fmt: skip
    """Results side by side: vectors of them, some at a time, each over all reduced axes."""

    depth = plan.length * prod(a.size for a in plan.inner)
    deep = depth > 4 * _BLOCK
    most = min(registers() // (4 if deep else 2), 8)

    def rows(x: Any, start: Any, stop: Any, sums: list[Variable], mask: Num | None) -> None:
        with k.range(start, stop) as i:
            for v, s in enumerate(sums):
                s.value = kind.both(s.value, kind.taken(read(i * plan.cut.stride + v * lanes + x, lanes, mask), mask))

    def blocks(x: Any, sums: list[Variable], mask: Num | None) -> None:
        if not deep:
            rows(x, begin, end, sums, mask)
            return
        with k.range(begin, end, _BLOCK) as i:
            few = [k.variable(kind.start(lanes)) for _ in sums]
            rows(x, i, Int(k, k.word(end)).minimum(i + _BLOCK), few, mask)
            for a, s in zip(few, sums, strict=True):
                s.value = kind.both(s.value, a.value)

    def nest(axes: Sequence[Axis], x: Any, sums: list[Variable], mask: Num | None) -> None:
        if not axes:
            blocks(x, sums, mask)
            return
        with k.range(axes[0].size) as i:
            nest(axes[1:], x + i * axes[0].stride, sums, mask)

    def work(c: Any, vectors: int, mask: Num | None) -> None:
        sums = [k.variable(kind.start(lanes)) for _ in range(vectors)]
        nest(plan.inner, x + c, sums, mask)
        for v, s in enumerate(sums):
            store(s.value, c + v * lanes, mask)

    whole = width - width % (most * lanes)
    with k.range(0, whole, most * lanes) as c:
        work(c, most, None)
    k.vectors(width - whole, lambda i, mask: work(i + whole, 1, mask), lanes)


def _combine(k: Kernel, plan: Plan, name: str, dtype: str, count: int) -> None:
    """The parts of each result together, in order. An item is one result."""
    held = "uint8" if dtype == "bool" else dtype
    wide = "float64" if dtype == "float32" else held
    x, out, lanes, kind = k.shared.as_type(held), k.pointer(0, dtype), _lanes(dtype), Kind(k, name, wide)

    def body(i: Int, mask: Num | None) -> None:
        at = i + k.first
        total = k.variable(kind.start(lanes))
        with k.range(plan.parts) as part:
            total.value = kind.both(total.value, x.load(part * plan.results + at, lanes, mask).cast(wide))
        value = total.value / k.num(float(count), wide) if name == "mean" else total.value
        out.store(value.cast(held), at, mask)

    k.vectors(k.last - k.first, body, lanes)


def tasks(plan: Plan, name: str, dtype: str, count: int) -> Tasks:
    """The tasks of a reduction of an array."""
    return strung(code(_reduce, plan, name, dtype, plan.parts == 1), plan, name, dtype, count)


def strung(made: Code, plan: Plan, name: str, dtype: str, count: int) -> Tasks:
    """The tasks of a reduction: the first, ``made``, takes all addresses, the last that of the result."""
    grain = plan.items if plan.items * plan.each <= 2 * PIECE else max(PIECE // plan.each, 1)
    if plan.parts == 1:
        return Tasks(lambda i, o: [Task(made.address, (*i, *o), plan.items, grain)])
    shared = plan.parts * plan.results * SIZES[dtype]
    ended = code(_combine, plan, name, dtype, count)
    rest = max(PIECE // plan.parts, 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), plan.items, grain, 0, shared),
                               Task(ended.address, (o[-1],), plan.results, rest, 0, shared)])  # fmt: skip


def plan_of(x: Spec, out: Spec, axis: Any) -> tuple[Plan, int]:
    """The plan of a reduction, and how many elements make one. Raises Unsupported where results would lie in another
    order than they are found."""
    over = axes(axis, x.ndim)
    kept = tuple(n if i not in over else 1 for i, n in enumerate(x.shape))
    if out.layout not in (None, x.layout):
        raise Unsupported("a result in another layout")
    if out.layout is None and x.layout is not None and _in_two_orders(kept):
        raise Unsupported("a result in another order")
    flags = memory_order(tuple(int(i in over) for i in range(x.ndim)), x.layout)
    found = merged(memory_order(x.shape, x.layout), [i for i, taken in enumerate(flags) if taken])
    return planned(found), prod(x.shape[a] for a in over)


def _in_two_orders(kept: Sequence[int]) -> bool:
    """Whether what is left of a shape lies differently with the channels last: channels and places are left."""
    return len(kept) > 2 and kept[1] > 1 and any(n > 1 for n in kept[2:])


def _in_one_order(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> bool:
    """Whether the result is found in the order in which it is to lie."""
    over = axes(attrs.get("axis"), ins[0].ndim)
    kept = [1 if i in over else n for i, n in enumerate(ins[0].shape)]
    return bool(attrs.get("keepdims")) or not _in_two_orders(kept)


def _enter(name: str) -> None:
    @native(name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
        (x,) = ins
        if x.dtype not in _TYPES or (x.dtype == "bool" and name not in ("any", "all", "max", "min")):
            return None
        plan, count = plan_of(x, outs[0], attrs.get("axis"))
        return tasks(plan, name, x.dtype, count)


_NAMES = ("sum", "mean", "max", "min", "prod", "any", "all")
for _name in _NAMES:
    _enter(_name)
channels_last("native", "follows", *_NAMES, ins=(0,), when=_in_one_order)
