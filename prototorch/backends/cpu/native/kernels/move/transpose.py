"""Copies in which another axis becomes the innermost: reordered memory and exchanged axes.

Square tiles are read row by row, transposed in registers, and written row by row. An item is a block of rows and
columns, done along its longer side, so that memory is read or written in long runs. A few channels, whose places are to
lie side by side, are interleaved instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.backends.cpu.native.kernels.move.strided_copy import (
    StridedAxis,
    merge_axes,
    row_major_strides,
    strided_copy,
)
from prototorch.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

#: rows and columns of a block, and numbers of a piece of work
BLOCK_SIZE, PIECE_ELEMENTS = 512, 1 << 15
#: rows up to which they are interleaved
MAX_INTERLEAVED_ROWS = 4


@dataclass(frozen=True)
class TransposeTiling:
    """``outer`` axes, and two more: ``columns`` lie side by side in the source, ``rows`` in the target. ``source`` is
    how far one row is from the next in the source, ``target`` one column from the next in the target."""

    outer: tuple[StridedAxis, ...]
    rows: int
    columns: int
    source_stride: int
    target_stride: int

    @property
    def num_blocks(self) -> tuple[int, int]:
        """Blocks that the rows and the columns are cut into."""
        return -(-self.rows // BLOCK_SIZE), -(-self.columns // BLOCK_SIZE)

    @property
    def num_items(self) -> int:
        """Items of work."""
        return prod(a.size for a in self.outer) * prod(self.num_blocks)

    @property
    def grain_size(self) -> int:
        """Items of a piece."""
        total = self.num_items * min(self.rows, BLOCK_SIZE) * min(self.columns, BLOCK_SIZE)
        return self.num_items if total <= PIECE_ELEMENTS else max(PIECE_ELEMENTS * self.num_items // total, 1)


def _transpose_tile(k: KernelBuilder, rows: list[Num]) -> list[Num]:
    """The transpose of as many vectors as each has lanes."""
    lanes, far = len(rows), 1
    while far < lanes:
        low = [i if not i & far else i - far + lanes for i in range(lanes)]
        high = [i + far if not i & far else i + lanes for i in range(lanes)]
        made = list(rows)
        for r in range(lanes):
            if not r & far:
                made[r] = k.shuffle(rows[r], rows[r + far], low)
                made[r + far] = k.shuffle(rows[r], rows[r + far], high)
        rows, far = made, 2 * far
    return rows


def _transpose_block(
    k: KernelBuilder, e: TransposeTiling, x: Pointer, y: Pointer, top: Int64, begin: Int64, lanes: int
) -> None:
    """A block of rows from ``top`` and columns from ``begin`` on."""

    def whole(row: Any, column: Any) -> None:
        held = [x.load((row + i) * e.source_stride + column, lanes) for i in range(lanes)]
        for i, v in enumerate(_transpose_tile(k, held)):
            y.store(v, (column + i) * e.target_stride + row)

    def part(row: Any, column: Any) -> None:
        down, across = (e.rows - row), (e.columns - column)
        seen, wide = k.mask(across.minimum(lanes), lanes), k.mask(down.minimum(lanes), lanes)
        held = [
            x.load((row + i) * e.source_stride + column, lanes, seen & (down > i).splat(lanes)) for i in range(lanes)
        ]
        for i, v in enumerate(_transpose_tile(k, held)):
            with k.if_then(across > i):
                y.store(v, (column + i) * e.target_stride + row, wide)

    end = (begin + BLOCK_SIZE).minimum(e.columns)
    full = begin + (end - begin) // lanes * lanes
    bottom = (top + BLOCK_SIZE).minimum(e.rows)
    low = top + (bottom - top) // lanes * lanes
    if e.rows > e.columns:
        with k.range(begin, full, lanes) as column, k.range(top, low, lanes) as row:
            whole(row, column)
    else:
        with k.range(top, low, lanes) as row, k.range(begin, full, lanes) as column:
            whole(row, column)
    if e.columns % lanes:
        with k.range(full, end, lanes) as column, k.range(top, low, lanes) as row:
            part(row, column)
    if e.rows % lanes:
        with k.range(low, bottom, lanes) as row, k.range(begin, end, lanes) as column:
            part(row, column)


def _interleave_rows(k: KernelBuilder, e: TransposeTiling, x: Pointer, y: Pointer, begin: Int64) -> None:
    """A few rows, whose columns are to lie side by side."""
    n, lanes = e.rows, k.lanes
    end = (begin + BLOCK_SIZE).minimum(e.columns)
    full = begin + (end - begin) // lanes * lanes
    with k.range(begin, full, lanes) as column:
        held = [x.load(r * e.source_stride + column, lanes) for r in range(n)]
        for v in range(n):
            places = [divmod(v * lanes + i, n) for i in range(lanes)]  # column, row
            made = k.shuffle(held[0], held[1], [c + lanes * (r == 1) for c, r in places])
            for third in range(2, n):
                order = [c + lanes if r == third else i for i, (c, r) in enumerate(places)]
                made = k.shuffle(made, held[third], order)
            y.store(made, column * n + v * lanes)
    with k.range(full, end) as column, k.range(n) as row:
        y.store(x.load(row * e.source_stride + column), column * n + row)


def _emit_transpose(k: KernelBuilder, e: TransposeTiling, past: bool) -> None:
    x, y = k.pointer(0), k.pointer(1, nontemporal=past)
    lanes = k.lanes
    while lanes // 2 >= max(min(e.rows, e.columns), 2):
        lanes //= 2
    with k.range(k.first, k.last) as item:
        down, across = e.num_blocks
        begin, rest = (item % across) * BLOCK_SIZE, item // across
        top, rest = (rest % down) * BLOCK_SIZE, rest // down
        here, there = item * 0, item * 0
        for i in range(len(e.outer) - 1, -1, -1):
            place = rest % e.outer[i].size if i else rest
            here, there = here + place * e.outer[i].source_stride, there + place * e.outer[i].target_stride
            rest = rest // e.outer[i].size
        if 2 <= e.rows <= min(MAX_INTERLEAVED_ROWS, k.lanes) and e.target_stride == e.rows:
            _interleave_rows(k, e, x + here, y + there, begin)
        else:
            _transpose_block(k, e, x + here, y + there, top, begin, lanes)


def arranged(axes: Sequence[StridedAxis], dtype: str) -> Any:
    """A function from the addresses of source and target to a task that copies all elements. ``axes`` are in the order
    of the target's memory, which they fill."""
    found = merge_axes(axes)
    inner = [a for a in found if a.source_stride == 1]
    if SIZES.get(dtype) != 4 or len(found) < 2 or not inner or found[-1].source_stride == 1:
        return strided_copy(axes, dtype, 0, 0)
    columns, rows = inner[0], found[-1]
    outer = tuple(a for a in found if a is not columns and a is not rows)
    e = TransposeTiling(outer, rows.size, columns.size, rows.source_stride, columns.target_stride)
    result = Spec((prod(a.size for a in axes),), "float32")
    address = choose_nontemporal(lambda past: kernel_code(_emit_transpose, e, past), [result], rows.size)
    return lambda x, y: ParallelTask(address([x], [y]), (x, y), e.num_items, e.grain_size)


def permute_axes(shape: Sequence[int], order: Sequence[int], dtype: str) -> Any:
    """As `arranged`, of an array of a shape in row-major memory whose axes are put into another order."""
    held = row_major_strides(shape)
    sizes = [shape[i] for i in order]
    return arranged(
        [StridedAxis(n, held[i], t) for n, i, t in zip(sizes, order, row_major_strides(sizes), strict=True)], dtype
    )


@native_kernel("reorder")
def reorder(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList:
    """The same elements in another order in memory."""
    x, y = ins[0], outs[0]
    axes = tuple(range(x.ndim))
    held, wanted = (memory_order(axes, s.layout) for s in (x, y))
    made = permute_axes(memory_order(x.shape, x.layout), [held.index(a) for a in wanted], x.dtype)
    return TaskList(lambda i, o: [made(i[0], o[0])])


@native_kernel("transpose")
def transpose(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList:
    """The axes in another order."""
    made = permute_axes(ins[0].shape, attrs["order"], ins[0].dtype)
    return TaskList(lambda i, o: [made(i[0], o[0])])


@native_kernel("concat")
def concat(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList:
    """The inputs side by side along an axis."""
    y = outs[0]
    if any(s.layout != y.layout for s in ins):
        raise UnsupportedError("operands that lie differently")
    axis = memory_order(tuple(range(y.ndim)), y.layout).index(attrs["axis"] % y.ndim)
    whole = memory_order(y.shape, y.layout)
    each, made, start = prod(whole[axis:]), [], 0
    for s in ins:
        own = prod(memory_order(s.shape, s.layout)[axis:])
        axes = [StridedAxis(prod(whole[:axis]), own, each), StridedAxis(own, 1, 1)]
        made.append(strided_copy(axes, s.dtype, 0, start))
        start += own
    return TaskList(lambda i, o: [copy(x, o[0]) for copy, x in zip(made, i, strict=True)])


@native_kernel("pad")
def zero_pad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The input with zeros around it."""
    x, y = ins[0], outs[0]
    if x.layout != y.layout or attrs.get("mode", "constant") != "constant" or attrs.get("value", 0.0) != 0:
        return None
    given, wide = memory_order(x.shape, x.layout), row_major_strides(memory_order(y.shape, y.layout))
    before = memory_order(tuple(p[0] for p in attrs["pads"]), x.layout)
    axes = [StridedAxis(n, s, t) for n, s, t in zip(given, row_major_strides(given), wide, strict=True)]
    put = strided_copy(axes, x.dtype, 0, sum(b * t for b, t in zip(before, wide, strict=True)))
    clear = strided_copy([StridedAxis(y.size, 1, 1)], x.dtype, 0, 0, filled=True)
    return TaskList(lambda i, o: [clear(o[0], o[0]), put(i[0], o[0])])


register_channels_last("native", "follows", "reorder", "concat", "pad")
