"""Products of few rows with a large matrix, as of a dense layer in a small batch: the matrix comes from memory, once,
and what counts is that it comes without waiting.

[m, depth] times [depth, n]: a piece has some columns and a part of the depth. It goes through blocks of the matrix that
fit in a cache; while it computes one panel of a block, it asks for one whole row of the next block, so that memory is
read in long runs. Sums wait in scratch memory, panel by panel; a second task adds up the parts of the depth.

Where the matrix is [n, depth], its rows are the rows of the tile, and the few rows, turned, are what is read as
vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.backends.cpu.native.call import Tasks, code
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue
from prototorch.backends.cpu.native.kernels.memory import clear, copy
from prototorch.backends.cpu.native.kernels.products import turned
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows, transposed
from prototorch.backends.cpu.native.machine import lanes_of, registers
from prototorch.backends.cpu.native.team import Task

MOST = 64  # rows
LARGE = 1 << 20  # elements of a matrix that does not come from a near cache
LARGE_TURNED = 1 << 18  # and of one that is turned
_RUN = 1024
_PIECES = 16  # at least, of a product
_GROUP = 4  # steps of the depth between two requests
_CHUNK = 256  # of the depth of a turned matrix: the few rows' part of it stays in the nearest cache
_HEIGHT = 6  # of a tile of a turned matrix' rows: rows that lie a power of two apart share 8 places in the cache
_DOWN = 48  # rows of a turned matrix in a piece: whole tiles, whole vectors
_LINE = 16  # elements of a cache line


class Few(NamedTuple):
    """A product of few rows. ``deep`` steps of the depth by ``panels`` panels of ``vectors`` are a block."""

    m: int
    n: int
    depth: int
    vectors: int
    deep: int
    panels: int
    part: int  # of the depth, in a piece

    @property
    def columns(self) -> int:
        """Columns of a piece."""
        return self.panels * self.vectors * lanes_of("float32")

    @property
    def across(self) -> int:
        """Pieces of columns."""
        return -(-self.n // self.columns)

    @property
    def parts(self) -> int:
        """Parts of the depth."""
        return -(-self.depth // self.part)

    @property
    def sums(self) -> int:
        """Elements of a piece's sums."""
        return self.m * self.columns


def few_of(m: int, n: int, depth: int) -> Few:
    """How a product is divided."""
    lanes = lanes_of("float32")
    vectors = 1 if m > 8 else 2 if m > 4 else 4
    width = vectors * lanes
    deep = max(_RUN // width, _GROUP)
    panels = -(-n // width)
    panels = -(-panels // -(-panels // deep))
    across = -(-n // (panels * width))
    blocks = -(-depth // deep)
    parts = min(max(_PIECES // across, 1), blocks)
    return Few(m, n, depth, vectors, deep, panels, -(-blocks // parts) * deep)


def product(m: int, n: int, depth: int, epilogue: Epilogue, where: tuple[int, int]) -> Tasks:
    """The tasks for [m, depth] times [depth, n]."""
    p = few_of(m, n, depth)
    products, sums = code(_products, p, where), code(_sums, p, epilogue)
    local = 4 * p.m * (p.deep + 16)
    shared = 4 * p.parts * p.across * p.sums
    return Tasks(lambda i, o: [
        Task(products.address, (*i, *o), p.parts * p.across, 1, local, shared),
        Task(sums.address, (*i, *o), m, 1, 0, shared),
    ])  # fmt: skip


def _products(k: Kernel, p: Few, where: tuple[int, int]) -> None:
    """The sums of a part of the depth; items are parts, and in them pieces of columns."""
    a, b = k.pointer(where[0]), k.pointer(where[1])
    lanes, line = k.lanes, p.deep + 16
    width = p.vectors * lanes
    edge = p.n % lanes
    with k.range(k.first, k.last) as item:
        sums = k.shared.as_type("float32") + item * p.sums
        part, c0 = item // p.across, (item % p.across) * p.columns
        first = part * p.part
        last = (first + p.part).minimum(p.depth)
        clear(k, sums, p.sums)

        def block(kb: Any, deep: int, c0: Int = c0, sums: Pointer = sums) -> None:
            with k.range(p.m) as r:
                copy(k, a + (r * p.depth + kb), k.local + r * line, deep)
            corner = b + (kb * p.n + c0)

            def panel(at: Int, vectors: int, mask: Num | None) -> None:
                following = corner + (at + p.deep) * p.n

                def ask(i: Int) -> None:
                    for v in range(0, _GROUP * width, _LINE):
                        following.prefetch(i * (_GROUP * width) + v, 2)

                above = 0
                for height in cut(p.m, most_rows(p.vectors)):
                    there = sums + (at * p.m + above) * width
                    start = [[there.load(r * width + v * lanes, lanes) for v in range(vectors)] for r in range(height)]
                    depth = [Loop(deep // _GROUP, _GROUP, _GROUP * p.n), Loop(_GROUP, 1, p.n)]
                    if deep % _GROUP:
                        depth = [Loop(deep, 1, p.n)]
                    x, w = k.local + above * line, corner + at * width
                    made = accumulate(k, Tile(height, vectors, lanes), x, line, w, depth, start, mask,
                                      beside=None if above else ask)  # fmt: skip
                    for r, row in enumerate(made):
                        for v, one in enumerate(row):
                            there.store(one, r * width + v * lanes)
                    above += height

            whole = ((p.n - c0) // width).minimum(p.panels)
            with k.range(whole) as at:
                panel(at, p.vectors, None)
            if rest := p.n % width:
                with k.when((whole < p.panels) & (c0 + whole * width < p.n)):
                    panel(whole, -(-rest // lanes), k.mask(edge, lanes) if edge else None)

        full = last - (last - first) % p.deep
        with k.range(first, full, p.deep) as kb:
            block(kb, p.deep)
        if p.depth % p.deep:
            with k.when(full < last):
                block(full, p.depth % p.deep)


def _sums(k: Kernel, p: Few, epilogue: Epilogue) -> None:
    """The parts of the depth added up, and what follows; items are rows."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.results)]
    sums = k.shared.as_type("float32")
    width = p.vectors * k.lanes
    with k.range(k.first, k.last) as row:

        def body(i: Int, mask: Num | None, row: Int = row) -> None:
            piece, column = i // p.columns, i % p.columns
            at = piece * p.sums + ((column // width) * p.m + row) * width + column % width
            total = sums.load(at, k.lanes, mask)
            for part in range(1, p.parts):
                total = total + sums.load(at + part * (p.across * p.sums), k.lanes, mask)
            epilogue.store(k, inputs, outputs, total, row * p.n + i, i, mask)

        k.vectors(p.n, body)


class Turned(NamedTuple):
    """A product of few rows with a matrix [n, depth]."""

    m: int
    n: int
    depth: int

    @property
    def width(self) -> int:
        """The few rows, with room for whole vectors."""
        lanes = lanes_of("float32")
        return -(-self.m // lanes) * lanes


def turned_product(m: int, n: int, depth: int, epilogue: Epilogue, where: tuple[int, int]) -> Tasks:
    """The tasks for [m, depth] times the transpose of [n, depth]."""
    p = Turned(m, n, depth)
    turn, products = code(_turn, p, where[0]), code(_turned_products, p, epilogue, where)
    shared = 4 * depth * p.width
    return Tasks(lambda i, o: [
        Task(turn.address, (*i, *o), -(-depth // _CHUNK), 1, 0, shared),
        Task(products.address, (*i, *o), -(-n // _DOWN), 1, 4 * (_DOWN + _HEIGHT) * p.width, shared),
    ])  # fmt: skip


def _turn(k: Kernel, p: Turned, where: int) -> None:
    """The few rows as columns; items are chunks of the depth."""
    a, to = k.pointer(where), k.shared.as_type("float32")
    with k.range(k.first, k.last) as chunk:
        at = chunk * _CHUNK
        with k.when(at + _CHUNK <= p.depth):
            turned(k, a + at, p.m, _CHUNK, p.depth, to + at * p.width, p.width)
        if rest := p.depth % _CHUNK:
            with k.when(at + _CHUNK > p.depth):
                turned(k, a + at, p.m, rest, p.depth, to + at * p.width, p.width)


def _turned_products(k: Kernel, p: Turned, epilogue: Epilogue, where: tuple[int, int]) -> None:
    """Items are pieces of the matrix' rows."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.results)]
    b, few = inputs[where[1]], k.shared.as_type("float32")
    lanes = k.lanes
    vectors, most = p.width // lanes, (registers() - 4) // (_HEIGHT + 1)
    with k.range(k.first, k.last) as item:
        r0 = item * _DOWN
        count = (p.n - r0).minimum(_DOWN)
        clear(k, k.local, _DOWN * p.width)

        def rows(r: Int, height: int, at: Any, deep: int, r0: Int = r0) -> None:
            """``height`` rows from r on, and ``deep`` numbers of each from ``at`` on."""
            x = b + ((r0 + r) * p.depth + at)

            def ask(i: Int) -> None:
                for row in range(height):
                    x.prefetch(i * _LINE + (row * p.depth + _CHUNK), 2)

            for v0 in range(0, vectors, most):
                there, w = k.local + (r * p.width + v0 * lanes), few + (at * p.width + v0 * lanes)
                tile = Tile(height, min(most, vectors - v0), lanes)
                start = [
                    [there.load(i * p.width + v * lanes, lanes) for v in range(tile.vectors)] for i in range(height)
                ]
                depth = [Loop(deep, 1, p.width)]
                if deep % _LINE == 0:
                    depth = [Loop(deep // _LINE, _LINE, _LINE * p.width), Loop(_LINE, 1, p.width)]
                made = accumulate(k, tile, x, p.depth, w, depth, start, beside=None if v0 else ask)
                for i, row in enumerate(made):
                    for v, one in enumerate(row):
                        there.store(one, i * p.width + v * lanes)

        def chunk(at: Any, deep: int, count: Int = count) -> None:
            whole = count - count % _HEIGHT
            with k.range(0, whole, _HEIGHT) as r:
                rows(r, _HEIGHT, at, deep)
            if p.n % _DOWN % _HEIGHT:
                with k.range(whole, count) as r:
                    rows(r, 1, at, deep)

        whole = p.depth - p.depth % _CHUNK
        with k.range(0, whole, _CHUNK) as at:
            chunk(at, _CHUNK)
        if p.depth % _CHUNK:
            chunk(whole, p.depth % _CHUNK)

        def last(i: Int, mask: Num | None, r0: Int = r0) -> None:
            for v in range(vectors):
                square = [k.local.load((i + r) * p.width + v * lanes, lanes) for r in range(lanes)]
                for r, one in enumerate(transposed(k, square)[: p.m - v * lanes]):
                    column = r0 + i
                    epilogue.store(k, inputs, outputs, one, (v * lanes + r) * p.n + column, column, mask)

        k.vectors(count, last)
