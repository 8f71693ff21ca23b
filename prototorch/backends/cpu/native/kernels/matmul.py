"""Matrix products, with whatever follows them elementwise done on the sums in registers.

A piece of work is a block of rows and columns of the result. It goes through the depth in blocks, so that what it reads
of a and b stays in cache; sums wait in scratch memory between the blocks. b is read where it lies; only where it is
transposed, blocks of it are turned first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.core import fusable
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer, Unsupported
from prototorch.backends.cpu.native.kernels import few_rows, little_depth
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue, bare, epilogue_of
from prototorch.backends.cpu.native.kernels.matvec import matvec
from prototorch.backends.cpu.native.kernels.memory import clear, copy
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows, transposed
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_DEPTH = 256  # at most, of a block
_ROWS = 128  # about, of a piece
_SCRATCH = 1 << 15  # elements of a piece's sums
_NEAR = 1 << 16  # elements of b's columns that stay near
_LARGE = 1 << 18  # elements of a b that does not come from cache
_FEWEST = 16  # pieces of a product that is worth several threads
_SERIAL = 1 << 16  # multiplications below which one thread is enough


class Product(NamedTuple):
    """``batch`` products of [m, depth] and [depth, n]; a moves by ``am`` to the next row and ``ak`` along the depth.

    The rows are cut into tiles of one or two heights; a piece has ``tiles`` of one height and ``columns`` columns.
    """

    batch: int
    m: int
    n: int
    depth: int
    am: int
    ak: int
    turned: bool  # b is [n, depth]
    a_step: int  # elements to the next matrix of a batch; 0: the same one
    b_step: int
    heights: tuple[tuple[int, int], ...]  # (rows of a tile, how many of them), from the top
    tiles: int
    columns: int
    block: int  # of the depth
    vectors: int  # of a tile

    @property
    def row_pieces(self) -> list[int]:
        """For each height, the pieces it gives."""
        return [-(-times // self.tiles) for _, times in self.heights]

    @property
    def column_pieces(self) -> int:
        """Pieces of columns."""
        return -(-self.n // self.columns)

    @property
    def copied(self) -> bool:
        """Whether blocks of a are copied: rows that lie multiples of a kilobyte apart crowd each other out of the
        cache."""
        return self.ak == 1 and self.block < self.depth and self.am % 256 == 0

    @property
    def line(self) -> int:
        """Elements from row to row of a copied block."""
        return self.block + 16

    @property
    def copies(self) -> int:
        """Elements of a copied block."""
        return self.tiles * self.heights[0][0] * self.line if self.copied else 0

    @property
    def swept(self) -> bool:
        """Whether a tile's rows are finished before the next ones': the result, which is then most of what is written,
        is written in the order in which it lies. b's columns of a piece stay near meanwhile."""
        return self.block == self.depth and not self.turned

    @property
    def sums(self) -> int:
        """Elements of the sums a piece keeps in scratch memory."""
        return 0 if self.block == self.depth else self.tiles * self.heights[0][0] * self.columns


def product_of(a: Spec, b: Spec, out: Spec, transpose_a: bool, transpose_b: bool) -> Product:
    """The product two specs say. Raises Unsupported where it is not one of float32 matrices."""
    if not all(s.dtype == "float32" and s.layout is None for s in (a, b, out)):
        raise Unsupported("other than plain float32 matrices")
    m, n = out.shape[-2:]
    depth = a.shape[-2 if transpose_a else -1]
    batch, a_batch, b_batch = prod(out.shape[:-2]), prod(a.shape[:-2]), prod(b.shape[:-2])
    if b_batch == 1 and not transpose_a:  # one matrix for all rows
        m, batch, a_batch = m * batch, 1, 1
    elif a_batch not in (1, batch) or b_batch not in (1, batch):
        raise Unsupported("broadcast batches")
    am, ak = (1, m) if transpose_a else (depth, 1)
    lanes = lanes_of("float32")
    # few rows: wide tiles, which read long runs of each row of b
    widest = 2 if m > 8 else 4 if m > 4 else 6
    vectors = min(widest, -(-n // lanes))
    width = vectors * lanes
    parts = cut(m, most_rows(vectors))
    heights = tuple((size, parts.count(size)) for size in sorted(set(parts), reverse=True))
    work = batch * m * n * depth
    tiles = min(max(_ROWS // heights[0][0], 1), len(parts))
    columns = -(-n // width) * width
    if work > _SERIAL:
        down = batch * sum(-(-times // tiles) for _, times in heights)
        wanted = max(_FEWEST // down, 1)
        columns = min(columns, -(-n // (wanted * width)) * width)
    block = cut(depth, _DEPTH)[0]
    most = _SCRATCH // (tiles * heights[0][0]) if block < depth or transpose_b else _NEAR // depth
    columns = max(min(columns, most // width * width), width)
    a_step, b_step = (0 if count == 1 else size * depth for count, size in ((a_batch, m), (b_batch, n)))
    return Product(batch, m, n, depth, am, ak, transpose_b, a_step, b_step, heights, tiles, columns, block, vectors)


class _Emit:
    """The code of one product."""

    def __init__(self, k: Kernel, p: Product, epilogue: Epilogue, where: tuple[int, int]):
        self.k, self.p, self.epilogue = k, p, epilogue
        self.inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, d) for i, d in enumerate(epilogue.results)]
        self.width = p.vectors * k.lanes
        self.turned = k.local + p.sums
        self.copy = self.turned + p.block * self.width
        with k.range(k.first, k.last) as item:
            down, across = sum(p.row_pieces), p.column_pieces
            matrix, rest = item // (down * across), item % (down * across)
            row, self.c0 = rest // across, (rest % across) * p.columns
            self.ends = (self.c0 + p.columns).minimum(p.n)
            self.a = self.inputs[where[0]] + matrix * p.a_step
            self.b = self.inputs[where[1]] + matrix * p.b_step
            self.base = matrix * (p.m * p.n)
            above = before = 0
            for (height, times), pieces in zip(p.heights, p.row_pieces, strict=True):
                with k.when((row >= before) & (row < before + pieces)):
                    first = (row - before) * p.tiles
                    many = (first + p.tiles).minimum(times) - first
                    self.piece(height, first * height + above, many)
                above += height * times
                before += pieces

    def piece(self, height: int, r0: Int, tiles: Int) -> None:
        """``tiles`` tiles of rows from r0, and the columns from c0."""
        k, p = self.k, self.p
        if p.swept:
            with k.range(tiles) as t:
                row = r0 + t * height
                self.panels(lambda c, vectors, mask: self.tiles(height, row, 1, 0, p.depth, c, vectors, mask, True))
            return
        if p.block == p.depth:
            self.panels(lambda c, vectors, mask: self.tiles(height, r0, tiles, 0, p.depth, c, vectors, mask, True))
            return
        with k.range(tiles * height) as r:
            clear(k, k.local + r * p.columns, p.columns)
        with k.range(0, p.depth, p.block) as kb:
            deep: Any = p.block if p.depth % p.block == 0 else (kb + p.block).minimum(p.depth) - kb
            if p.copied:
                with k.range(tiles * height) as r:
                    source, to = self.a + ((r0 + r) * p.am + kb), self.copy + r * p.line
                    copy(k, source, to, deep)
            self.panels(lambda c, vectors, mask: self.tiles(height, r0, tiles, kb, deep, c, vectors, mask, False))
        count = self.ends - self.c0
        with k.range(tiles * height) as r:

            def last(i: Int, mask: Num | None) -> None:
                made = k.local.load(r * p.columns + i, k.lanes)
                column = self.c0 + i
                at = self.base + (r0 + r) * p.n + column
                self.epilogue.store(k, self.inputs, self.outputs, made, at, column, mask)

            k.vectors(count, last)

    def panels(self, work: Callable[[Int, int, Num | None], None]) -> None:
        """``work(first column, vectors, mask of the last)`` for each panel of the piece."""
        k, p = self.k, self.p
        whole = p.n - p.n % self.width
        with k.range(self.c0, self.ends.minimum(whole), self.width) as c:
            work(c, p.vectors, None)
        rest = p.n - whole
        if rest:
            vectors = -(-rest // k.lanes)
            mask = k.mask(rest - (vectors - 1) * k.lanes, k.lanes) if rest % k.lanes else None
            with k.when(self.ends.equals(p.n)):
                work(Int(k, k.word(whole)), vectors, mask)

    def tiles(self, height: int, r0: Int, tiles: Any, kb: Any, deep: Any, c: Int, vectors: int, mask: Num | None,
              whole: bool) -> None:  # fmt: skip
        """One panel: a block of the depth for all tiles of rows; ``whole``: it is all of the depth."""
        k, p = self.k, self.p
        tile = Tile(height, vectors, k.lanes)
        x = self.a + kb * p.ak
        if p.turned:
            _turn(k, p, self.b, kb, deep, c, vectors, mask is not None, self.turned)
            w, step, edge, ahead = self.turned, tile.width, None, 0
        else:
            w, step, edge = self.b + (kb * p.n + c), p.n, mask
            ahead = 4 * self.width if p.n * p.depth > _LARGE and not p.swept else 0
        with k.range(tiles) as t:
            row = t * height
            there = k.local + (row * p.columns + (c - self.c0))
            places = [(r, v) for r in range(height) for v in range(vectors)]
            start = None
            if not whole:
                start = [
                    [there.load(r * p.columns + v * k.lanes, k.lanes) for v in range(vectors)] for r in range(height)
                ]
            rows, apart = (self.copy + row * p.line, p.line) if p.copied else (x + (r0 + row) * p.am, p.am)
            made = accumulate(k, tile, rows, apart, w, [Loop(deep, p.ak, step)], start, edge, ahead)
            for r, v in places:
                if whole:
                    column = c + v * k.lanes
                    at = self.base + (r0 + row + r) * p.n + column
                    self.epilogue.store(k, self.inputs, self.outputs, made[r][v], at, column,
                                        mask if v == vectors - 1 else None)  # fmt: skip
                else:
                    there.store(made[r][v], r * p.columns + v * k.lanes)


def _turn(k: Kernel, p: Product, b: Pointer, kb: Any, depth: Any, c: Int, vectors: int, edge: bool,
          to: Pointer) -> None:  # fmt: skip
    """Columns c ... of b [n, depth] as rows of a panel [depth][vectors * lanes]; those beyond n (at the edge) are 0."""
    lanes = k.lanes
    width = vectors * lanes
    for v in range(vectors):
        base = b + ((c + v * lanes) * p.depth + kb)

        def square(i: Any, mask: Num | None, v: int = v, base: Pointer = base) -> None:
            rows = []
            for r in range(lanes):
                here = mask
                if edge and v == vectors - 1:
                    inside = (c + (v * lanes + r) < p.n).splat(lanes)
                    here = inside if mask is None else mask & inside
                rows.append(base.load(i + r * p.depth, lanes, here))
            for r, row in enumerate(transposed(k, rows)):
                if mask is None:
                    to.store(row, (i + r) * width + v * lanes)
                else:
                    with k.when(i + r < depth):
                        to.store(row, (i + r) * width + v * lanes)

        k.vectors(depth, square, lanes)


def _product(k: Kernel, p: Product, epilogue: Epilogue, where: tuple[int, int]) -> None:
    _Emit(k, p, epilogue, where)


def _tasks(p: Product, epilogue: Epilogue, where: tuple[int, int]) -> Tasks:
    if p.m == p.batch == 1 and not p.turned and p.ak == 1:
        return matvec(p.depth, p.n, epilogue, where)
    if p.batch == 1 and p.ak == 1 and p.m <= few_rows.MOST:
        if p.turned and p.n * p.depth >= few_rows.LARGE_TURNED:
            return few_rows.turned_product(p.m, p.n, p.depth, epilogue, where)
        if not p.turned and p.n * p.depth >= few_rows.LARGE:
            return few_rows.product(p.m, p.n, p.depth, epilogue, where)
    if p.batch == p.am == 1 and not p.turned and p.depth <= little_depth.MOST and p.m * p.n >= little_depth.LARGE:
        return little_depth.product(p.m, p.n, p.depth, epilogue, where)
    made = code(_product, p, epilogue, where)
    items = p.batch * sum(p.row_pieces) * p.column_pieces
    grain = items if p.batch * p.m * p.n * p.depth <= _SERIAL else 1
    local = 4 * (p.sums + p.block * p.vectors * lanes_of("float32") + p.copies)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain, local)])


fusable("native", "anchor", "matmul")


@native("matmul")
def matmul(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """A product alone."""
    return _prepared(ins, outs, bare(2), (0, 1), attrs)


@native("fused")
def fused_matmul(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """A product and what follows it."""
    name, refs, own = attrs["program"][0]
    if name != "matmul" or any(ref[0] != "in" for ref in refs):
        return None
    where = (refs[0][1], refs[1][1])
    return _prepared(ins, outs, epilogue_of(ins, outs, attrs, -1), where, dict(own))


def _prepared(ins: tuple[Spec, ...], outs: tuple[Spec, ...], epilogue: Epilogue, where: tuple[int, int],
              attrs: dict[str, Any]) -> Tasks | None:  # fmt: skip
    transpose_a, transpose_b = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
    p = product_of(ins[where[0]], ins[where[1]], outs[0], transpose_a, transpose_b)
    return _tasks(p, epilogue, where)
