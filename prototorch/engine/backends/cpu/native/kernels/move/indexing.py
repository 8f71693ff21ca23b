"""Gathers and scatters at run-time indices. An index out of range never reads or writes other memory."""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import and_

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.facts import ValueLimits
from prototorch.ops.indexing import missing_row_value

#: elements of a piece, and columns that a piece of `embedding_grad` owns
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 14, 128
MAX_COUNTED = 16  # arrays of indices of one kernel
_INDEX_TYPES = ("int32", "int64", "uint8", "uint32")
_FLOATS = ("float32", "float64")
#: type of values -> of the counts of their vectors
_COUNT_TYPES = {"int32": "int32", "int64": "int64", "float32": "int32", "float64": "int64"}
_VALUE_TYPES = ("float32", "float64", "int32", "int64")


def _grain_size(items: int, each: int) -> int:
    return items if items * each <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // each, 1)


def load_index(k: KernelBuilder, indices: Pointer, at: Index, size: int, wrap: bool = False) -> tuple[Int64, Num]:
    """Return an index that is safe to use (0 if it is out of range), and whether it is in range. ``wrap``: negative
    indices count from the end, as in NumPy."""
    i = indices.load(at).to_int64()
    if wrap:
        i = Int64(k, k.b.select((i < 0).v, (i + size).v, i.v))
    is_valid = (i >= 0) & (i < size)
    return Int64(k, k.b.select(is_valid.v, i.v, k.word(0))), is_valid


def _take(k: KernelBuilder, rows: int, width: int, dtype: str, kind: str) -> None:
    table, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), vector_lanes(dtype)
    missing = k.num(missing_row_value(dtype), dtype).splat(lanes)
    with k.range(k.first, k.last) as item:
        index, is_valid = load_index(k, indices, item, rows)
        x, y = table + index * width, out + item * width

        def body(i: Int64, mask: Mask) -> None:
            y.store(k.select(is_valid.splat(lanes), x.load(i, lanes, mask), missing), i, mask)

        if width == 1:
            y.store(k.select(is_valid, x.load(), missing.extract_lane(0)))
        else:
            k.for_each_vector(width, body, lanes)


@native_kernel("take")
def take(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Rows of a table (embedding lookup)."""
    table, indices = ins
    if table.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    width = prod(table.shape[1:])
    kernel = kernel_code(_take, table.shape[0], width, table.dtype, indices.dtype)
    return TaskList(
        lambda i, o: [ParallelTask(kernel.address, (*i, *o), indices.size, _grain_size(indices.size, width))]
    )


def _embedding_grad(
    k: KernelBuilder, count: int, rows: int, width: int, block: int, ranges: int, dtype: str, kind: str
) -> None:
    """A work item owns a block of columns of a range of rows: it clears them and adds all values whose index is in
    the range."""
    values, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), vector_lanes(dtype)
    size = -(-rows // ranges)
    with k.range(k.first, k.last) as item:
        column = (item // ranges) * block
        begin = ((item % ranges) * size).minimum(rows)
        end = (begin + size).minimum(rows)
        num_columns = Int64(k, k.word(width)) - column
        num_columns = num_columns.minimum(block)
        y, x = out + column, values + column
        with k.range(begin, end) as row:
            k.for_each_vector(num_columns, lambda i, mask: y.store(k.zero(lanes, dtype), row * width + i, mask), lanes)
        with k.range(count) as n:
            index = indices.load(n).to_int64()
            with k.if_then((index >= begin) & (index < end)):
                target_offset, source_offset = index * width, n * width

                def add(i: Int64, mask: Mask) -> None:
                    y.store(
                        y.load(target_offset + i, lanes, mask) + x.load(source_offset + i, lanes, mask),
                        target_offset + i,
                        mask,
                    )

                k.for_each_vector(num_columns, add, lanes)


@native_kernel("embedding_grad")
def embedding_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The adjoint of `take`. Values of one index are added in order, for any number of threads."""
    values, indices = ins
    rows = attrs["rows"]
    if values.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    width, total = prod(outs[0].shape[1:]), values.size + outs[0].size
    block = min(width, BLOCK_COLUMNS)
    blocks = -(-width // block)
    ranges = (
        1
        if total <= 2 * PIECE_ELEMENTS
        else min(max(total // (PIECE_ELEMENTS * blocks), 1), max(16 // blocks, 1), rows)
    )
    kernel = kernel_code(_embedding_grad, indices.size, rows, width, block, ranges, values.dtype, indices.dtype)
    items = blocks * ranges
    return TaskList(
        lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, items if total <= 2 * PIECE_ELEMENTS else 1)]
    )


def _take_along_axis(k: KernelBuilder, n: int, count: int, dtype: str, kind: str) -> None:
    x, indices, out = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype)
    with k.range(k.first, k.last) as row, k.range(count) as j:
        at = row * count + j
        index, is_valid = load_index(k, indices, at, n, wrap=True)
        out.store(k.select(is_valid, x.load(row * n + index), k.num(missing_row_value(dtype), dtype)), at)


@native_kernel("take_along_axis")
def take_along_axis(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Elements along the last axis."""
    x, indices = ins
    if x.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    n, count = x.shape[-1], indices.shape[-1]
    kernel, rows = kernel_code(_take_along_axis, n, count, x.dtype, indices.dtype), prod(x.shape[:-1])
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), rows, _grain_size(rows, count))])


def _scatter_add_along_axis(k: KernelBuilder, n: int, count: int, dtype: str, kind: str) -> None:
    values, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), vector_lanes(dtype)
    with k.range(k.first, k.last) as row:
        y = out + row * n
        k.for_each_vector(n, lambda i, mask: y.store(k.zero(lanes, dtype), i, mask), lanes)
        with k.range(count) as j:
            at = row * count + j
            index, is_valid = load_index(k, indices, at, n, wrap=True)
            with k.if_then(is_valid):
                y.store(y.load(index) + values.load(at), index)


@native_kernel("scatter_add_along_axis")
def scatter_add_along_axis(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The adjoint of `take_along_axis`."""
    values, indices = ins
    if values.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    n, count = attrs["size"], indices.shape[-1]
    kernel, rows = kernel_code(_scatter_add_along_axis, n, count, values.dtype, indices.dtype), prod(indices.shape[:-1])
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), rows, _grain_size(rows, n + count))])


def _one_hot(k: KernelBuilder, classes: int, kind: str) -> None:
    indices, out, one = k.pointer(0, kind), k.pointer(1), k.num(1.0).splat(k.lanes)
    with k.range(k.first, k.last) as row:
        index = indices.load(row).to_int64()
        y = out + row * classes

        def body(i: Int64, mask: Mask) -> None:
            distance = (index - i).maximum(-1).minimum(k.lanes)
            hit = k.iota(k.lanes) == k.num(distance, "int32").splat(k.lanes)
            y.store(k.select(hit, one, k.zero(k.lanes)), i, mask)

        k.for_each_vector(classes, body)


@native_kernel("one_hot")
def one_hot(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Rows with a 1 at the index."""
    if ins[0].dtype not in _INDEX_TYPES or outs[0].dtype != "float32":
        return None
    kernel, rows = kernel_code(_one_hot, attrs["classes"], ins[0].dtype), ins[0].size
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), rows, _grain_size(rows, attrs["classes"]))])


def _count_outside(
    k: KernelBuilder, sizes: tuple[int, ...], bounds: tuple[ValueLimits, ...], kinds: tuple[str, ...]
) -> None:
    with k.range(k.first, k.last):
        total = k.word(0)
        for number, (size, limits, kind) in enumerate(zip(sizes, bounds, kinds, strict=True)):
            numbers = [n for n in limits[:2] if n is not None]
            fits = kind in _FLOATS or (kind in _COUNT_TYPES and all(-(1 << 31) <= n < 1 << 31 for n in numbers))
            count = _count_vectors if fits else _count_one_by_one
            total = k.b.add(total, count(k, k.pointer(number, kind), size, limits).v)
        k.pointer(len(sizes), "int32").store(k.num(Int64(k, total), "int32"))


def _count_vectors(k: KernelBuilder, values: Pointer, size: int, limits: ValueLimits) -> Int64:
    """The number of values outside, lane by lane."""
    kind = values.dtype
    lanes, count_type = vector_lanes(kind), _COUNT_TYPES[kind]
    zero, one = k.zero(lanes, count_type), k.num(1, count_type).splat(lanes)
    low, high, nothing = (None if n is None else k.num(n, kind).splat(lanes) for n in (*limits[:2], 0))
    count = k.variable(zero)

    def body(at: Int64, mask: Mask) -> None:
        value = values.load(at, lanes, mask)
        conditions = [value >= low] if low is not None else []
        conditions += [value <= high] if high is not None else []
        conditions += [value != nothing] if limits.excludes_zero else []
        outside = k.select(reduce(and_, conditions), zero, one)
        count.value = count.value + (outside if mask is None else k.select(mask, outside, zero))

    k.for_each_vector(size, body, lanes)
    return k.reduce_add(count.value).to_int64()


def _count_one_by_one(k: KernelBuilder, values: Pointer, size: int, limits: ValueLimits) -> Int64:
    """The number of integers outside, for a type that may not hold the bounds."""
    zero, one = k.num(0, "int64"), k.num(1, "int64")
    count = k.variable(zero)
    with k.range(size) as at:
        value = values.load(at).to_int64()
        conditions = [value >= limits.low] if limits.low is not None else []
        conditions += [value <= limits.high] if limits.high is not None else []
        conditions += [(value <= -1) | (value >= 1)] if limits.excludes_zero else []
        count.value = count.value + k.select(reduce(and_, conditions), zero, one)
    return count.value.to_int64()


@native_kernel("count_outside")
def count_outside(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The number of values outside of their bounds."""
    kinds = tuple(i.dtype for i in ins)
    if not set(kinds) <= {*_INDEX_TYPES, *_FLOATS} or len(ins) > MAX_COUNTED:
        return None
    kernel = kernel_code(_count_outside, tuple(i.size for i in ins), attrs["bounds"], kinds)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), 1, 1)])
