"""The tiling of a general matrix product for caches, registers and threads."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import UnsupportedError
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    max_tile_rows,
    split_evenly,
)
from prototorch.spec import Spec

__all__ = ["SERIAL_WORK", "GemmTiling", "plan_gemm"]

_BLOCK_DEPTH = 256  # depth of a block, at most


_PIECE_ROWS = 128  # rows of a piece, about


_SCRATCH_ELEMENTS = 1 << 15  # elements of a piece's sums


_CACHED_ELEMENTS = 1 << 16  # elements of b's columns that stay in the cache


_MIN_PIECES = 16  # pieces of a product for several threads, at least


SERIAL_WORK = 1 << 16  # multiplications up to which one thread is used


class GemmTiling(NamedTuple):
    """``batch`` products of [m, depth] and [depth, n]; ``a_row_stride`` and ``a_depth_stride`` are the strides of a.

    The rows are cut into tiles of one or two heights; a piece has ``piece_tiles`` of one height and ``piece_columns``
    columns.
    """

    batch: int
    m: int
    n: int
    depth: int
    a_row_stride: int
    a_depth_stride: int
    is_transposed: bool  # b is [n, depth]
    a_batch_stride: int  # elements to the next matrix of the batch; 0: one matrix for all
    b_batch_stride: int
    tile_heights: tuple[tuple[int, int], ...]  # (rows of a tile, number of tiles), from the top
    piece_tiles: int
    piece_columns: int
    block_depth: int
    vectors: int  # of a tile

    @property
    def row_pieces(self) -> list[int]:
        """For each height, the pieces of its rows."""
        return [-(-times // self.piece_tiles) for _, times in self.tile_heights]

    @property
    def column_pieces(self) -> int:
        """The number of pieces into which the n columns are divided."""
        return -(-self.n // self.piece_columns)

    @property
    def copies_a(self) -> bool:
        """Whether blocks of a are copied: rows that are a multiple of a kilobyte apart evict each other from the
        cache."""
        return self.a_depth_stride == 1 and self.block_depth < self.depth and self.a_row_stride % 256 == 0

    @property
    def copy_stride(self) -> int:
        """Elements from row to row of a copied block."""
        return self.block_depth + 16

    @property
    def copied_elements(self) -> int:
        """Elements of a copied block."""
        return self.piece_tiles * self.tile_heights[0][0] * self.copy_stride if self.copies_a else 0

    @property
    def finishes_rows(self) -> bool:
        """Whether the rows of a tile are finished before the next ones: the result, which is most of what is
        written, is then written in order, while b's columns of the piece stay in the cache."""
        return self.block_depth == self.depth and not self.is_transposed

    @property
    def sum_elements(self) -> int:
        """Elements of the sums that a piece keeps in scratch memory."""
        return 0 if self.block_depth == self.depth else self.piece_tiles * self.tile_heights[0][0] * self.piece_columns


def plan_gemm(a: Spec, b: Spec, out: Spec, transpose_a: bool, transpose_b: bool) -> GemmTiling:
    """Return the tiling of a product. Raises UnsupportedError if it is not one of plain float32 matrices."""
    if not all(s.dtype == "float32" and s.layout is None for s in (a, b, out)):
        raise UnsupportedError("other than plain float32 matrices")
    m, n = out.shape[-2:]
    depth = a.shape[-2 if transpose_a else -1]
    batch, a_batch, b_batch = prod(out.shape[:-2]), prod(a.shape[:-2]), prod(b.shape[:-2])
    if b_batch == 1 and not transpose_a:  # one matrix b for all rows
        m, batch, a_batch = m * batch, 1, 1
    elif a_batch not in (1, batch) or b_batch not in (1, batch):
        raise UnsupportedError("broadcast batches")
    am, ak = (1, m) if transpose_a else (depth, 1)
    lanes = vector_lanes("float32")
    # with few rows, wide tiles read long runs of each row of b
    widest = 2 if m > 8 else 4 if m > 4 else 6
    vectors = min(widest, -(-n // lanes))
    width = vectors * lanes
    parts = split_evenly(m, max_tile_rows(vectors))
    heights = tuple((size, parts.count(size)) for size in sorted(set(parts), reverse=True))
    work = batch * m * n * depth
    tiles = min(max(_PIECE_ROWS // heights[0][0], 1), len(parts))
    columns = -(-n // width) * width
    if work > SERIAL_WORK:
        row_pieces = batch * sum(-(-times // tiles) for _, times in heights)
        min_column_pieces = max(_MIN_PIECES // row_pieces, 1)
        columns = min(columns, -(-n // (min_column_pieces * width)) * width)
    block = split_evenly(depth, _BLOCK_DEPTH)[0]
    most = _SCRATCH_ELEMENTS // (tiles * heights[0][0]) if block < depth or transpose_b else _CACHED_ELEMENTS // depth
    columns = max(min(columns, most // width * width), width)
    a_step, b_step = (0 if count == 1 else size * depth for count, size in ((a_batch, m), (b_batch, n)))
    return GemmTiling(batch, m, n, depth, am, ak, transpose_b, a_step, b_step, heights, tiles, columns, block, vectors)
