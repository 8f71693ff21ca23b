"""Matrix products with a matrix that no run changes (a dense layer over many rows, in a prediction): it is brought into
panels [panel][depth][width] once, which are then read in the order in which they lie.

A piece of work is a block of rows and some panels. A panel meets all tiles of its rows over the whole depth; what it
sums stays in registers, so that nothing waits in scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.arranged import Parts, arranged_once
from prototorch.backends.cpu.native.call import code
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue, bare, epilogue_of
from prototorch.backends.cpu.native.kernels.geometry import Panels, panels_for
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows
from prototorch.backends.cpu.native.kernels.window import crowded
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_FEW = 32  # rows that are done as well without panels
_NEAR = 1 << 16  # elements of a piece's rows, which are read once for each panel
_FEWEST = 16  # pieces of work
_SERIAL = 1 << 16  # multiplications below which one piece is enough

Specs = tuple[Spec, ...]


class Group(NamedTuple):
    """Neighbouring panels of one width: how many vectors, how many panels, the first panel and its column."""

    vectors: int
    times: int
    panel: int
    column: int


class Dense(NamedTuple):
    """[m, depth] times [depth, n] (``turned``: that lies as [n, depth]), in pieces of ``rows`` rows and ``panels``."""

    m: int
    n: int
    depth: int
    turned: bool
    cut: Panels
    rows: int
    panels: int

    @property
    def size(self) -> int:
        """Elements of the panels."""
        return self.cut.width * self.depth

    @property
    def across(self) -> int:
        """Parts of the panels."""
        return -(-len(self.cut.vectors) // self.panels)

    @property
    def items(self) -> int:
        """Pieces of work."""
        return -(-self.m // self.rows) * self.across

    def groups(self) -> Iterator[Group]:
        """The panels, those of one width together."""
        panel = column = 0
        for vectors in dict.fromkeys(self.cut.vectors):
            times = self.cut.vectors.count(vectors)
            yield Group(vectors, times, panel, column)
            panel, column = panel + times, column + times * vectors * self.cut.lanes


def dense_of(ins: Specs, outs: Specs, where: tuple[int, int], attrs: dict[str, Any]) -> Dense | None:
    """The product that the specs say; None where it is none of many rows with one plain float32 matrix."""
    a, b = (ins[i] for i in where)
    if attrs.get("transpose_a", False) or b.ndim != 2 or a.ndim < 2 or where[0] == where[1]:
        return None
    if not all(s.dtype == "float32" and s.layout is None for s in (a, b, outs[0])):
        return None
    m, n, depth = prod(a.shape[:-1]), outs[0].shape[-1], a.shape[-1]
    if m < _FEW:
        return None
    panels = panels_for(n, m)
    if crowded(4 * depth, most_rows(panels.vectors[0])):  # then fewer rows at once
        panels = panels._replace(vectors=tuple(sorted(cut(-(-n // panels.lanes), 4), reverse=True)))
    count, high = len(panels.vectors), most_rows(panels.vectors[0])
    rows = min(max(_NEAR // depth, 4 * high), m)
    if m * n * depth > _SERIAL:
        down = -(-m // rows)
        if down * count < _FEWEST:  # then blocks of fewer rows
            down = min(-(-_FEWEST // count), -(-m // high))
        rows = -(-m // down)
        across = min(-(-_FEWEST // -(-m // rows)), count)
    else:
        rows, across = m, 1
    return Dense(m, n, depth, attrs.get("transpose_b", False), panels, rows, -(-count // across))


def pack(k: Kernel, d: Dense) -> None:
    """The matrix (argument 0) into panels (argument 1); items are panels."""
    b, lanes = k.pointer(0), d.cut.lanes
    deep, along = (1, d.depth) if d.turned else (d.n, 1)
    for group in d.groups():
        width = group.vectors * lanes
        with k.range(k.first.maximum(group.panel), k.last.minimum(group.panel + group.times)) as item:
            column = (item - group.panel) * width + group.column
            to = k.pointer(1) + column * d.depth
            real = (column + width).minimum(d.n) - column
            with k.range(d.depth) as i:
                with k.range(real) as o:
                    to.store(b.load(i * deep + (column + o) * along), i * width + o)
                with k.range(real, width) as o:
                    to.store(k.zero(), i * width + o)


class _Emit:
    """The code of one product; ``w`` is the input with the panels."""

    def __init__(self, k: Kernel, d: Dense, epilogue: Epilogue, a: int, w: int):
        self.k, self.d, self.epilogue = k, d, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t) for i, t in enumerate(epilogue.results)]
        self.a, self.w = self.inputs[a], self.inputs[w]
        with k.range(k.first, k.last) as item:
            down, part = item // d.across, item % d.across
            first, last = part * d.panels, (part + 1) * d.panels
            blocks = [(d.rows, 0, d.m // d.rows), (d.m % d.rows, d.m // d.rows, 1)]
            for rows, before, times in (one for one in blocks if one[0] * one[2]):
                with k.when((down >= before) & (down < before + times)):
                    for group in d.groups():
                        with k.range(first.maximum(group.panel), last.minimum(group.panel + group.times)) as panel:
                            self.panel(down * d.rows, rows, group, (panel - group.panel))

    def panel(self, r0: Int, rows: int, group: Group, number: Int) -> None:
        """A panel of a group and the rows from r0 on."""
        k, d = self.k, self.d
        lanes = d.cut.lanes
        column = number * (group.vectors * lanes) + group.column
        edge = group.column + group.times * group.vectors * lanes > d.n
        sizes = cut(rows, most_rows(group.vectors))
        done = 0
        for size in dict.fromkeys(sizes):
            times = sizes.count(size)
            with k.range(times) as t:
                self.tile(r0 + (t * size + done), Tile(size, group.vectors, lanes), column, edge)
            done += size * times

    def tile(self, row: Int, tile: Tile, column: Int, edge: bool) -> None:
        """The sums of a tile, and what follows; at the ``edge`` some of its last columns may not be there."""
        k, d = self.k, self.d
        made = accumulate(k, tile, self.a + row * d.depth, d.depth, self.w + column * d.depth,
                          [Loop(d.depth, 1, tile.width)])  # fmt: skip

        def store(mask: Num | None) -> None:
            for r in range(tile.rows):
                for v in range(tile.vectors):
                    c = column + v * tile.lanes
                    self.epilogue.store(k, self.inputs, self.outputs, made[r][v], (row + r) * d.n + c, c,
                                        mask if v == tile.vectors - 1 else None)  # fmt: skip

        if not edge:
            store(None)
            return
        with k.b.if_else((column + tile.width <= d.n).v) as (then, otherwise):
            with then:
                store(None)
            with otherwise:
                store(k.mask(d.n % tile.lanes, tile.lanes))


def product(k: Kernel, d: Dense, epilogue: Epilogue, a: int, w: int) -> None:
    """The code of the product; items are pieces."""
    _Emit(k, d, epilogue, a, w)


def _parts(ins: Specs, outs: Specs, epilogue: Epilogue, where: tuple[int, int], attrs: dict[str, Any]) -> Parts | None:
    d = dense_of(ins, outs, where, attrs)
    if d is None:
        return None
    packing, work = code(pack, d), code(product, d, epilogue, *where)
    panels = len(d.cut.vectors)
    return Parts(where[1], d.size, lambda i, o: [Task(packing.address, (i[0], o[0]), panels)],
                 lambda i, o: [Task(work.address, (*i, *o), d.items)], "dense",
                 (d.n, d.depth, d.turned, d.cut))  # fmt: skip


@arranged_once("matmul")
def matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Parts | None:
    """A product alone."""
    return _parts(ins, outs, bare(2), (0, 1), attrs)


@arranged_once("fused")
def fused_matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Parts | None:
    """A product and what follows it."""
    name, refs, own = attrs["program"][0]
    if name != "matmul" or any(ref[0] != "in" for ref in refs):
        return None
    return _parts(ins, outs, epilogue_of(ins, outs, attrs, -1), (refs[0][1], refs[1][1]), dict(own))
