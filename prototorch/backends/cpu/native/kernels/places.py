"""Fixed places along an axis: `gather` takes the elements there, `scatter_rows`, its adjoint, adds them up there.

The longest run of neighbouring places that follow each other is moved as a whole; the rest go one by one, by a table
that is read at run time. Pads that repeat a border are almost a single run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.elementwise import memory_order
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

#: elements of a piece, and of a block of columns
PIECE, COLUMNS = 1 << 14, 1 << 13
_TYPES = ("float32", "float64", "int32", "int64")


class Moves(NamedTuple):
    """[outer, source, inner] -> [outer, target, inner]: ``run`` elements of the axis from ``start`` to ``to`` at once,
    and ``rest`` others, each a pair (from, to) of the table. ``add``: they are added up, else every place is met."""

    source: int
    target: int
    inner: int
    start: int
    to: int
    run: int
    rest: int
    add: bool
    dtype: str

    @property
    def blocks(self) -> int:
        """Blocks of columns."""
        return -(-self.inner // COLUMNS)


def longest_run(places: Sequence[int]) -> tuple[int, int]:
    """Where the longest run p, p + 1, p + 2, ... begins, and one behind its end."""
    best, begin = (0, 0), 0
    for i in range(1, len(places) + 1):
        if i == len(places) or places[i] != places[i - 1] + 1:
            best = max(best, (begin, i), key=lambda r: r[1] - r[0])
            begin = i
    return best


def _moved(k: Kernel, m: Moves) -> None:
    """Arguments: the source, the target, the table. An item is an outer index and a block of columns."""
    lanes = lanes_of(m.dtype)
    table = k.pointer(2, "int64")
    with k.range(k.first, k.last) as item:
        column, outer = item % m.blocks * COLUMNS, item // m.blocks
        x = k.pointer(0, m.dtype) + outer * (m.source * m.inner) + column
        y = k.pointer(1, m.dtype) + outer * (m.target * m.inner) + column
        wide: Any = (m.inner - column).minimum(COLUMNS) if m.blocks > 1 else m.inner
        if m.blocks == 1:
            _line(k, x + m.start * m.inner, y + m.to * m.inner, m.run * m.inner, lanes, False)
        else:
            with k.range(m.run) as i:
                _line(k, x + (i + m.start) * m.inner, y + (i + m.to) * m.inner, wide, lanes, False)
        if m.add:
            for begin, end in ((0, m.to), (m.to + m.run, m.target)):
                _clear(k, m, y, begin, end, wide, lanes)
        with k.range(m.rest) as i:
            here, there = (table.load(i * 2 + j).int() * m.inner for j in range(2))
            _line(k, x + here, y + there, wide, lanes, m.add)


def _clear(k: Kernel, m: Moves, y: Pointer, begin: int, end: int, wide: Any, lanes: int) -> None:
    def zeros(at: Any) -> Any:
        return lambda i, mask: y.store(k.zero(lanes, m.dtype), at + i, mask)

    if m.blocks == 1:
        k.vectors((end - begin) * m.inner, zeros(Int(k, k.word(begin * m.inner))), lanes)
        return
    with k.range(begin, end) as row:
        k.vectors(wide, zeros(row * m.inner), lanes)


def _line(k: Kernel, x: Pointer, y: Pointer, count: Any, lanes: int, add: bool) -> None:
    def body(i: Int, mask: Num | None, lanes: int = lanes) -> None:
        value = x.load(i, lanes, mask)
        y.store(y.load(i, lanes, mask) + value if add else value, i, mask)

    if isinstance(count, int) and count == 1:
        body(Int(k, k.word(0)), None, 1)
    else:
        k.vectors(count, body, lanes)


def _tasks(x: Spec, y: Spec, axis: int, places: Sequence[int], add: bool) -> Tasks | None:
    if x.dtype not in _TYPES or x.layout != y.layout:
        return None
    (axis,) = axes(axis, x.ndim)
    shape = memory_order(x.shape, x.layout)
    where = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    size = (y if add else x).shape[axis]
    held = [p + size if p < 0 else p for p in places]
    if any(not 0 <= p < size for p in held):
        return None
    begin, end = longest_run(held)
    others = [(i, p) for i, p in enumerate(held) if not begin <= i < end]
    pairs = others if add else [(p, i) for i, p in others]
    start, to = (begin, held[begin]) if add else (held[begin], begin)
    m = Moves(x.shape[axis], y.shape[axis], prod(shape[where + 1 :]), start, to, end - begin, len(pairs), add, x.dtype)
    table = np.array(pairs or [(0, 0)], np.int64)
    made, items = code(_moved, m), prod(shape[:where]) * m.blocks
    total = max(x.size, y.size)
    grain = items if total <= PIECE else max(PIECE * items // total, 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o, table.ctypes.data), items, grain)], keep=table)


@native("gather")
def gather(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Elements at fixed places along an axis."""
    return _tasks(ins[0], outs[0], attrs["axis"], attrs["indices"], False)


@native("scatter_rows")
def scatter_rows(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Zeros, and the elements added at fixed places along an axis."""
    return _tasks(ins[0], outs[0], attrs["axis"], attrs["indices"], True)


channels_last("native", "follows", "gather", "scatter_rows")
