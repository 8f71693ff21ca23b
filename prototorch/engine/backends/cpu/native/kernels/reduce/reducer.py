"""The code of a reduction: what is combined, and the loops over memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import (
    SIZES,
    Int64,
    KernelBuilder,
    MutableNum,
    Num,
    Pointer,
    UnsupportedError,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.kernels.reduce.reduction_tiling import (
    ReductionAxis,
    ReductionTiling,
)

__all__ = ["Reducer", "emit_reduction", "reduction_lanes"]

#: elements added to a lane before it is added to another
_SUM_BLOCK = 64


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

    def mask_out(self, values: Num, mask: Mask) -> Num:
        """Cast values to the reduced dtype; the identity where the mask is false."""
        values = values.cast("uint8" if values.dtype == "bool" else self.dtype)
        return values if mask is None else self.k.select(mask, values, self.start(values.lanes))


def _value_range(dtype: str) -> tuple[int, int]:
    if dtype in ("bool", "uint8"):
        return 0, 1
    bits = 8 * SIZES[dtype]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def reduction_lanes(dtype: str) -> int:
    return vector_lanes(dtype) if dtype not in ("bool", "uint8") else vector_lanes("float32")


#: loads values: (offset, lanes, mask)
ReadVector = Callable[[Any, int, "Num | None"], Num]


def emit_reduction(
    k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, out: Pointer | None, read: ReadVector
) -> None:
    """Emit a reduction. Work items are parts of outer indices (and blocks of columns). Without ``out`` the results
    of parts go to shared scratch memory. Every element is read once."""
    value_dtype = "uint8" if dtype == "bool" else dtype
    kind, lanes, last = Reducer(k, name, value_dtype), reduction_lanes(dtype), out is not None
    out = k.shared.as_type(value_dtype) if out is None else out
    blocks = -(-plan.num_columns // plan.block_columns)
    count = plan.split_axis.size * prod(a.size for a in plan.inner)
    with k.range(k.first, k.last) as item:
        part, rest = item % plan.num_parts, item // plan.num_parts
        column, outer_index = (rest % blocks) * plan.block_columns, rest // blocks
        rest = outer_index
        offset: Index = column
        for i in range(len(plan.outer) - 1, -1, -1):
            axis = plan.outer[i]
            offset = offset + (rest % axis.size if i else rest) * axis.stride
            rest = rest // axis.size
        begin: Any = part * plan.part_length if plan.num_parts > 1 else 0
        end: Index = (
            (begin + plan.part_length).minimum(plan.split_axis.size) if plan.num_parts > 1 else plan.split_axis.size
        )
        # the results of a part are contiguous, and parts follow each other
        at = part * plan.num_results + outer_index * plan.num_columns + column

        def store(value: Num, i: Index, mask: Mask) -> None:
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
    k: KernelBuilder,
    kind: Reducer,
    plan: ReductionTiling,
    read: ReadVector,
    x: Any,
    begin: Index,
    end: Index,
    lanes: int,
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

        def body(i: Int64, mask: Mask) -> None:
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
    begin: Index,
    end: Index,
    lanes: int,
    width: Index,
    store: Any,
) -> None:
    """Results side by side: some vectors of them at a time, each over all reduced axes."""

    depth = plan.part_length * prod(a.size for a in plan.inner)
    is_deep = depth > 4 * _SUM_BLOCK
    most = min(num_vector_registers() // (4 if is_deep else 2), 8)

    def rows(x: Any, start: Index, stop: Index, sums: list[MutableNum], mask: Mask) -> None:
        with k.range(start, stop) as i:
            for v, s in enumerate(sums):
                s.value = kind.combine(
                    s.value, kind.mask_out(read(i * plan.split_axis.stride + v * lanes + x, lanes, mask), mask)
                )

    def blocks(x: Any, sums: list[MutableNum], mask: Mask) -> None:
        if not is_deep:
            rows(x, begin, end, sums, mask)
            return
        with k.range(begin, end, _SUM_BLOCK) as i:
            block_sums = [k.variable(kind.start(lanes)) for _ in sums]
            rows(x, i, Int64(k, k.word(end)).minimum(i + _SUM_BLOCK), block_sums, mask)
            for a, s in zip(block_sums, sums, strict=True):
                s.value = kind.combine(s.value, a.value)

    def nest(axes: Sequence[ReductionAxis], x: Any, sums: list[MutableNum], mask: Mask) -> None:
        if not axes:
            blocks(x, sums, mask)
            return
        with k.range(axes[0].size) as i:
            nest(axes[1:], x + i * axes[0].stride, sums, mask)

    def work(c: Index, vectors: int, mask: Mask) -> None:
        sums = [k.variable(kind.start(lanes)) for _ in range(vectors)]
        nest(plan.inner, x + c, sums, mask)
        for v, s in enumerate(sums):
            store(s.value, c + v * lanes, mask)

    main_end = width - width % (most * lanes)
    with k.range(0, main_end, most * lanes) as c:
        work(c, most, None)
    k.for_each_vector(width - main_end, lambda i, mask: work(i + main_end, 1, mask), lanes)
