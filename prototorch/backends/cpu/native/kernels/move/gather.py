"""Fixed places along an axis: `static_gather` takes the elements there, `static_scatter_add`, its adjoint, adds them
up there.

The longest run of neighbouring places that follow each other is moved as a whole; the rest go one by one, by a table
that is read at run time. Pads that repeat a border are almost a single run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

#: elements of a piece, and of a block of columns
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 14, 1 << 13
_TYPES = ("float32", "float64", "int32", "int64")


class GatherMoves(NamedTuple):
    """[outer, source, inner] -> [outer, target, inner]: ``run`` elements of the axis from ``start`` to ``to`` at once,
    and ``rest`` others, each a pair (from, to) of the table. ``add``: they are added up, else every place is met."""

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


def find_longest_run(places: Sequence[int]) -> tuple[int, int]:
    """Where the longest run p, p + 1, p + 2, ... begins, and one behind its end."""
    best, begin = (0, 0), 0
    for i in range(1, len(places) + 1):
        if i == len(places) or places[i] != places[i - 1] + 1:
            best = max(best, (begin, i), key=lambda r: r[1] - r[0])
            begin = i
    return best


def _move_lines(k: KernelBuilder, m: GatherMoves) -> None:
    """Arguments: the source, the target, the table. An item is an outer index and a block of columns."""
    lanes = vector_lanes(m.dtype)
    table = k.pointer(2, "int64")
    with k.range(k.first, k.last) as item:
        column, outer = item % m.num_blocks * BLOCK_COLUMNS, item // m.num_blocks
        x = k.pointer(0, m.dtype) + outer * (m.source * m.inner) + column
        y = k.pointer(1, m.dtype) + outer * (m.target * m.inner) + column
        wide: Any = (m.inner - column).minimum(BLOCK_COLUMNS) if m.num_blocks > 1 else m.inner
        if m.num_blocks == 1:
            _move_line(
                k, x + m.source_start * m.inner, y + m.target_start * m.inner, m.run_length * m.inner, lanes, False
            )
        else:
            with k.range(m.run_length) as i:
                _move_line(
                    k, x + (i + m.source_start) * m.inner, y + (i + m.target_start) * m.inner, wide, lanes, False
                )
        if m.accumulates:
            for begin, end in ((0, m.target_start), (m.target_start + m.run_length, m.target)):
                _clear(k, m, y, begin, end, wide, lanes)
        with k.range(m.num_rest) as i:
            here, there = (table.load(i * 2 + j).to_int64() * m.inner for j in range(2))
            _move_line(k, x + here, y + there, wide, lanes, m.accumulates)


def _clear(k: KernelBuilder, m: GatherMoves, y: Pointer, begin: int, end: int, wide: Any, lanes: int) -> None:
    def zeros(at: Any) -> Any:
        return lambda i, mask: y.store(k.zero(lanes, m.dtype), at + i, mask)

    if m.num_blocks == 1:
        k.for_each_vector((end - begin) * m.inner, zeros(Int64(k, k.word(begin * m.inner))), lanes)
        return
    with k.range(begin, end) as row:
        k.for_each_vector(wide, zeros(row * m.inner), lanes)


def _move_line(k: KernelBuilder, x: Pointer, y: Pointer, count: Any, lanes: int, add: bool) -> None:
    def body(i: Int64, mask: Num | None, lanes: int = lanes) -> None:
        value = x.load(i, lanes, mask)
        y.store(y.load(i, lanes, mask) + value if add else value, i, mask)

    if isinstance(count, int) and count == 1:
        body(Int64(k, k.word(0)), None, 1)
    else:
        k.for_each_vector(count, body, lanes)


def _tasks(x: Spec, y: Spec, axis: int, places: Sequence[int], add: bool) -> TaskList | None:
    if x.dtype not in _TYPES or x.layout != y.layout:
        return None
    (axis,) = normalize_axes(axis, x.ndim)
    shape = memory_order(x.shape, x.layout)
    where = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    size = (y if add else x).shape[axis]
    held = [p + size if p < 0 else p for p in places]
    if any(not 0 <= p < size for p in held):
        return None
    begin, end = find_longest_run(held)
    others = [(i, p) for i, p in enumerate(held) if not begin <= i < end]
    pairs = others if add else [(p, i) for i, p in others]
    start, to = (begin, held[begin]) if add else (held[begin], begin)
    m = GatherMoves(
        x.shape[axis], y.shape[axis], prod(shape[where + 1 :]), start, to, end - begin, len(pairs), add, x.dtype
    )
    table = np.array(pairs or [(0, 0)], np.int64)
    made, items = kernel_code(_move_lines, m), prod(shape[:where]) * m.num_blocks
    total = max(x.size, y.size)
    grain = items if total <= PIECE_ELEMENTS else max(PIECE_ELEMENTS * items // total, 1)
    return TaskList(
        lambda i, o: [ParallelTask(made.address, (*i, *o, table.ctypes.data), items, grain)], keep_alive=table
    )


@native_kernel("static_gather")
def static_gather(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Elements at fixed places along an axis."""
    return _tasks(ins[0], outs[0], attrs["axis"], attrs["indices"], False)


@native_kernel("static_scatter_add")
def static_scatter_add(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Zeros, and the elements added at fixed places along an axis."""
    return _tasks(ins[0], outs[0], attrs["axis"], attrs["indices"], True)


register_channels_last("native", "follows", "static_gather", "static_scatter_add")
