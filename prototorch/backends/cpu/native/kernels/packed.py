"""Products of few rows and a matrix that no run changes: a prediction's dense layers.

The matrix is packed once, in panels as wide as a tile, [panel][depth][width], with zeros beyond its columns: a panel is
then read in its order and never masked. A piece of work is some panels for all rows; or, where the matrix is small, for
one half of the rows. Threads begin at both ends of the pieces, so that with two of them each then goes through all of a
small net's layers with rows of its own, which it finds in its caches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.backends.cpu.native.arranged import Parts, arranged_once
from prototorch.backends.cpu.native.call import code
from prototorch.backends.cpu.native.emit import Kernel
from prototorch.backends.cpu.native.kernels import few_rows
from prototorch.backends.cpu.native.kernels.epilogue import ANCHOR, Epilogue, bare, epilogue_of
from prototorch.backends.cpu.native.kernels.gates import unit_mask
from prototorch.backends.cpu.native.kernels.matmul import product_of
from prototorch.backends.cpu.native.kernels.products import turned
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_MOST_ROWS = 64  # more of them: see dense.py
_NEAR = 1 << 17  # numbers of a matrix that the threads read whole, each for a half of the rows
_HALF = 4  # rows that are worth it
_SERIAL = 6000  # cycles, roughly, of a product that is worth one thread only
_PIECE = 1500  # cycles, roughly, that a piece takes at least
_PIECES = 32  # at most
_READ = 2.2  # cycles in which a vector comes from the second cache
_LATENCY = 4  # cycles from a sum to the next


class Panels(NamedTuple):
    """[m, depth] by [depth, n] in panels of ``vectors`` vectors. The rows are cut into tiles of one or two heights,
    (rows, how many), from the top; ``tiles`` of them belong to a piece. ``turned``: the matrix is given as [n, depth].
    """

    m: int
    n: int
    depth: int
    vectors: int
    heights: tuple[tuple[int, int], ...]
    tiles: int
    turned: bool

    @property
    def panels(self) -> int:
        """How many there are."""
        return -(-self.n // (self.vectors * lanes_of("float32")))

    @property
    def groups(self) -> int:
        """How many parts of the rows."""
        return -(-sum(times for _, times in self.heights) // self.tiles)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * lanes_of("float32")

    @property
    def cycles(self) -> float:
        """About how long one thread takes."""
        each = sum(times * max(rows * self.vectors, _LATENCY) for rows, times in self.heights)
        return self.panels * self.depth * max(each, _READ * self.vectors)

    @property
    def grain(self) -> int:
        """Panels of a piece."""
        items = self.panels * self.groups
        if self.cycles < _SERIAL:
            return items
        return max(-(-items // _PIECES), round(_PIECE * items / self.cycles), 1)


def panels_of(m: int, n: int, depth: int, turned: bool) -> Panels:
    """The division with the least work."""
    made = []
    halved = m >= 2 * _HALF and n * depth <= _NEAR
    for vectors in range(1, min(4, -(-n // lanes_of("float32"))) + 1):
        most = most_rows(vectors)
        parts = cut(m, min(most, -(-m // 2)) if halved else most)
        heights = tuple((rows, parts.count(rows)) for rows in sorted(set(parts), reverse=True))
        made.append(Panels(m, n, depth, vectors, heights, -(-len(parts) // (1 + halved)), turned))
    return min(made, key=_cost)


def _cost(p: Panels) -> float:
    # a tile's loads: vectors of the panel, and one number a row, two at a time
    loads = sum(times * (p.vectors + rows / 2) for rows, times in p.heights) * p.panels * p.depth
    return p.cycles + 0.2 * loads


def _pack(k: Kernel, p: Panels) -> None:
    """Items are panels."""
    b, width, rest = k.pointer(0), p.width, p.n % p.width
    with k.range(k.first, k.last) as panel:
        to = k.pointer(1) + panel * (p.depth * width)
        if p.turned:
            here = b + panel * (width * p.depth)
            with k.when(panel < p.n // width):
                turned(k, here, width, p.depth, p.depth, to, width)
            if rest:
                with k.when(panel >= p.n // width):
                    with k.range(p.depth * p.vectors) as i:
                        to.store(k.zero(k.lanes), i * k.lanes)
                    turned(k, here, rest, p.depth, p.depth, to, width)
        else:
            with k.range(p.depth) as row:
                for v in range(p.vectors):
                    column = panel * width + v * k.lanes
                    held = b.load(row * p.n + column, k.lanes, unit_mask(k, column, p.n, p.vectors))
                    to.store(held, row * width + v * k.lanes)


def _work(k: Kernel, p: Panels, epilogue: Epilogue, where: tuple[int, int]) -> None:
    """Items are panels, for one part of the rows after the other."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.results)]
    with k.range(k.first, k.last) as item:
        group, panel = item // p.panels, item % p.panels if p.groups > 1 else item
        w, c0 = inputs[where[1]] + panel * (p.depth * p.width), panel * p.width

        def tile(row: Any, height: int) -> None:
            made = accumulate(k, Tile(height, p.vectors, k.lanes), inputs[where[0]] + row * p.depth, p.depth, w,
                              [Loop(p.depth, 1, p.width)])  # fmt: skip
            for v in range(p.vectors):
                column = c0 + v * k.lanes
                mask = unit_mask(k, column, p.n, p.vectors)
                for r in range(height):
                    epilogue.store(k, inputs, outputs, made[r][v], (row + r) * p.n + column, column, mask)

        above = before = 0
        for height, times in p.heights:
            if p.groups == 1:
                with k.range(times) as t:
                    tile(t * height + above, height)
            else:
                first = (group * p.tiles - before).maximum(0)
                with k.range(first, (group * p.tiles + p.tiles - before).minimum(times)) as t:
                    tile(t * height + above, height)
            above, before = above + height * times, before + times


def _parts(p: Panels, epilogue: Epilogue, where: tuple[int, int]) -> Parts:
    packing, work = code(_pack, p), code(_work, p, epilogue, where)
    return Parts(
        where[1],
        p.panels * p.width * p.depth,
        lambda i, o: [Task(packing.address, (*i, *o), p.panels, max((1 << 14) // (p.depth * p.width), 1))],
        lambda i, o: [Task(work.address, (*i, *o), p.panels * p.groups, p.grain)],
        "packed",
        (p.n, p.depth, p.turned, p.vectors),
    )


def _prepared(ins: tuple[Spec, ...], outs: tuple[Spec, ...], epilogue: Epilogue, where: tuple[int, int],
              attrs: dict[str, Any]) -> Parts | None:  # fmt: skip
    a, b = (ins[i] for i in where)
    if attrs.get("transpose_a") or where[0] == where[1] or b.ndim != 2 or epilogue.kinds[where[1]] != ANCHOR:
        return None
    found = product_of(a, b, outs[0], False, attrs.get("transpose_b", False))
    if found.batch != 1 or found.m > _MOST_ROWS or b.size >= few_rows.LARGE:
        return None
    return _parts(panels_of(found.m, found.n, found.depth, found.turned), epilogue, where)


@arranged_once("matmul", special=True)
def matmul_of_packed(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Parts | None:
    """A product alone."""
    return _prepared(ins, outs, bare(2), (0, 1), attrs)


@arranged_once("fused", special=True)
def fused_matmul_of_packed(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Parts | None:
    """A product and what follows it."""
    name, refs, own = attrs["program"][0]
    if name != "matmul" or any(ref[0] != "in" for ref in refs):
        return None
    return _prepared(ins, outs, epilogue_of(ins, outs, attrs, -1), (refs[0][1], refs[1][1]), dict(own))
