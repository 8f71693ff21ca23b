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

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.backends.cpu.native.ir_builder import (
    SIZES,
    Int64,
    KernelBuilder,
    MutableNum,
    Num,
    Pointer,
    UnsupportedError,
)
from prototorch.backends.cpu.native.kernel_api import KernelCode, TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.backends.cpu.native.kernels.reduce.reduction_tiling import (
    PIECE_ELEMENTS,
    ReductionAxis,
    ReductionTiling,
    merge_axes,
    tile_reduction,
)
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

#: numbers added into a lane before the lane is added to another
_SUM_BLOCK = 64
_TYPES = ("float32", "float64", "int32", "int64", "bool")


class Reducer:
    """What is done to two numbers, and where it begins."""

    def __init__(self, k: KernelBuilder, name: str, dtype: str):
        self.k, self.name, self.dtype = k, name, dtype
        low, high = (float("-inf"), float("inf")) if dtype in ("float32", "float64") else _value_range(dtype)
        self.identity = {"sum": 0, "mean": 0, "prod": 1, "max": low, "min": high, "any": 0, "all": 1}[name]

    def start(self, lanes: int) -> Num:
        """The neutral number."""
        return self.k.num(self.identity, self.dtype).splat(lanes)

    def combine(self, a: Num, b: Num) -> Num:
        """Two numbers as one."""
        if self.name in ("sum", "mean"):
            return a + b
        if self.name == "prod":
            return a * b
        if self.name in ("any", "all"):
            return a | b if self.name == "any" else a & b
        return self.k.maximum(a, b) if self.name == "max" else self.k.minimum(a, b)

    def reduce_lanes(self, x: Num) -> Num:
        """The lanes of a vector as one number, in a fixed order."""
        lanes = x.lanes
        while lanes > 1:
            lanes //= 2
            x = self.combine(self.k.slice_lanes(x, 0, lanes), self.k.slice_lanes(x, lanes, lanes))
        return x

    def mask_out(self, found: Num, mask: Num | None) -> Num:
        """Numbers as they are reduced; the neutral one where the mask leaves them out."""
        found = found.cast("uint8" if found.dtype == "bool" else self.dtype)
        return found if mask is None else self.k.select(mask, found, self.start(found.lanes))


def _value_range(dtype: str) -> tuple[int, int]:
    if dtype in ("bool", "uint8"):
        return 0, 1
    bits = 8 * SIZES[dtype]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _lanes(dtype: str) -> int:
    return vector_lanes(dtype) if dtype not in ("bool", "uint8") else vector_lanes("float32")


#: gives the numbers from an element of memory on: (the element, lanes, mask)
ReadVector = Callable[[Any, int, "Num | None"], Num]


def _reduce(k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, last: bool) -> None:
    """The reduction of an array: arguments are x and, where ``last`` stores results, the result."""
    x = k.pointer(0, dtype)
    emit_reduction(k, plan, name, dtype, k.pointer(1, dtype) if last else None, x.load)


def emit_reduction(
    k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, out: Pointer | None, read: ReadVector
) -> None:
    """One item is one part of one outer index (and one block of columns). Without ``out`` the parts' results go to
    shared scratch memory. Every element is read once."""
    held = "uint8" if dtype == "bool" else dtype
    kind, lanes, last = Reducer(k, name, held), _lanes(dtype), out is not None
    out = k.shared.as_type(held) if out is None else out
    blocks = -(-plan.num_columns // plan.block_columns)
    count = plan.split_axis.size * prod(a.size for a in plan.inner)
    with k.range(k.first, k.last) as item:
        part, rest = item % plan.num_parts, item // plan.num_parts
        column, place = (rest % blocks) * plan.block_columns, rest // blocks
        rest = place
        here: Any = column
        for i in range(len(plan.outer) - 1, -1, -1):
            axis = plan.outer[i]
            here = here + (rest % axis.size if i else rest) * axis.stride
            rest = rest // axis.size
        begin: Any = part * plan.part_length if plan.num_parts > 1 else 0
        end: Any = (
            (begin + plan.part_length).minimum(plan.split_axis.size) if plan.num_parts > 1 else plan.split_axis.size
        )
        # results of a piece lie behind one another, and the parts of them behind each other
        at = part * plan.num_results + place * plan.num_columns + column

        def store(value: Num, i: Any, mask: Num | None) -> None:
            if last and name == "mean":
                value = value / k.num(float(count), held)
            out.store(value.cast("bool").cast("uint8") if dtype == "bool" else value, at + i, mask)

        if plan.num_columns == 1:
            store(_reduce_contiguous(k, kind, plan, read, here, begin, end, lanes), 0, None)
        else:
            wide = (
                (Int64(k, k.word(plan.num_columns)) - column).minimum(plan.block_columns)
                if blocks > 1
                else plan.num_columns
            )
            _reduce_strided(k, kind, plan, read, here, begin, end, lanes, wide, store)


def _reduce_contiguous(
    k: KernelBuilder, kind: Reducer, plan: ReductionTiling, read: ReadVector, x: Any, begin: Any, end: Any, lanes: int
) -> Num:
    """One result: vectors along the last axis of memory, four at a time."""
    axes = sorted([*plan.inner, plan.split_axis], key=lambda a: -a.stride)
    held = [k.variable(kind.start(lanes)) for _ in range(4)]

    def nest(axes: Sequence[ReductionAxis], x: Any) -> None:
        axis, more = axes[0], axes[1:]
        start, stop = (begin, end) if axis is plan.split_axis else (0, axis.size)
        if more:
            with k.range(start, stop) as i:
                nest(more, x + i * axis.stride)
            return
        if axis.stride != 1:
            raise UnsupportedError("a last axis that is not dense")
        x, total = x + start, stop - start
        whole = total - total % (4 * lanes)
        with k.range(0, whole, 4 * lanes) as i:
            for u, v in enumerate(held):
                v.value = kind.combine(v.value, kind.mask_out(read(i + u * lanes + x, lanes, None), None))

        def body(i: Int64, mask: Num | None) -> None:
            held[0].value = kind.combine(held[0].value, kind.mask_out(read(i + whole + x, lanes, mask), mask))

        k.for_each_vector(total - whole, body, lanes)

    nest(axes, x)
    a, b, c, d = (v.value for v in held)
    return kind.reduce_lanes(kind.combine(kind.combine(a, b), kind.combine(c, d)))


def _reduce_strided(
    k: KernelBuilder,
    kind: Reducer,
    plan: ReductionTiling,
    read: ReadVector,
    x: Any,
    begin: Any,
    end: Any,
    lanes: int,
    width: Any,
    store: Any,
) -> None:
    """Results side by side: vectors of them, some at a time, each over all reduced axes."""

    depth = plan.part_length * prod(a.size for a in plan.inner)
    deep = depth > 4 * _SUM_BLOCK
    most = min(num_vector_registers() // (4 if deep else 2), 8)

    def rows(x: Any, start: Any, stop: Any, sums: list[MutableNum], mask: Num | None) -> None:
        with k.range(start, stop) as i:
            for v, s in enumerate(sums):
                s.value = kind.combine(
                    s.value, kind.mask_out(read(i * plan.split_axis.stride + v * lanes + x, lanes, mask), mask)
                )

    def blocks(x: Any, sums: list[MutableNum], mask: Num | None) -> None:
        if not deep:
            rows(x, begin, end, sums, mask)
            return
        with k.range(begin, end, _SUM_BLOCK) as i:
            few = [k.variable(kind.start(lanes)) for _ in sums]
            rows(x, i, Int64(k, k.word(end)).minimum(i + _SUM_BLOCK), few, mask)
            for a, s in zip(few, sums, strict=True):
                s.value = kind.combine(s.value, a.value)

    def nest(axes: Sequence[ReductionAxis], x: Any, sums: list[MutableNum], mask: Num | None) -> None:
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
    k.for_each_vector(width - whole, lambda i, mask: work(i + whole, 1, mask), lanes)


def _combine_parts(k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, count: int) -> None:
    """The parts of each result together, in order. An item is one result."""
    held = "uint8" if dtype == "bool" else dtype
    wide = "float64" if dtype == "float32" else held
    x, out, lanes, kind = k.shared.as_type(held), k.pointer(0, dtype), _lanes(dtype), Reducer(k, name, wide)

    def body(i: Int64, mask: Num | None) -> None:
        at = i + k.first
        total = k.variable(kind.start(lanes))
        with k.range(plan.num_parts) as part:
            total.value = kind.combine(total.value, x.load(part * plan.num_results + at, lanes, mask).cast(wide))
        value = total.value / k.num(float(count), wide) if name == "mean" else total.value
        out.store(value.cast(held), at, mask)

    k.for_each_vector(k.last - k.first, body, lanes)


def reduction_tasks(plan: ReductionTiling, name: str, dtype: str, count: int) -> TaskList:
    """The tasks of a reduction of an array."""
    return tasks_of_code(kernel_code(_reduce, plan, name, dtype, plan.num_parts == 1), plan, name, dtype, count)


def tasks_of_code(made: KernelCode, plan: ReductionTiling, name: str, dtype: str, count: int) -> TaskList:
    """The tasks of a reduction: the first, ``made``, takes all addresses, the last that of the result."""
    grain = (
        plan.num_items
        if plan.num_items * plan.item_elements <= 2 * PIECE_ELEMENTS
        else max(PIECE_ELEMENTS // plan.item_elements, 1)
    )
    if plan.num_parts == 1:
        return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), plan.num_items, grain)])
    shared = plan.num_parts * plan.num_results * SIZES[dtype]
    ended = kernel_code(_combine_parts, plan, name, dtype, count)
    rest = max(PIECE_ELEMENTS // plan.num_parts, 1)
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), plan.num_items, grain, 0, shared),
                               ParallelTask(ended.address, (o[-1],), plan.num_results, rest, 0, shared)])  # fmt: skip


def plan_reduction(x: Spec, out: Spec, axis: Any) -> tuple[ReductionTiling, int]:
    """The plan of a reduction, and how many elements make one. Raises Unsupported where results would lie in another
    order than they are found."""
    over = normalize_axes(axis, x.ndim)
    kept = tuple(n if i not in over else 1 for i, n in enumerate(x.shape))
    if out.layout not in (None, x.layout):
        raise UnsupportedError("a result in another layout")
    if out.layout is None and x.layout is not None and _has_two_orders(kept):
        raise UnsupportedError("a result in another order")
    flags = memory_order(tuple(int(i in over) for i in range(x.ndim)), x.layout)
    found = merge_axes(memory_order(x.shape, x.layout), [i for i, taken in enumerate(flags) if taken])
    return tile_reduction(found), prod(x.shape[a] for a in over)


def _has_two_orders(kept: Sequence[int]) -> bool:
    """Whether what is left of a shape lies differently with the channels last: channels and places are left."""
    return len(kept) > 2 and kept[1] > 1 and any(n > 1 for n in kept[2:])


def _keeps_order(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> bool:
    """Whether the result is found in the order in which it is to lie."""
    over = normalize_axes(attrs.get("axis"), ins[0].ndim)
    kept = [1 if i in over else n for i, n in enumerate(ins[0].shape)]
    return bool(attrs.get("keepdims")) or not _has_two_orders(kept)


def _register(name: str) -> None:
    @native_kernel(name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
        (x,) = ins
        if x.dtype not in _TYPES or (x.dtype == "bool" and name not in ("any", "all", "max", "min")):
            return None
        plan, count = plan_reduction(x, outs[0], attrs.get("axis"))
        return reduction_tasks(plan, name, x.dtype, count)


_NAMES = ("sum", "mean", "max", "min", "prod", "any", "all")
for _name in _NAMES:
    _register(_name)
register_channels_last("native", "follows", *_NAMES, ins=(0,), when=_keeps_order)
