"""Products of small depth with a large result, as the weight gradient of a dense layer in a small batch with the weight
update fused to it: bound by the memory traffic of the result and of the epilogue's operands.

The result is written in order, a few rows at a time; the second matrix, or some of its columns, stays in the cache.
What the epilogue reads is prefetched some rows ahead.
"""

from __future__ import annotations

from typing import NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FULL, FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.memory import copy
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import DepthLoop, RegisterTile, accumulate
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["MAX_DEPTH", "MIN_ELEMENTS", "small_k_gemm"]

MAX_DEPTH = 128  # of a product that is done here
MIN_ELEMENTS = 1 << 18  # elements of a result that does not fit into a cache
_CACHED_ELEMENTS = 1 << 16  # elements of the second matrix that fit into one
_PIECE_ROWS = 16  # rows of a piece
_TILE_ROWS = 4  # rows of a register tile: a divisor of _PIECE_ROWS
_MAX_TILE_VECTORS = 6  # vectors of a register tile, at most


class SmallKGemm(NamedTuple):
    """The transpose of [depth, m] times [depth, n]."""

    m: int
    n: int
    depth: int

    @property
    def tile_vectors(self) -> int:
        """The width of a register tile in vectors: what the registers hold, at most what n columns need."""
        return min((num_vector_registers() - 4) // _TILE_ROWS, _MAX_TILE_VECTORS, -(-self.n // vector_lanes("float32")))

    @property
    def piece_columns(self) -> int:
        """Columns of a piece: whole tiles."""
        width = self.tile_vectors * vector_lanes("float32")
        return max(min(_CACHED_ELEMENTS // self.depth, -(-self.n // width) * width) // width, 1) * width


def small_k_gemm(m: int, n: int, depth: int, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    """Return the tasks of the transpose of [depth, m] times [depth, n]."""
    p = SmallKGemm(m, n, depth)
    kernel = kernel_code(_multiply, p, epilogue, where)
    items = -(-m // _PIECE_ROWS) * -(-n // p.piece_columns)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, 1, 4 * _PIECE_ROWS * depth)])


def _multiply(k: KernelBuilder, p: SmallKGemm, epilogue: FusedEpilogue, where: tuple[int, int]) -> None:
    """Multiply. Work items are pieces of rows, and in them pieces of columns."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    full_operands = [pointer for pointer, kind in zip(inputs, epilogue.kinds, strict=True) if kind == FULL]
    a, b = inputs[where[0]], inputs[where[1]]
    lanes = k.lanes
    width = p.tile_vectors * lanes
    row_pieces = -(-p.m // _PIECE_ROWS)
    with k.range(k.first, k.last) as item:
        r0, c0 = (item % row_pieces) * _PIECE_ROWS, (item // row_pieces) * p.piece_columns
        count = (p.m - r0).minimum(_PIECE_ROWS)
        with k.range(p.depth) as d:
            copy(k, a + (d * p.m + r0), k.local + d * _PIECE_ROWS, count)
        ends = (c0 + p.piece_columns).minimum(p.n)
        main_end = p.n - p.n % width

        def rows(r: Int64, height: int, r0: Int64 = r0, c0: Int64 = c0, ends: Int64 = ends) -> None:
            def panel(c: Index, vectors: int, mask: Mask) -> None:
                corner = (r0 + r) * p.n + c
                for i in range(height):
                    for v in range(0, vectors * lanes, 16):
                        for pointer in full_operands:
                            pointer.prefetch(corner + ((i + height) * p.n + v), 2)
                tile_sums = accumulate(
                    k,
                    RegisterTile(height, vectors, lanes),
                    k.local + r,
                    1,
                    b + c,
                    [DepthLoop(p.depth, _PIECE_ROWS, p.n)],
                    None,
                    mask,
                )
                for i, row in enumerate(tile_sums):
                    for v, one in enumerate(row):
                        edge = mask if v == vectors - 1 else None
                        epilogue.store(k, inputs, outputs, one, corner + (i * p.n + v * lanes), c + v * lanes, edge)

            with k.range(c0, ends.minimum(main_end), width) as c:
                panel(c, p.tile_vectors, None)
            if rest := p.n - main_end:
                mask = k.mask(rest % lanes, lanes) if rest % lanes else None
                with k.if_then(ends.equals(p.n)):
                    panel(Int64(k, k.word(main_end)), -(-rest // lanes), mask)

        main_rows = count - count % _TILE_ROWS
        with k.range(0, main_rows, _TILE_ROWS) as r:
            rows(r, _TILE_ROWS)
        if p.m % _TILE_ROWS:
            with k.range(main_rows, count) as r:
                rows(r, 1)
