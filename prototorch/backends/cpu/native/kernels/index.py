"""Elements looked up by an index, and their adjoints. No index that lies outside reads or writes other memory."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.indexing import missing_row
from prototorch.spec import Spec

#: elements of a piece, and columns that a piece of `put_rows` owns
PIECE, COLUMNS = 1 << 14, 128
_INDICES = ("int32", "int64", "uint8", "uint32")
_VALUES = ("float32", "float64", "int32", "int64")


def _grain(items: int, each: int) -> int:
    return items if items * each <= PIECE else max(PIECE // each, 1)


def index_at(k: Kernel, indices: Pointer, at: Any, size: int, wrap: bool = False) -> tuple[Int, Num]:
    """An index that may be used (0 where it may not), and whether it is the one that was meant. ``wrap`` counts those
    below 0 from the end, as NumPy does."""
    i = indices.load(at).int()
    if wrap:
        i = Int(k, k.b.select((i < 0).v, (i + size).v, i.v))
    known = (i >= 0) & (i < size)
    return Int(k, k.b.select(known.v, i.v, k.word(0))), known


def _take(k: Kernel, rows: int, width: int, dtype: str, kind: str) -> None:
    table, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), lanes_of(dtype)
    missing = k.num(missing_row(dtype), dtype).splat(lanes)
    with k.range(k.first, k.last) as item:
        place, known = index_at(k, indices, item, rows)
        x, y = table + place * width, out + item * width

        def body(i: Int, mask: Num | None) -> None:
            y.store(k.select(known.splat(lanes), x.load(i, lanes, mask), missing), i, mask)

        if width == 1:
            y.store(k.select(known, x.load(), missing.lane(0)))
        else:
            k.vectors(width, body, lanes)


@native("take")
def take(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Rows of a table."""
    table, indices = ins
    if table.dtype not in _VALUES or indices.dtype not in _INDICES:
        return None
    width = prod(table.shape[1:])
    made = code(_take, table.shape[0], width, table.dtype, indices.dtype)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), indices.size, _grain(indices.size, width))])


def _put_rows(k: Kernel, count: int, rows: int, width: int, block: int, ranges: int, dtype: str, kind: str) -> None:
    """An item owns a block of columns of a range of rows: it zeroes them and adds all values that belong there."""
    values, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), lanes_of(dtype)
    size = -(-rows // ranges)
    with k.range(k.first, k.last) as item:
        column = (item // ranges) * block
        begin = ((item % ranges) * size).minimum(rows)
        end = (begin + size).minimum(rows)
        wide = Int(k, k.word(width)) - column
        wide = wide.minimum(block)
        y, x = out + column, values + column
        with k.range(begin, end) as row:
            k.vectors(wide, lambda i, mask: y.store(k.zero(lanes, dtype), row * width + i, mask), lanes)
        with k.range(count) as n:
            place = indices.load(n).int()
            with k.when((place >= begin) & (place < end)):
                there, here = place * width, n * width

                def add(i: Int, mask: Num | None) -> None:
                    y.store(y.load(there + i, lanes, mask) + x.load(here + i, lanes, mask), there + i, mask)

                k.vectors(wide, add, lanes)


@native("put_rows")
def put_rows(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The adjoint of `take`; values of one index are added in their order, whoever adds them."""
    values, indices = ins
    rows = attrs["rows"]
    if values.dtype not in _VALUES or indices.dtype not in _INDICES:
        return None
    width, total = prod(outs[0].shape[1:]), values.size + outs[0].size
    block = min(width, COLUMNS)
    blocks = -(-width // block)
    ranges = 1 if total <= 2 * PIECE else min(max(total // (PIECE * blocks), 1), max(16 // blocks, 1), rows)
    made = code(_put_rows, indices.size, rows, width, block, ranges, values.dtype, indices.dtype)
    items = blocks * ranges
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, items if total <= 2 * PIECE else 1)])


def _take_along(k: Kernel, n: int, count: int, dtype: str, kind: str) -> None:
    x, indices, out = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype)
    with k.range(k.first, k.last) as row, k.range(count) as j:
        at = row * count + j
        place, known = index_at(k, indices, at, n, wrap=True)
        out.store(k.select(known, x.load(row * n + place), k.num(missing_row(dtype), dtype)), at)


@native("take_along")
def take_along(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Elements along the last axis."""
    x, indices = ins
    if x.dtype not in _VALUES or indices.dtype not in _INDICES:
        return None
    n, count = x.shape[-1], indices.shape[-1]
    made, rows = code(_take_along, n, count, x.dtype, indices.dtype), prod(x.shape[:-1])
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), rows, _grain(rows, count))])


def _put_along(k: Kernel, n: int, count: int, dtype: str, kind: str) -> None:
    values, indices, out, lanes = k.pointer(0, dtype), k.pointer(1, kind), k.pointer(2, dtype), lanes_of(dtype)
    with k.range(k.first, k.last) as row:
        y = out + row * n
        k.vectors(n, lambda i, mask: y.store(k.zero(lanes, dtype), i, mask), lanes)
        with k.range(count) as j:
            at = row * count + j
            place, known = index_at(k, indices, at, n, wrap=True)
            with k.when(known):
                y.store(y.load(place) + values.load(at), place)


@native("put_along")
def put_along(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The adjoint of `take_along`."""
    values, indices = ins
    if values.dtype not in _VALUES or indices.dtype not in _INDICES:
        return None
    n, count = attrs["size"], indices.shape[-1]
    made, rows = code(_put_along, n, count, values.dtype, indices.dtype), prod(indices.shape[:-1])
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), rows, _grain(rows, n + count))])


def _one_hot(k: Kernel, classes: int, kind: str) -> None:
    indices, out, one = k.pointer(0, kind), k.pointer(1), k.num(1.0).splat(k.lanes)
    with k.range(k.first, k.last) as row:
        place = indices.load(row).int()
        y = out + row * classes

        def body(i: Int, mask: Num | None) -> None:
            distance = (place - i).maximum(-1).minimum(k.lanes)
            hit = k.iota(k.lanes) == k.num(distance, "int32").splat(k.lanes)
            y.store(k.select(hit, one, k.zero(k.lanes)), i, mask)

        k.vectors(classes, body)


@native("one_hot")
def one_hot(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Rows with a 1 at the index."""
    if ins[0].dtype not in _INDICES or outs[0].dtype != "float32":
        return None
    made, rows = code(_one_hot, attrs["classes"], ins[0].dtype), ins[0].size
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), rows, _grain(rows, attrs["classes"]))])
