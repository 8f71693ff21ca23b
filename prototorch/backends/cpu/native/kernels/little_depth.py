"""Products of little depth whose result is large, as the gradient of a dense layer's weights in a small batch, and the
update of the weights with it: what counts is the memory that the result, and what it is combined with, lies in.

The result is written row by row, a few rows at a time; the second matrix, or some of its columns, stays in a cache
meanwhile. What the epilogue reads beside is asked for some rows before it is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.backends.cpu.native.call import Tasks, code
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.epilogue import FULL, Epilogue
from prototorch.backends.cpu.native.kernels.memory import copy
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate
from prototorch.backends.cpu.native.machine import lanes_of, registers
from prototorch.backends.cpu.native.team import Task

MOST = 128  # of the depth
LARGE = 1 << 18  # elements of a result that does not stay in a cache
_NEAR = 1 << 16  # elements of the second matrix that do
_DOWN = 16  # rows of a piece
_HEIGHT = 4  # rows that are written side by side: a divisor of _DOWN
_VECTORS = 6  # at most, of each


class Little(NamedTuple):
    """The transpose of [depth, m] times [depth, n]."""

    m: int
    n: int
    depth: int

    @property
    def vectors(self) -> int:
        """Vectors of a tile."""
        return min((registers() - 4) // _HEIGHT, _VECTORS, -(-self.n // lanes_of("float32")))

    @property
    def columns(self) -> int:
        """Columns of a piece: whole tiles."""
        width = self.vectors * lanes_of("float32")
        return max(min(_NEAR // self.depth, -(-self.n // width) * width) // width, 1) * width


def product(m: int, n: int, depth: int, epilogue: Epilogue, where: tuple[int, int]) -> Tasks:
    """The tasks for the transpose of [depth, m] times [depth, n]."""
    p = Little(m, n, depth)
    made = code(_products, p, epilogue, where)
    items = -(-m // _DOWN) * -(-n // p.columns)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, 1, 4 * _DOWN * depth)])


def _products(k: Kernel, p: Little, epilogue: Epilogue, where: tuple[int, int]) -> None:
    """Items are pieces of rows, and in them pieces of columns."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.results)]
    beside = [pointer for pointer, kind in zip(inputs, epilogue.kinds, strict=True) if kind == FULL]
    a, b = inputs[where[0]], inputs[where[1]]
    lanes = k.lanes
    width = p.vectors * lanes
    down = -(-p.m // _DOWN)
    with k.range(k.first, k.last) as item:
        r0, c0 = (item % down) * _DOWN, (item // down) * p.columns
        count = (p.m - r0).minimum(_DOWN)
        with k.range(p.depth) as d:
            copy(k, a + (d * p.m + r0), k.local + d * _DOWN, count)
        ends = (c0 + p.columns).minimum(p.n)
        whole = p.n - p.n % width

        def rows(r: Int, height: int, r0: Int = r0, c0: Int = c0, ends: Int = ends) -> None:
            def panel(c: Any, vectors: int, mask: Num | None) -> None:
                corner = (r0 + r) * p.n + c
                for i in range(height):
                    for v in range(0, vectors * lanes, 16):
                        for pointer in beside:
                            pointer.prefetch(corner + ((i + height) * p.n + v), 2)
                made = accumulate(k, Tile(height, vectors, lanes), k.local + r, 1, b + c,
                                  [Loop(p.depth, _DOWN, p.n)], None, mask)  # fmt: skip
                for i, row in enumerate(made):
                    for v, one in enumerate(row):
                        edge = mask if v == vectors - 1 else None
                        epilogue.store(k, inputs, outputs, one, corner + (i * p.n + v * lanes), c + v * lanes, edge)

            with k.range(c0, ends.minimum(whole), width) as c:
                panel(c, p.vectors, None)
            if rest := p.n - whole:
                mask = k.mask(rest % lanes, lanes) if rest % lanes else None
                with k.when(ends.equals(p.n)):
                    panel(Int(k, k.word(whole)), -(-rest // lanes), mask)

        even = count - count % _HEIGHT
        with k.range(0, even, _HEIGHT) as r:
            rows(r, _HEIGHT)
        if p.m % _HEIGHT:
            with k.range(even, count) as r:
                rows(r, 1)
