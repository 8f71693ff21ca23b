"""Elements looked up by an index, and their adjoints. No index that lies outside reads or writes other memory."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.indexing import missing_row_value
from prototorch.spec import Spec

#: elements of a piece, and columns that a piece of `embedding_grad` owns
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 14, 128
_INDEX_TYPES = ("int32", "int64", "uint8", "uint32")
_VALUE_TYPES = ("float32", "float64", "int32", "int64")


def _grain_size(items: int, each: int) -> int:
    return items if items * each <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // each, 1)


def load_index(k: KernelBuilder, indices: Pointer, at: Any, size: int, wrap: bool = False) -> tuple[Int64, Num]:
    """An index that may be used (0 where it may not), and whether it is the one that was meant. ``wrap`` counts those
    below 0 from the end, as NumPy does."""
    i = indices.load(at).to_int64()
    if wrap:
        i = Int64(k, k.b.select((i < 0).v, (i + size).v, i.v))
    known = (i >= 0) & (i < size)
    return Int64(k, k.b.select(known.v, i.v, k.word(0))), known


def _take(k: KernelBuilder, rows: int, width: int, dtype: str, kind: str) -> None:
    table, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), vector_lanes(dtype)
    missing = k.num(missing_row_value(dtype), dtype).splat(lanes)
    with k.range(k.first, k.last) as item:
        place, known = load_index(k, indices, item, rows)
        x, y = table + place * width, out + item * width

        def body(i: Int64, mask: Num | None) -> None:
            y.store(k.select(known.splat(lanes), x.load(i, lanes, mask), missing), i, mask)

        if width == 1:
            y.store(k.select(known, x.load(), missing.extract_lane(0)))
        else:
            k.for_each_vector(width, body, lanes)


@native_kernel("take")
def take(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Rows of a table."""
    table, indices = ins
    if table.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    width = prod(table.shape[1:])
    made = kernel_code(_take, table.shape[0], width, table.dtype, indices.dtype)
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), indices.size, _grain_size(indices.size, width))])


def _embedding_grad(
    k: KernelBuilder, count: int, rows: int, width: int, block: int, ranges: int, dtype: str, kind: str
) -> None:
    """An item owns a block of columns of a range of rows: it zeroes them and adds all values that belong there."""
    values, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), vector_lanes(dtype)
    size = -(-rows // ranges)
    with k.range(k.first, k.last) as item:
        column = (item // ranges) * block
        begin = ((item % ranges) * size).minimum(rows)
        end = (begin + size).minimum(rows)
        wide = Int64(k, k.word(width)) - column
        wide = wide.minimum(block)
        y, x = out + column, values + column
        with k.range(begin, end) as row:
            k.for_each_vector(wide, lambda i, mask: y.store(k.zero(lanes, dtype), row * width + i, mask), lanes)
        with k.range(count) as n:
            place = indices.load(n).to_int64()
            with k.if_then((place >= begin) & (place < end)):
                there, here = place * width, n * width

                def add(i: Int64, mask: Num | None) -> None:
                    y.store(y.load(there + i, lanes, mask) + x.load(here + i, lanes, mask), there + i, mask)

                k.for_each_vector(wide, add, lanes)


@native_kernel("embedding_grad")
def embedding_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The adjoint of `take`; values of one index are added in their order, whoever adds them."""
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
    made = kernel_code(_embedding_grad, indices.size, rows, width, block, ranges, values.dtype, indices.dtype)
    items = blocks * ranges
    return TaskList(
        lambda i, o: [ParallelTask(made.address, (*i, *o), items, items if total <= 2 * PIECE_ELEMENTS else 1)]
    )


def _take_along_axis(k: KernelBuilder, n: int, count: int, dtype: str, kind: str) -> None:
    x, indices, out = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype)
    with k.range(k.first, k.last) as row, k.range(count) as j:
        at = row * count + j
        place, known = load_index(k, indices, at, n, wrap=True)
        out.store(k.select(known, x.load(row * n + place), k.num(missing_row_value(dtype), dtype)), at)


@native_kernel("take_along_axis")
def take_along_axis(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Elements along the last axis."""
    x, indices = ins
    if x.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    n, count = x.shape[-1], indices.shape[-1]
    made, rows = kernel_code(_take_along_axis, n, count, x.dtype, indices.dtype), prod(x.shape[:-1])
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), rows, _grain_size(rows, count))])


def _scatter_add_along_axis(k: KernelBuilder, n: int, count: int, dtype: str, kind: str) -> None:
    values, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), vector_lanes(dtype)
    with k.range(k.first, k.last) as row:
        y = out + row * n
        k.for_each_vector(n, lambda i, mask: y.store(k.zero(lanes, dtype), i, mask), lanes)
        with k.range(count) as j:
            at = row * count + j
            place, known = load_index(k, indices, at, n, wrap=True)
            with k.if_then(known):
                y.store(y.load(place) + values.load(at), place)


@native_kernel("scatter_add_along_axis")
def scatter_add_along_axis(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The adjoint of `take_along_axis`."""
    values, indices = ins
    if values.dtype not in _VALUE_TYPES or indices.dtype not in _INDEX_TYPES:
        return None
    n, count = attrs["size"], indices.shape[-1]
    made, rows = kernel_code(_scatter_add_along_axis, n, count, values.dtype, indices.dtype), prod(indices.shape[:-1])
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), rows, _grain_size(rows, n + count))])


def _one_hot(k: KernelBuilder, classes: int, kind: str) -> None:
    indices, out, one = k.pointer(0, kind), k.pointer(1), k.num(1.0).splat(k.lanes)
    with k.range(k.first, k.last) as row:
        place = indices.load(row).to_int64()
        y = out + row * classes

        def body(i: Int64, mask: Num | None) -> None:
            distance = (place - i).maximum(-1).minimum(k.lanes)
            hit = k.iota(k.lanes) == k.num(distance, "int32").splat(k.lanes)
            y.store(k.select(hit, one, k.zero(k.lanes)), i, mask)

        k.for_each_vector(classes, body)


@native_kernel("one_hot")
def one_hot(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Rows with a 1 at the index."""
    if ins[0].dtype not in _INDEX_TYPES or outs[0].dtype != "float32":
        return None
    made, rows = kernel_code(_one_hot, attrs["classes"], ins[0].dtype), ins[0].size
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), rows, _grain_size(rows, attrs["classes"]))])
