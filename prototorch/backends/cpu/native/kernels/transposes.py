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

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import SIZES, Int, Kernel, Num, Pointer, Unsupported
from prototorch.backends.cpu.native.kernels.elementwise import memory_order
from prototorch.backends.cpu.native.kernels.slices import Axis, copies, merged, strides
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: rows and columns of a block, and numbers of a piece of work
BLOCK, PIECE = 512, 1 << 15
#: rows up to which they are interleaved
FEW = 4


@dataclass(frozen=True)
class Exchange:
    """``outer`` axes, and two more: ``columns`` lie side by side in the source, ``rows`` in the target. ``source`` is
    how far one row is from the next in the source, ``target`` one column from the next in the target."""

    outer: tuple[Axis, ...]
    rows: int
    columns: int
    source: int
    target: int

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks that the rows and the columns are cut into."""
        return -(-self.rows // BLOCK), -(-self.columns // BLOCK)

    @property
    def items(self) -> int:
        """Items of work."""
        return prod(a.size for a in self.outer) * prod(self.blocks)

    @property
    def grain(self) -> int:
        """Items of a piece."""
        total = self.items * min(self.rows, BLOCK) * min(self.columns, BLOCK)
        return self.items if total <= PIECE else max(PIECE * self.items // total, 1)


def _tile(k: Kernel, rows: list[Num]) -> list[Num]:
    """The transpose of as many vectors as each has lanes."""
    lanes, far = len(rows), 1
    while far < lanes:
        low = [i if not i & far else i - far + lanes for i in range(lanes)]
        high = [i + far if not i & far else i + lanes for i in range(lanes)]
        made = list(rows)
        for r in range(lanes):
            if not r & far:
                made[r] = k.shuffled(rows[r], rows[r + far], low)
                made[r + far] = k.shuffled(rows[r], rows[r + far], high)
        rows, far = made, 2 * far
    return rows


def _tiles(k: Kernel, e: Exchange, x: Pointer, y: Pointer, top: Int, begin: Int, lanes: int) -> None:
    """A block of rows from ``top`` and columns from ``begin`` on."""

    def whole(row: Any, column: Any) -> None:
        held = [x.load((row + i) * e.source + column, lanes) for i in range(lanes)]
        for i, v in enumerate(_tile(k, held)):
            y.store(v, (column + i) * e.target + row)

    def part(row: Any, column: Any) -> None:
        down, across = (e.rows - row), (e.columns - column)
        seen, wide = k.mask(across.minimum(lanes), lanes), k.mask(down.minimum(lanes), lanes)
        held = [x.load((row + i) * e.source + column, lanes, seen & (down > i).splat(lanes)) for i in range(lanes)]
        for i, v in enumerate(_tile(k, held)):
            with k.when(across > i):
                y.store(v, (column + i) * e.target + row, wide)

    end = (begin + BLOCK).minimum(e.columns)
    full = begin + (end - begin) // lanes * lanes
    bottom = (top + BLOCK).minimum(e.rows)
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


def _interleaved(k: Kernel, e: Exchange, x: Pointer, y: Pointer, begin: Int) -> None:
    """A few rows, whose columns are to lie side by side."""
    n, lanes = e.rows, k.lanes
    end = (begin + BLOCK).minimum(e.columns)
    full = begin + (end - begin) // lanes * lanes
    with k.range(begin, full, lanes) as column:
        held = [x.load(r * e.source + column, lanes) for r in range(n)]
        for v in range(n):
            places = [divmod(v * lanes + i, n) for i in range(lanes)]  # column, row
            made = k.shuffled(held[0], held[1], [c + lanes * (r == 1) for c, r in places])
            for third in range(2, n):
                order = [c + lanes if r == third else i for i, (c, r) in enumerate(places)]
                made = k.shuffled(made, held[third], order)
            y.store(made, column * n + v * lanes)
    with k.range(full, end) as column, k.range(n) as row:
        y.store(x.load(row * e.source + column), column * n + row)


def _exchanged(k: Kernel, e: Exchange, past: bool) -> None:
    x, y = k.pointer(0), k.pointer(1, streams=past)
    lanes = k.lanes
    while lanes // 2 >= max(min(e.rows, e.columns), 2):
        lanes //= 2
    with k.range(k.first, k.last) as item:
        down, across = e.blocks
        begin, rest = (item % across) * BLOCK, item // across
        top, rest = (rest % down) * BLOCK, rest // down
        here, there = item * 0, item * 0
        for i in range(len(e.outer) - 1, -1, -1):
            place = rest % e.outer[i].size if i else rest
            here, there = here + place * e.outer[i].source, there + place * e.outer[i].target
            rest = rest // e.outer[i].size
        if 2 <= e.rows <= min(FEW, k.lanes) and e.target == e.rows:
            _interleaved(k, e, x + here, y + there, begin)
        else:
            _tiles(k, e, x + here, y + there, top, begin, lanes)


def arranged(axes: Sequence[Axis], dtype: str) -> Any:
    """A function from the addresses of source and target to a task that copies all elements. ``axes`` are in the order
    of the target's memory, which they fill."""
    found = merged(axes)
    inner = [a for a in found if a.source == 1]
    if SIZES.get(dtype) != 4 or len(found) < 2 or not inner or found[-1].source == 1:
        return copies(axes, dtype, 0, 0)
    columns, rows = inner[0], found[-1]
    outer = tuple(a for a in found if a is not columns and a is not rows)
    e = Exchange(outer, rows.size, columns.size, rows.source, columns.target)
    result = Spec((prod(a.size for a in axes),), "float32")
    address = streamed(lambda past: code(_exchanged, e, past), [result], rows.size)
    return lambda x, y: Task(address([x], [y]), (x, y), e.items, e.grain)


def permuted(shape: Sequence[int], order: Sequence[int], dtype: str) -> Any:
    """As `arranged`, of an array of a shape in row-major memory whose axes are put into another order."""
    held = strides(shape)
    sizes = [shape[i] for i in order]
    return arranged([Axis(n, held[i], t) for n, i, t in zip(sizes, order, strides(sizes), strict=True)], dtype)


@native("reorder")
def reorder(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The same elements in another order in memory."""
    x, y = ins[0], outs[0]
    axes = tuple(range(x.ndim))
    held, wanted = (memory_order(axes, s.layout) for s in (x, y))
    made = permuted(memory_order(x.shape, x.layout), [held.index(a) for a in wanted], x.dtype)
    return Tasks(lambda i, o: [made(i[0], o[0])])


@native("transpose")
def transpose(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The axes in another order."""
    made = permuted(ins[0].shape, attrs["order"], ins[0].dtype)
    return Tasks(lambda i, o: [made(i[0], o[0])])


@native("concat")
def concat(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The inputs side by side along an axis."""
    y = outs[0]
    if any(s.layout != y.layout for s in ins):
        raise Unsupported("operands that lie differently")
    axis = memory_order(tuple(range(y.ndim)), y.layout).index(attrs["axis"] % y.ndim)
    whole = memory_order(y.shape, y.layout)
    each, made, start = prod(whole[axis:]), [], 0
    for s in ins:
        own = prod(memory_order(s.shape, s.layout)[axis:])
        axes = [Axis(prod(whole[:axis]), own, each), Axis(own, 1, 1)]
        made.append(copies(axes, s.dtype, 0, start))
        start += own
    return Tasks(lambda i, o: [copy(x, o[0]) for copy, x in zip(made, i, strict=True)])


@native("pad")
def pad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The input with zeros around it."""
    x, y = ins[0], outs[0]
    if x.layout != y.layout or attrs.get("mode", "constant") != "constant" or attrs.get("value", 0.0) != 0:
        return None
    given, wide = memory_order(x.shape, x.layout), strides(memory_order(y.shape, y.layout))
    before = memory_order(tuple(p[0] for p in attrs["pads"]), x.layout)
    axes = [Axis(n, s, t) for n, s, t in zip(given, strides(given), wide, strict=True)]
    put = copies(axes, x.dtype, 0, sum(b * t for b, t in zip(before, wide, strict=True)))
    clear = copies([Axis(y.size, 1, 1)], x.dtype, 0, 0, filled=True)
    return Tasks(lambda i, o: [clear(o[0], o[0]), put(i[0], o[0])])


channels_last("native", "follows", "reorder", "concat", "pad")
