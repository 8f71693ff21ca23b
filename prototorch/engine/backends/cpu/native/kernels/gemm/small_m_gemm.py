"""Products of few rows with a large matrix, as of a dense layer in a small batch: bound by reading the matrix once from
memory.

[m, depth] times [depth, n]: a piece has some columns and a part of the depth. It goes through blocks of the matrix that
fit into a cache; while it computes one panel of a block it prefetches one whole row of the next block, so that memory
is read in long runs. Sums are in scratch memory, panel by panel; a second task adds the parts of the depth.

If the matrix is [n, depth], its rows are the rows of the register tile, and the few rows, transposed, are read as
vectors.
"""

from __future__ import annotations

from typing import NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear, copy
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
    transpose_registers,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["MAX_ROWS", "MIN_ELEMENTS", "MIN_ELEMENTS_TRANSPOSED", "small_m_gemm", "small_m_gemm_transposed"]

MAX_ROWS = 64  # rows
MIN_ELEMENTS = 1 << 20  # elements of a matrix that does not fit into L2
MIN_ELEMENTS_TRANSPOSED = 1 << 18  # the same for a transposed matrix
_BLOCK_ELEMENTS = 1024
_MIN_PIECES = 16  # pieces of work, at least
_PREFETCH_STEPS = 4  # steps of the depth between two prefetches
_DEPTH_CHUNK = 256  # depth of a block of a transposed matrix: the few rows' part of it stays in L1
_TILE_ROWS = 6  # of a transposed matrix: rows a power of two apart share 8 ways of the cache
_PIECE_ROWS = 48  # rows of a transposed matrix in a piece: whole tiles, whole vectors
_CACHE_LINE = 16  # elements of a cache line


class SmallMGemm(NamedTuple):
    """A product of few rows. ``block_depth`` steps of the depth by ``block_panels`` panels of ``vectors`` are a
    block."""

    m: int
    n: int
    depth: int
    vectors: int
    block_depth: int
    block_panels: int
    piece_depth: int  # depth of a piece

    @property
    def piece_columns(self) -> int:
        """The number of columns of a piece: those of its panels."""
        return self.block_panels * self.vectors * vector_lanes("float32")

    @property
    def column_pieces(self) -> int:
        """The number of pieces of columns."""
        return -(-self.n // self.piece_columns)

    @property
    def depth_pieces(self) -> int:
        """The number of parts of the depth."""
        return -(-self.depth // self.piece_depth)

    @property
    def sum_elements(self) -> int:
        """Elements of a piece's sums."""
        return self.m * self.piece_columns


def plan_small_m_gemm(m: int, n: int, depth: int) -> SmallMGemm:
    """Return the tiling of a product."""
    lanes = vector_lanes("float32")
    vectors = 1 if m > 8 else 2 if m > 4 else 4
    width = vectors * lanes
    block_depth = max(_BLOCK_ELEMENTS // width, _PREFETCH_STEPS)
    panels = -(-n // width)
    panels = -(-panels // -(-panels // block_depth))
    column_pieces = -(-n // (panels * width))
    blocks = -(-depth // block_depth)
    parts = min(max(_MIN_PIECES // column_pieces, 1), blocks)
    return SmallMGemm(m, n, depth, vectors, block_depth, panels, -(-blocks // parts) * block_depth)


def small_m_gemm(m: int, n: int, depth: int, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    """Return the tasks of [m, depth] times [depth, n]."""
    p = plan_small_m_gemm(m, n, depth)
    multiply, sums = kernel_code(_multiply, p, where), kernel_code(_add_partial_sums, p, epilogue)
    local_bytes = 4 * p.m * (p.block_depth + 16)
    shared_bytes = 4 * p.depth_pieces * p.column_pieces * p.sum_elements
    return TaskList(
        lambda i, o: [
            ParallelTask(multiply.address, (*i, *o), p.depth_pieces * p.column_pieces, 1, local_bytes, shared_bytes),
            ParallelTask(sums.address, (*i, *o), m, 1, 0, shared_bytes),
        ]
    )


def _multiply(k: KernelBuilder, p: SmallMGemm, where: tuple[int, int]) -> None:
    """Sum a part of the depth. Work items are parts, and in them pieces of columns."""
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

        def block(kb: Index, block_depth: int, c0: Int64 = c0, sums: Pointer = sums) -> None:
            with k.range(p.m) as r:
                copy(k, a + (r * p.depth + kb), k.local + r * line, block_depth)
            corner = b + (kb * p.n + c0)

            def panel(at: Int64, vectors: int, mask: Mask) -> None:
                following = corner + (at + p.block_depth) * p.n

                def prefetch_step(i: Int64) -> None:
                    for v in range(0, _PREFETCH_STEPS * width, _CACHE_LINE):
                        following.prefetch(i * (_PREFETCH_STEPS * width) + v, 2)

                first_row = 0
                for height in split_evenly(p.m, max_tile_rows(p.vectors)):
                    sum_address = sums + (at * p.m + first_row) * width
                    start = [
                        [sum_address.load(r * width + v * lanes, lanes) for v in range(vectors)] for r in range(height)
                    ]
                    depth = [
                        DepthLoop(block_depth // _PREFETCH_STEPS, _PREFETCH_STEPS, _PREFETCH_STEPS * p.n),
                        DepthLoop(_PREFETCH_STEPS, 1, p.n),
                    ]
                    if block_depth % _PREFETCH_STEPS:
                        depth = [DepthLoop(block_depth, 1, p.n)]
                    x, w = k.local + first_row * line, corner + at * width
                    tile_sums = accumulate(
                        k,
                        RegisterTile(height, vectors, lanes),
                        x,
                        line,
                        w,
                        depth,
                        start,
                        mask,
                        on_outer_step=None if first_row else prefetch_step,
                    )
                    for r, row in enumerate(tile_sums):
                        for v, one in enumerate(row):
                            sum_address.store(one, r * width + v * lanes)
                    first_row += height

            full_panels = ((p.n - c0) // width).minimum(p.block_panels)
            with k.range(full_panels) as at:
                panel(at, p.vectors, None)
            if rest := p.n % width:
                with k.if_then((full_panels < p.block_panels) & (c0 + full_panels * width < p.n)):
                    panel(full_panels, -(-rest // lanes), k.mask(edge, lanes) if edge else None)

        full = last - (last - first) % p.block_depth
        with k.range(first, full, p.block_depth) as kb:
            block(kb, p.block_depth)
        if p.depth % p.block_depth:
            with k.if_then(full < last):
                block(full, p.depth % p.block_depth)


def _add_partial_sums(k: KernelBuilder, p: SmallMGemm, epilogue: FusedEpilogue) -> None:
    """Add the parts of the depth and apply the epilogue. Work items are rows."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    sums = k.shared.as_type("float32")
    width = p.vectors * k.lanes
    with k.range(k.first, k.last) as row:

        def body(i: Int64, mask: Mask, row: Int64 = row) -> None:
            piece, column = i // p.piece_columns, i % p.piece_columns
            at = piece * p.sum_elements + ((column // width) * p.m + row) * width + column % width
            total = sums.load(at, k.lanes, mask)
            for part in range(1, p.depth_pieces):
                total = total + sums.load(at + part * (p.column_pieces * p.sum_elements), k.lanes, mask)
            epilogue.store(k, inputs, outputs, total, row * p.n + i, i, mask)

        k.for_each_vector(p.n, body)


class SmallMGemmNT(NamedTuple):
    """A product of few rows with a matrix [n, depth]."""

    m: int
    n: int
    depth: int

    @property
    def width(self) -> int:
        """The few rows, rounded up to whole vectors."""
        lanes = vector_lanes("float32")
        return -(-self.m // lanes) * lanes


def small_m_gemm_transposed(m: int, n: int, depth: int, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    """Return the tasks of [m, depth] times the transpose of [n, depth]."""
    p = SmallMGemmNT(m, n, depth)
    transpose, multiply = (
        kernel_code(_transpose_rows, p, where[0]),
        kernel_code(_multiply_transposed, p, epilogue, where),
    )
    shared_bytes = 4 * depth * p.width
    return TaskList(
        lambda i, o: [
            ParallelTask(transpose.address, (*i, *o), -(-depth // _DEPTH_CHUNK), 1, 0, shared_bytes),
            ParallelTask(
                multiply.address,
                (*i, *o),
                -(-n // _PIECE_ROWS),
                1,
                4 * (_PIECE_ROWS + _TILE_ROWS) * p.width,
                shared_bytes,
            ),
        ]
    )


def _transpose_rows(k: KernelBuilder, p: SmallMGemmNT, where: int) -> None:
    """Transpose the few rows. Work items are chunks of the depth."""
    a, to = k.pointer(where), k.shared.as_type("float32")
    with k.range(k.first, k.last) as chunk:
        at = chunk * _DEPTH_CHUNK
        with k.if_then(at + _DEPTH_CHUNK <= p.depth):
            transpose_into(k, a + at, p.m, _DEPTH_CHUNK, p.depth, to + at * p.width, p.width)
        if rest := p.depth % _DEPTH_CHUNK:
            with k.if_then(at + _DEPTH_CHUNK > p.depth):
                transpose_into(k, a + at, p.m, rest, p.depth, to + at * p.width, p.width)


def _multiply_transposed(k: KernelBuilder, p: SmallMGemmNT, epilogue: FusedEpilogue, where: tuple[int, int]) -> None:
    """Multiply. Work items are pieces of the matrix' rows."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    b, a_columns = inputs[where[1]], k.shared.as_type("float32")
    lanes = k.lanes
    vectors, most = p.width // lanes, (num_vector_registers() - 4) // (_TILE_ROWS + 1)
    with k.range(k.first, k.last) as item:
        r0 = item * _PIECE_ROWS
        count = (p.n - r0).minimum(_PIECE_ROWS)
        clear(k, k.local, _PIECE_ROWS * p.width)

        def rows(r: Int64, height: int, at: Index, chunk_depth: int, r0: Int64 = r0) -> None:
            """``height`` rows from r on, and ``chunk_depth`` elements of each from ``at`` on."""
            x = b + ((r0 + r) * p.depth + at)

            def prefetch_step(i: Int64) -> None:
                for row in range(height):
                    x.prefetch(i * _CACHE_LINE + (row * p.depth + _DEPTH_CHUNK), 2)

            for v0 in range(0, vectors, most):
                sum_address, w = k.local + (r * p.width + v0 * lanes), a_columns + (at * p.width + v0 * lanes)
                tile = RegisterTile(height, min(most, vectors - v0), lanes)
                start = [
                    [sum_address.load(i * p.width + v * lanes, lanes) for v in range(tile.vectors)]
                    for i in range(height)
                ]
                depth = [DepthLoop(chunk_depth, 1, p.width)]
                if chunk_depth % _CACHE_LINE == 0:
                    depth = [
                        DepthLoop(chunk_depth // _CACHE_LINE, _CACHE_LINE, _CACHE_LINE * p.width),
                        DepthLoop(_CACHE_LINE, 1, p.width),
                    ]
                tile_sums = accumulate(
                    k, tile, x, p.depth, w, depth, start, on_outer_step=None if v0 else prefetch_step
                )
                for i, row in enumerate(tile_sums):
                    for v, one in enumerate(row):
                        sum_address.store(one, i * p.width + v * lanes)

        def chunk(at: Index, chunk_depth: int, count: Int64 = count) -> None:
            main_end = count - count % _TILE_ROWS
            with k.range(0, main_end, _TILE_ROWS) as r:
                rows(r, _TILE_ROWS, at, chunk_depth)
            if p.n % _PIECE_ROWS % _TILE_ROWS:
                with k.range(main_end, count) as r:
                    rows(r, 1, at, chunk_depth)

        main_end = p.depth - p.depth % _DEPTH_CHUNK
        with k.range(0, main_end, _DEPTH_CHUNK) as at:
            chunk(at, _DEPTH_CHUNK)
        if p.depth % _DEPTH_CHUNK:
            chunk(main_end, p.depth % _DEPTH_CHUNK)

        def store_columns(i: Int64, mask: Mask, r0: Int64 = r0) -> None:
            for v in range(vectors):
                square = [k.local.load((i + r) * p.width + v * lanes, lanes) for r in range(lanes)]
                for r, one in enumerate(transpose_registers(k, square)[: p.m - v * lanes]):
                    column = r0 + i
                    epilogue.store(k, inputs, outputs, one, (v * lanes + r) * p.n + column, column, mask)

        k.for_each_vector(count, store_columns)
