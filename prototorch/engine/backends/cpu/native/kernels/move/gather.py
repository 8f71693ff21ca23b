"""Gathers along an axis at indices known to the plan, and their adjoint (duplicates add).

The longest run of consecutive indices is copied as a whole; the rest one by one, by a table that is read at run time.
Padding that repeats a border is almost a single run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

#: elements of a piece, and of a block of columns
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 14, 1 << 13
_TYPES = ("float32", "float64", "int32", "int64")


class GatherMoves(NamedTuple):
    """[outer, source, inner] -> [outer, target, inner]: ``run_length`` positions of the axis from ``source_start``
    to ``target_start`` at once, and ``num_rest`` others, each a pair (from, to) of the table. ``accumulates``:
    elements are added; else every position of the target is written."""

    source: int
    target: int
    inner: int
    source_start: int
    target_start: int
    run_length: int
    num_rest: int
    accumulates: bool
    dtype: str

    @property
    def num_blocks(self) -> int:
        """Blocks of columns."""
        return -(-self.inner // BLOCK_COLUMNS)


def find_longest_run(indices: Sequence[int]) -> tuple[int, int]:
    """Return the begin and the end of the longest run p, p + 1, p + 2, ..."""
    best, begin = (0, 0), 0
    for i in range(1, len(indices) + 1):
        if i == len(indices) or indices[i] != indices[i - 1] + 1:
            best = max(best, (begin, i), key=lambda r: r[1] - r[0])
            begin = i
    return best


def _move_lines(k: KernelBuilder, m: GatherMoves) -> None:
    """Arguments: the source, the target, the table. Work items are outer indices and blocks of columns."""
    lanes = vector_lanes(m.dtype)
    table = k.pointer(2, "int64")
    with k.range(k.first, k.last) as item:
        column, outer = item % m.num_blocks * BLOCK_COLUMNS, item // m.num_blocks
        x = k.pointer(0, m.dtype) + outer * (m.source * m.inner) + column
        y = k.pointer(1, m.dtype) + outer * (m.target * m.inner) + column
        num_columns: Index = (m.inner - column).minimum(BLOCK_COLUMNS) if m.num_blocks > 1 else m.inner
        if m.num_blocks == 1:
            _move_line(
                k, x + m.source_start * m.inner, y + m.target_start * m.inner, m.run_length * m.inner, lanes, False
            )
        else:
            with k.range(m.run_length) as i:
                _move_line(
                    k, x + (i + m.source_start) * m.inner, y + (i + m.target_start) * m.inner, num_columns, lanes, False
                )
        if m.accumulates:
            for begin, end in ((0, m.target_start), (m.target_start + m.run_length, m.target)):
                _clear(k, m, y, begin, end, num_columns, lanes)
        with k.range(m.num_rest) as i:
            source_offset, target_offset = (table.load(i * 2 + j).to_int64() * m.inner for j in range(2))
            _move_line(k, x + source_offset, y + target_offset, num_columns, lanes, m.accumulates)


def _clear(k: KernelBuilder, m: GatherMoves, y: Pointer, begin: int, end: int, num_columns: Index, lanes: int) -> None:
    def zeros(at: Index) -> Any:
        return lambda i, mask: y.store(k.zero(lanes, m.dtype), at + i, mask)

    if m.num_blocks == 1:
        k.for_each_vector((end - begin) * m.inner, zeros(Int64(k, k.word(begin * m.inner))), lanes)
        return
    with k.range(begin, end) as row:
        k.for_each_vector(num_columns, zeros(row * m.inner), lanes)


def _move_line(k: KernelBuilder, x: Pointer, y: Pointer, count: Index, lanes: int, add: bool) -> None:
    def body(i: Int64, mask: Mask, lanes: int = lanes) -> None:
        value = x.load(i, lanes, mask)
        y.store(y.load(i, lanes, mask) + value if add else value, i, mask)

    if isinstance(count, int) and count == 1:
        body(Int64(k, k.word(0)), None, 1)
    else:
        k.for_each_vector(count, body, lanes)


def _tasks(x: Spec, y: Spec, axis: int, indices: Sequence[int], add: bool) -> TaskList | None:
    if x.dtype not in _TYPES or x.layout != y.layout:
        return None
    (axis,) = normalize_axes(axis, x.ndim)
    shape = memory_order(x.shape, x.layout)
    axis_position = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    size = (y if add else x).shape[axis]
    positions = [p + size if p < 0 else p for p in indices]
    if any(not 0 <= p < size for p in positions):
        return None
    begin, end = find_longest_run(positions)
    others = [(i, p) for i, p in enumerate(positions) if not begin <= i < end]
    pairs = others if add else [(p, i) for i, p in others]
    start, to = (begin, positions[begin]) if add else (positions[begin], begin)
    m = GatherMoves(
        x.shape[axis], y.shape[axis], prod(shape[axis_position + 1 :]), start, to, end - begin, len(pairs), add, x.dtype
    )
    table = np.array(pairs or [(0, 0)], np.int64)
    kernel, items = kernel_code(_move_lines, m), prod(shape[:axis_position]) * m.num_blocks
    total = max(x.size, y.size)
    grain = items if total <= PIECE_ELEMENTS else max(PIECE_ELEMENTS * items // total, 1)
    return TaskList(
        lambda i, o: [ParallelTask(kernel.address, (*i, *o, table.ctypes.data), items, grain)], keep_alive=table
    )


@native_kernel("static_gather")
def static_gather(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Elements at constant indices along an axis."""
    return _tasks(ins[0], outs[0], attrs["axis"], attrs["indices"], False)


@native_kernel("static_scatter_add")
def static_scatter_add(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Zeros, with elements added at constant indices along an axis; duplicate indices add up."""
    return _tasks(ins[0], outs[0], attrs["axis"], attrs["indices"], True)


register_channels_last("native", "follows", "static_gather", "static_scatter_add")
