"""Transposing copies: changes of the memory layout, permuted axes, concatenation.

Square tiles are read row by row, transposed in registers, and written row by row. A work item is a block of rows and
columns, done along its longer side, so that memory is read or written in long runs. A few channels whose positions are
to be contiguous are interleaved instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import (
    StridedAxis,
    merge_axes,
    row_major_strides,
    strided_copy,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Specs
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

#: rows and columns of a block, and elements of a piece of work
BLOCK_SIZE, PIECE_ELEMENTS = 512, 1 << 15
#: rows up to which columns are interleaved
MAX_INTERLEAVED_ROWS = 4


@dataclass(frozen=True)
class TransposeTiling:
    """``outer`` axes and two more: ``columns`` are contiguous in the source, ``rows`` in the target.
    ``source_stride`` is the distance of rows in the source, ``target_stride`` that of columns in the target."""

    outer: tuple[StridedAxis, ...]
    rows: int
    columns: int
    source_stride: int
    target_stride: int

    @property
    def num_blocks(self) -> tuple[int, int]:
        """The numbers of blocks of rows and of columns."""
        return -(-self.rows // BLOCK_SIZE), -(-self.columns // BLOCK_SIZE)

    @property
    def num_items(self) -> int:
        """The number of work items."""
        return prod(a.size for a in self.outer) * prod(self.num_blocks)

    @property
    def grain_size(self) -> int:
        """Work items of a piece."""
        total = self.num_items * min(self.rows, BLOCK_SIZE) * min(self.columns, BLOCK_SIZE)
        return self.num_items if total <= PIECE_ELEMENTS else max(PIECE_ELEMENTS * self.num_items // total, 1)


def _transpose_tile(k: KernelBuilder, rows: list[Num]) -> list[Num]:
    """Transpose as many vectors as each has lanes."""
    lanes, far = len(rows), 1
    while far < lanes:
        low = [i if not i & far else i - far + lanes for i in range(lanes)]
        high = [i + far if not i & far else i + lanes for i in range(lanes)]
        result = list(rows)
        for r in range(lanes):
            if not r & far:
                result[r] = k.shuffle(rows[r], rows[r + far], low)
                result[r + far] = k.shuffle(rows[r], rows[r + far], high)
        rows, far = result, 2 * far
    return rows


def _transpose_block(
    k: KernelBuilder, e: TransposeTiling, x: Pointer, y: Pointer, top: Int64, begin: Int64, lanes: int
) -> None:
    """Copy a block of rows from ``top`` and columns from ``begin`` on."""

    def copy_full_tile(row: Index, column: Index) -> None:
        vectors = [x.load((row + i) * e.source_stride + column, lanes) for i in range(lanes)]
        for i, v in enumerate(_transpose_tile(k, vectors)):
            y.store(v, (column + i) * e.target_stride + row)

    def copy_edge_tile(row: Any, column: Any) -> None:
        rows_left, columns_left = (e.rows - row), (e.columns - column)
        column_mask, row_mask = k.mask(columns_left.minimum(lanes), lanes), k.mask(rows_left.minimum(lanes), lanes)
        vectors = [
            x.load((row + i) * e.source_stride + column, lanes, column_mask & (rows_left > i).splat(lanes))
            for i in range(lanes)
        ]
        for i, v in enumerate(_transpose_tile(k, vectors)):
            with k.if_then(columns_left > i):
                y.store(v, (column + i) * e.target_stride + row, row_mask)

    end = (begin + BLOCK_SIZE).minimum(e.columns)
    full = begin + (end - begin) // lanes * lanes
    bottom = (top + BLOCK_SIZE).minimum(e.rows)
    low = top + (bottom - top) // lanes * lanes
    if e.rows > e.columns:
        with k.range(begin, full, lanes) as column, k.range(top, low, lanes) as row:
            copy_full_tile(row, column)
    else:
        with k.range(top, low, lanes) as row, k.range(begin, full, lanes) as column:
            copy_full_tile(row, column)
    if e.columns % lanes:
        with k.range(full, end, lanes) as column, k.range(top, low, lanes) as row:
            copy_edge_tile(row, column)
    if e.rows % lanes:
        with k.range(low, bottom, lanes) as row, k.range(begin, end, lanes) as column:
            copy_edge_tile(row, column)


def _interleave_rows(k: KernelBuilder, e: TransposeTiling, x: Pointer, y: Pointer, begin: Int64) -> None:
    """Interleave a few rows, whose columns are to be contiguous."""
    n, lanes = e.rows, k.lanes
    end = (begin + BLOCK_SIZE).minimum(e.columns)
    full = begin + (end - begin) // lanes * lanes
    with k.range(begin, full, lanes) as column:
        vectors = [x.load(r * e.source_stride + column, lanes) for r in range(n)]
        for v in range(n):
            positions = [divmod(v * lanes + i, n) for i in range(lanes)]  # column, row
            vector = k.shuffle(vectors[0], vectors[1], [c + lanes * (r == 1) for c, r in positions])
            for other in range(2, n):
                order = [c + lanes if r == other else i for i, (c, r) in enumerate(positions)]
                vector = k.shuffle(vector, vectors[other], order)
            y.store(vector, column * n + v * lanes)
    with k.range(full, end) as column, k.range(n) as row:
        y.store(x.load(row * e.source_stride + column), column * n + row)


def _emit_transpose(k: KernelBuilder, e: TransposeTiling, nontemporal: bool) -> None:
    x, y = k.pointer(0), k.pointer(1, nontemporal=nontemporal)
    lanes = k.lanes
    while lanes // 2 >= max(min(e.rows, e.columns), 2):
        lanes //= 2
    with k.range(k.first, k.last) as item:
        row_blocks, column_blocks = e.num_blocks
        begin, rest = (item % column_blocks) * BLOCK_SIZE, item // column_blocks
        top, rest = (rest % row_blocks) * BLOCK_SIZE, rest // row_blocks
        source_offset, target_offset = item * 0, item * 0
        for i in range(len(e.outer) - 1, -1, -1):
            index = rest % e.outer[i].size if i else rest
            source_offset, target_offset = (
                source_offset + index * e.outer[i].source_stride,
                target_offset + index * e.outer[i].target_stride,
            )
            rest = rest // e.outer[i].size
        if 2 <= e.rows <= min(MAX_INTERLEAVED_ROWS, k.lanes) and e.target_stride == e.rows:
            _interleave_rows(k, e, x + source_offset, y + target_offset, begin)
        else:
            _transpose_block(k, e, x + source_offset, y + target_offset, top, begin, lanes)


def copy_transposed(axes: Sequence[StridedAxis], dtype: str) -> Any:
    """Return a function from the addresses of source and target to a task that copies all elements. ``axes`` are in
    the order of the target's memory, which they fill."""
    merged_axes = merge_axes(axes)
    inner = [a for a in merged_axes if a.source_stride == 1]
    if SIZES.get(dtype) != 4 or len(merged_axes) < 2 or not inner or merged_axes[-1].source_stride == 1:
        return strided_copy(axes, dtype, 0, 0)
    columns, rows = inner[0], merged_axes[-1]
    outer = tuple(a for a in merged_axes if a is not columns and a is not rows)
    e = TransposeTiling(outer, rows.size, columns.size, rows.source_stride, columns.target_stride)
    result = Spec((prod(a.size for a in axes),), "float32")
    address = choose_nontemporal(lambda nontemporal: kernel_code(_emit_transpose, e, nontemporal), [result], rows.size)
    return lambda x, y: ParallelTask(address([x], [y]), (x, y), e.num_items, e.grain_size)


def permute_axes(shape: Sequence[int], order: Sequence[int], dtype: str) -> Any:
    """Like `copy_transposed`, for an array in row-major memory whose axes are permuted."""
    in_strides = row_major_strides(shape)
    sizes = [shape[i] for i in order]
    return copy_transposed(
        [StridedAxis(n, in_strides[i], t) for n, i, t in zip(sizes, order, row_major_strides(sizes), strict=True)],
        dtype,
    )


@native_kernel("reorder")
def reorder(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The same elements in another memory layout."""
    x, y = ins[0], outs[0]
    axes = tuple(range(x.ndim))
    in_axes, out_axes = (memory_order(axes, s.layout) for s in (x, y))
    copy = permute_axes(memory_order(x.shape, x.layout), [in_axes.index(a) for a in out_axes], x.dtype)
    return TaskList(lambda i, o: [copy(i[0], o[0])])


@native_kernel("transpose")
def transpose(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The axes permuted."""
    copy = permute_axes(ins[0].shape, attrs["order"], ins[0].dtype)
    return TaskList(lambda i, o: [copy(i[0], o[0])])


register_channels_last("native", "follows", "reorder")
