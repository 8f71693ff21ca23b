"""Reductions over any axes.

The merged axes of memory are alternately kept and reduced. If the last one is reduced, a vector of partial results runs
along it and its lanes are combined at the end; if it is kept, each lane is a result of its own. One reduced axis, the
longest, is split into parts of about PIECE elements, whose results are in shared scratch memory until a second task
combines them in order, in float64 for sums: a sum of any length rounds like a sum of a few hundred elements.
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

#: elements added to a lane before it is added to another
_SUM_BLOCK = 64
_TYPES = ("float32", "float64", "int32", "int64", "bool")


class Reducer:
    """A binary operation and its identity element."""

    def __init__(self, k: KernelBuilder, name: str, dtype: str):
        self.k, self.name, self.dtype = k, name, dtype
        low, high = (float("-inf"), float("inf")) if dtype in ("float32", "float64") else _value_range(dtype)
        self.identity = {"sum": 0, "mean": 0, "prod": 1, "max": low, "min": high, "any": 0, "all": 1}[name]

    def start(self, lanes: int) -> Num:
        """Return the identity."""
        return self.k.num(self.identity, self.dtype).splat(lanes)

    def combine(self, a: Num, b: Num) -> Num:
        """Combine two values."""
        if self.name in ("sum", "mean"):
            return a + b
        if self.name == "prod":
            return a * b
        if self.name in ("any", "all"):
            return a | b if self.name == "any" else a & b
        return self.k.maximum(a, b) if self.name == "max" else self.k.minimum(a, b)

    def reduce_lanes(self, x: Num) -> Num:
        """Combine the lanes of a vector, in a fixed order."""
        lanes = x.lanes
        while lanes > 1:
            lanes //= 2
            x = self.combine(self.k.slice_lanes(x, 0, lanes), self.k.slice_lanes(x, lanes, lanes))
        return x

    def mask_out(self, values: Num, mask: Num | None) -> Num:
        """Cast values to the reduced dtype; the identity where the mask is false."""
        values = values.cast("uint8" if values.dtype == "bool" else self.dtype)
        return values if mask is None else self.k.select(mask, values, self.start(values.lanes))


def _value_range(dtype: str) -> tuple[int, int]:
    if dtype in ("bool", "uint8"):
        return 0, 1
    bits = 8 * SIZES[dtype]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _lanes(dtype: str) -> int:
    return vector_lanes(dtype) if dtype not in ("bool", "uint8") else vector_lanes("float32")


#: loads values: (offset, lanes, mask)
ReadVector = Callable[[Any, int, "Num | None"], Num]


def _reduce(k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, last: bool) -> None:
    """The reduction of an array: arguments are x and, if ``last`` stores results, the result."""
    x = k.pointer(0, dtype)
    emit_reduction(k, plan, name, dtype, k.pointer(1, dtype) if last else None, x.load)


def emit_reduction(
    k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, out: Pointer | None, read: ReadVector
) -> None:
    """Emit a reduction. Work items are parts of outer indices (and blocks of columns). Without ``out`` the results
    of parts go to shared scratch memory. Every element is read once."""
    value_dtype = "uint8" if dtype == "bool" else dtype
    kind, lanes, last = Reducer(k, name, value_dtype), _lanes(dtype), out is not None
    out = k.shared.as_type(value_dtype) if out is None else out
    blocks = -(-plan.num_columns // plan.block_columns)
    count = plan.split_axis.size * prod(a.size for a in plan.inner)
    with k.range(k.first, k.last) as item:
        part, rest = item % plan.num_parts, item // plan.num_parts
        column, outer_index = (rest % blocks) * plan.block_columns, rest // blocks
        rest = outer_index
        offset: Any = column
        for i in range(len(plan.outer) - 1, -1, -1):
            axis = plan.outer[i]
            offset = offset + (rest % axis.size if i else rest) * axis.stride
            rest = rest // axis.size
        begin: Any = part * plan.part_length if plan.num_parts > 1 else 0
        end: Any = (
            (begin + plan.part_length).minimum(plan.split_axis.size) if plan.num_parts > 1 else plan.split_axis.size
        )
        # the results of a part are contiguous, and parts follow each other
        at = part * plan.num_results + outer_index * plan.num_columns + column

        def store(value: Num, i: Any, mask: Num | None) -> None:
            if last and name == "mean":
                value = value / k.num(float(count), value_dtype)
            out.store(value.cast("bool").cast("uint8") if dtype == "bool" else value, at + i, mask)

        if plan.num_columns == 1:
            store(_reduce_contiguous(k, kind, plan, read, offset, begin, end, lanes), 0, None)
        else:
            column_count = (
                (Int64(k, k.word(plan.num_columns)) - column).minimum(plan.block_columns)
                if blocks > 1
                else plan.num_columns
            )
            _reduce_strided(k, kind, plan, read, offset, begin, end, lanes, column_count, store)


def _reduce_contiguous(
    k: KernelBuilder, kind: Reducer, plan: ReductionTiling, read: ReadVector, x: Any, begin: Any, end: Any, lanes: int
) -> Num:
    """Return one result: vectors along the last axis of memory, four at a time."""
    axes = sorted([*plan.inner, plan.split_axis], key=lambda a: -a.stride)
    accumulators = [k.variable(kind.start(lanes)) for _ in range(4)]

    def nest(axes: Sequence[ReductionAxis], x: Any) -> None:
        axis, inner_axes = axes[0], axes[1:]
        start, stop = (begin, end) if axis is plan.split_axis else (0, axis.size)
        if inner_axes:
            with k.range(start, stop) as i:
                nest(inner_axes, x + i * axis.stride)
            return
        if axis.stride != 1:
            raise UnsupportedError("a last axis that is not contiguous")
        x, total = x + start, stop - start
        main_end = total - total % (4 * lanes)
        with k.range(0, main_end, 4 * lanes) as i:
            for u, v in enumerate(accumulators):
                v.value = kind.combine(v.value, kind.mask_out(read(i + u * lanes + x, lanes, None), None))

        def body(i: Int64, mask: Num | None) -> None:
            accumulators[0].value = kind.combine(
                accumulators[0].value, kind.mask_out(read(i + main_end + x, lanes, mask), mask)
            )

        k.for_each_vector(total - main_end, body, lanes)

    nest(axes, x)
    a, b, c, d = (v.value for v in accumulators)
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
    """Results side by side: some vectors of them at a time, each over all reduced axes."""

    depth = plan.part_length * prod(a.size for a in plan.inner)
    is_deep = depth > 4 * _SUM_BLOCK
    most = min(num_vector_registers() // (4 if is_deep else 2), 8)

    def rows(x: Any, start: Any, stop: Any, sums: list[MutableNum], mask: Num | None) -> None:
        with k.range(start, stop) as i:
            for v, s in enumerate(sums):
                s.value = kind.combine(
                    s.value, kind.mask_out(read(i * plan.split_axis.stride + v * lanes + x, lanes, mask), mask)
                )

    def blocks(x: Any, sums: list[MutableNum], mask: Num | None) -> None:
        if not is_deep:
            rows(x, begin, end, sums, mask)
            return
        with k.range(begin, end, _SUM_BLOCK) as i:
            block_sums = [k.variable(kind.start(lanes)) for _ in sums]
            rows(x, i, Int64(k, k.word(end)).minimum(i + _SUM_BLOCK), block_sums, mask)
            for a, s in zip(block_sums, sums, strict=True):
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

    main_end = width - width % (most * lanes)
    with k.range(0, main_end, most * lanes) as c:
        work(c, most, None)
    k.for_each_vector(width - main_end, lambda i, mask: work(i + main_end, 1, mask), lanes)


def _combine_parts(k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, count: int) -> None:
    """Combine the parts of each result, in order. Work items are results."""
    value_dtype = "uint8" if dtype == "bool" else dtype
    sum_dtype = "float64" if dtype == "float32" else value_dtype
    x, out, lanes, kind = k.shared.as_type(value_dtype), k.pointer(0, dtype), _lanes(dtype), Reducer(k, name, sum_dtype)

    def body(i: Int64, mask: Num | None) -> None:
        at = i + k.first
        total = k.variable(kind.start(lanes))
        with k.range(plan.num_parts) as part:
            total.value = kind.combine(total.value, x.load(part * plan.num_results + at, lanes, mask).cast(sum_dtype))
        value = total.value / k.num(float(count), sum_dtype) if name == "mean" else total.value
        out.store(value.cast(value_dtype), at, mask)

    k.for_each_vector(k.last - k.first, body, lanes)


def reduction_tasks(plan: ReductionTiling, name: str, dtype: str, count: int) -> TaskList:
    """Return the tasks of a reduction of an array."""
    return tasks_of_code(kernel_code(_reduce, plan, name, dtype, plan.num_parts == 1), plan, name, dtype, count)


def tasks_of_code(first_code: KernelCode, plan: ReductionTiling, name: str, dtype: str, count: int) -> TaskList:
    """Return the tasks of a reduction: ``first_code`` takes all addresses, the last task that of the result."""
    grain = (
        plan.num_items
        if plan.num_items * plan.item_elements <= 2 * PIECE_ELEMENTS
        else max(PIECE_ELEMENTS // plan.item_elements, 1)
    )
    if plan.num_parts == 1:
        return TaskList(lambda i, o: [ParallelTask(first_code.address, (*i, *o), plan.num_items, grain)])
    shared = plan.num_parts * plan.num_results * SIZES[dtype]
    combine = kernel_code(_combine_parts, plan, name, dtype, count)
    rest = max(PIECE_ELEMENTS // plan.num_parts, 1)
    return TaskList(lambda i, o: [ParallelTask(first_code.address, (*i, *o), plan.num_items, grain, 0, shared),
                               ParallelTask(combine.address, (o[-1],), plan.num_results, rest, 0, shared)])  # fmt: skip


def plan_reduction(x: Spec, out: Spec, axis: Any) -> tuple[ReductionTiling, int]:
    """Return the tiling of a reduction, and how many elements make one. Raises Unsupported if results would be found
    in another order than that of their memory."""
    over = normalize_axes(axis, x.ndim)
    out_shape = tuple(n if i not in over else 1 for i, n in enumerate(x.shape))
    if out.layout not in (None, x.layout):
        raise UnsupportedError("a result in another layout")
    if out.layout is None and x.layout is not None and _has_two_orders(out_shape):
        raise UnsupportedError("a result whose memory has another order")
    flags = memory_order(tuple(int(i in over) for i in range(x.ndim)), x.layout)
    merged = merge_axes(memory_order(x.shape, x.layout), [i for i, is_reduced in enumerate(flags) if is_reduced])
    return tile_reduction(merged), prod(x.shape[a] for a in over)


def _has_two_orders(out_shape: Sequence[int]) -> bool:
    """Whether the remaining axes have another order with channels last: both channels and positions remain."""
    return len(out_shape) > 2 and out_shape[1] > 1 and any(n > 1 for n in out_shape[2:])


def _keeps_order(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> bool:
    """Whether results are found in the order of their memory."""
    over = normalize_axes(attrs.get("axis"), ins[0].ndim)
    out_shape = [1 if i in over else n for i, n in enumerate(ins[0].shape)]
    return bool(attrs.get("keepdims")) or not _has_two_orders(out_shape)


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
