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

from prototorch.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code
from prototorch.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.backends.cpu.native.kernels.common.memory import clear, copy
from prototorch.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
    transpose_registers,
)
from prototorch.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.backends.cpu.native.thread_pool import ParallelTask

MAX_ROWS = 64  # rows
MIN_ELEMENTS = 1 << 20  # elements of a matrix that does not come from a near cache
MIN_ELEMENTS_TRANSPOSED = 1 << 18  # and of one that is turned
_BLOCK_ELEMENTS = 1024
_MIN_PIECES = 16  # at least, of a product
_PREFETCH_STEPS = 4  # steps of the depth between two requests
_DEPTH_CHUNK = 256  # of the depth of a turned matrix: the few rows' part of it stays in the nearest cache
_TILE_ROWS = 6  # of a tile of a turned matrix' rows: rows that lie a power of two apart share 8 places in the cache
_PIECE_ROWS = 48  # rows of a turned matrix in a piece: whole tiles, whole vectors
_CACHE_LINE = 16  # elements of a cache line


class SmallMGemm(NamedTuple):
    """A product of few rows. ``deep`` steps of the depth by ``panels`` panels of ``vectors`` are a block."""

    m: int
    n: int
    depth: int
    vectors: int
    block_depth: int
    block_panels: int
    piece_depth: int  # of the depth, in a piece

    @property
    def piece_columns(self) -> int:
        """Columns of a piece."""
        return self.block_panels * self.vectors * vector_lanes("float32")

    @property
    def column_pieces(self) -> int:
        """Pieces of columns."""
        return -(-self.n // self.piece_columns)

    @property
    def depth_pieces(self) -> int:
        """Parts of the depth."""
        return -(-self.depth // self.piece_depth)

    @property
    def sum_elements(self) -> int:
        """Elements of a piece's sums."""
        return self.m * self.piece_columns


def plan_small_m_gemm(m: int, n: int, depth: int) -> SmallMGemm:
    """How a product is divided."""
    lanes = vector_lanes("float32")
    vectors = 1 if m > 8 else 2 if m > 4 else 4
    width = vectors * lanes
    deep = max(_BLOCK_ELEMENTS // width, _PREFETCH_STEPS)
    panels = -(-n // width)
    panels = -(-panels // -(-panels // deep))
    across = -(-n // (panels * width))
    blocks = -(-depth // deep)
    parts = min(max(_MIN_PIECES // across, 1), blocks)
    return SmallMGemm(m, n, depth, vectors, deep, panels, -(-blocks // parts) * deep)


def small_m_gemm(m: int, n: int, depth: int, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    """The tasks for [m, depth] times [depth, n]."""
    p = plan_small_m_gemm(m, n, depth)
    products, sums = kernel_code(_multiply, p, where), kernel_code(_add_partial_sums, p, epilogue)
    local = 4 * p.m * (p.block_depth + 16)
    shared = 4 * p.depth_pieces * p.column_pieces * p.sum_elements
    return TaskList(lambda i, o: [
        ParallelTask(products.address, (*i, *o), p.depth_pieces * p.column_pieces, 1, local, shared),
        ParallelTask(sums.address, (*i, *o), m, 1, 0, shared),
    ])  # fmt: skip


def _multiply(k: KernelBuilder, p: SmallMGemm, where: tuple[int, int]) -> None:
    """The sums of a part of the depth; items are parts, and in them pieces of columns."""
    a, b = k.pointer(where[0]), k.pointer(where[1])
    lanes, line = k.lanes, p.block_depth + 16
    width = p.vectors * lanes
    edge = p.n % lanes
    with k.range(k.first, k.last) as item:
        sums = k.shared.as_type("float32") + item * p.sum_elements
        part, c0 = item // p.column_pieces, (item % p.column_pieces) * p.piece_columns
        first = part * p.piece_depth
        last = (first + p.piece_depth).minimum(p.depth)
        clear(k, sums, p.sum_elements)

        def block(kb: Any, deep: int, c0: Int64 = c0, sums: Pointer = sums) -> None:
            with k.range(p.m) as r:
                copy(k, a + (r * p.depth + kb), k.local + r * line, deep)
            corner = b + (kb * p.n + c0)

            def panel(at: Int64, vectors: int, mask: Num | None) -> None:
                following = corner + (at + p.block_depth) * p.n

                def ask(i: Int64) -> None:
                    for v in range(0, _PREFETCH_STEPS * width, _CACHE_LINE):
                        following.prefetch(i * (_PREFETCH_STEPS * width) + v, 2)

                above = 0
                for height in split_evenly(p.m, max_tile_rows(p.vectors)):
                    there = sums + (at * p.m + above) * width
                    start = [[there.load(r * width + v * lanes, lanes) for v in range(vectors)] for r in range(height)]
                    depth = [
                        DepthLoop(deep // _PREFETCH_STEPS, _PREFETCH_STEPS, _PREFETCH_STEPS * p.n),
                        DepthLoop(_PREFETCH_STEPS, 1, p.n),
                    ]
                    if deep % _PREFETCH_STEPS:
                        depth = [DepthLoop(deep, 1, p.n)]
                    x, w = k.local + above * line, corner + at * width
                    made = accumulate(k, RegisterTile(height, vectors, lanes), x, line, w, depth, start, mask,
                                      beside=None if above else ask)  # fmt: skip
                    for r, row in enumerate(made):
                        for v, one in enumerate(row):
                            there.store(one, r * width + v * lanes)
                    above += height

            whole = ((p.n - c0) // width).minimum(p.block_panels)
            with k.range(whole) as at:
                panel(at, p.vectors, None)
            if rest := p.n % width:
                with k.if_then((whole < p.block_panels) & (c0 + whole * width < p.n)):
                    panel(whole, -(-rest // lanes), k.mask(edge, lanes) if edge else None)

        full = last - (last - first) % p.block_depth
        with k.range(first, full, p.block_depth) as kb:
            block(kb, p.block_depth)
        if p.depth % p.block_depth:
            with k.if_then(full < last):
                block(full, p.depth % p.block_depth)


def _add_partial_sums(k: KernelBuilder, p: SmallMGemm, epilogue: FusedEpilogue) -> None:
    """The parts of the depth added up, and what follows; items are rows."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    sums = k.shared.as_type("float32")
    width = p.vectors * k.lanes
    with k.range(k.first, k.last) as row:

        def body(i: Int64, mask: Num | None, row: Int64 = row) -> None:
            piece, column = i // p.piece_columns, i % p.piece_columns
            at = piece * p.sum_elements + ((column // width) * p.m + row) * width + column % width
            total = sums.load(at, k.lanes, mask)
            for part in range(1, p.depth_pieces):
                total = total + sums.load(at + part * (p.column_pieces * p.sum_elements), k.lanes, mask)
            epilogue.store(k, inputs, outputs, total, row * p.n + i, i, mask)

        k.for_each_vector(p.n, body)


class SmallMGemmTransposed(NamedTuple):
    """A product of few rows with a matrix [n, depth]."""

    m: int
    n: int
    depth: int

    @property
    def width(self) -> int:
        """The few rows, with room for whole vectors."""
        lanes = vector_lanes("float32")
        return -(-self.m // lanes) * lanes


def small_m_gemm_transposed(m: int, n: int, depth: int, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    """The tasks for [m, depth] times the transpose of [n, depth]."""
    p = SmallMGemmTransposed(m, n, depth)
    turn, products = kernel_code(_transpose_rows, p, where[0]), kernel_code(_multiply_transposed, p, epilogue, where)
    shared = 4 * depth * p.width
    return TaskList(
        lambda i, o: [
            ParallelTask(turn.address, (*i, *o), -(-depth // _DEPTH_CHUNK), 1, 0, shared),
            ParallelTask(
                products.address, (*i, *o), -(-n // _PIECE_ROWS), 1, 4 * (_PIECE_ROWS + _TILE_ROWS) * p.width, shared
            ),
        ]
    )


def _transpose_rows(k: KernelBuilder, p: SmallMGemmTransposed, where: int) -> None:
    """The few rows as columns; items are chunks of the depth."""
    a, to = k.pointer(where), k.shared.as_type("float32")
    with k.range(k.first, k.last) as chunk:
        at = chunk * _DEPTH_CHUNK
        with k.if_then(at + _DEPTH_CHUNK <= p.depth):
            transpose_into(k, a + at, p.m, _DEPTH_CHUNK, p.depth, to + at * p.width, p.width)
        if rest := p.depth % _DEPTH_CHUNK:
            with k.if_then(at + _DEPTH_CHUNK > p.depth):
                transpose_into(k, a + at, p.m, rest, p.depth, to + at * p.width, p.width)


def _multiply_transposed(
    k: KernelBuilder, p: SmallMGemmTransposed, epilogue: FusedEpilogue, where: tuple[int, int]
) -> None:
    """Items are pieces of the matrix' rows."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    b, few = inputs[where[1]], k.shared.as_type("float32")
    lanes = k.lanes
    vectors, most = p.width // lanes, (num_vector_registers() - 4) // (_TILE_ROWS + 1)
    with k.range(k.first, k.last) as item:
        r0 = item * _PIECE_ROWS
        count = (p.n - r0).minimum(_PIECE_ROWS)
        clear(k, k.local, _PIECE_ROWS * p.width)

        def rows(r: Int64, height: int, at: Any, deep: int, r0: Int64 = r0) -> None:
            """``height`` rows from r on, and ``deep`` numbers of each from ``at`` on."""
            x = b + ((r0 + r) * p.depth + at)

            def ask(i: Int64) -> None:
                for row in range(height):
                    x.prefetch(i * _CACHE_LINE + (row * p.depth + _DEPTH_CHUNK), 2)

            for v0 in range(0, vectors, most):
                there, w = k.local + (r * p.width + v0 * lanes), few + (at * p.width + v0 * lanes)
                tile = RegisterTile(height, min(most, vectors - v0), lanes)
                start = [
                    [there.load(i * p.width + v * lanes, lanes) for v in range(tile.vectors)] for i in range(height)
                ]
                depth = [DepthLoop(deep, 1, p.width)]
                if deep % _CACHE_LINE == 0:
                    depth = [
                        DepthLoop(deep // _CACHE_LINE, _CACHE_LINE, _CACHE_LINE * p.width),
                        DepthLoop(_CACHE_LINE, 1, p.width),
                    ]
                made = accumulate(k, tile, x, p.depth, w, depth, start, beside=None if v0 else ask)
                for i, row in enumerate(made):
                    for v, one in enumerate(row):
                        there.store(one, i * p.width + v * lanes)

        def chunk(at: Any, deep: int, count: Int64 = count) -> None:
            whole = count - count % _TILE_ROWS
            with k.range(0, whole, _TILE_ROWS) as r:
                rows(r, _TILE_ROWS, at, deep)
            if p.n % _PIECE_ROWS % _TILE_ROWS:
                with k.range(whole, count) as r:
                    rows(r, 1, at, deep)

        whole = p.depth - p.depth % _DEPTH_CHUNK
        with k.range(0, whole, _DEPTH_CHUNK) as at:
            chunk(at, _DEPTH_CHUNK)
        if p.depth % _DEPTH_CHUNK:
            chunk(whole, p.depth % _DEPTH_CHUNK)

        def last(i: Int64, mask: Num | None, r0: Int64 = r0) -> None:
            for v in range(vectors):
                square = [k.local.load((i + r) * p.width + v * lanes, lanes) for r in range(lanes)]
                for r, one in enumerate(transpose_registers(k, square)[: p.m - v * lanes]):
                    column = r0 + i
                    epilogue.store(k, inputs, outputs, one, (v * lanes + r) * p.n + column, column, mask)

        k.for_each_vector(count, last)
