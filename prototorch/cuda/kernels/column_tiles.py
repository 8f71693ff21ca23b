"""How a reduction over the rows of a matrix is cut into blocks: tiles of adjacent columns and chunks of rows.

See `column_tiles.cuh`. The cut depends on the sizes alone, so that the same sums are made in the same order in every
run.
"""

from __future__ import annotations

from dataclasses import dataclass

from prototorch.cuda.kernels.launch import BLOCK

__all__ = ["ROWS_AHEAD", "TARGET_BLOCKS", "TARGET_BLOCKS_80_REGISTERS", "ColumnTiling"]

#: blocks of one launch: four for each of a large GPU's 132 multiprocessors, where 64 registers a thread leave room for
#: four
TARGET_BLOCKS = 512
#: the same where a thread has up to 80 registers: three for each
TARGET_BLOCKS_80_REGISTERS = 384
#: rows that a thread reads before it uses the first (ROWS_AHEAD in column_tiles.cuh)
ROWS_AHEAD = 4
#: most adjacent vectors of a tile: 512 bytes of them
MAX_TILE_VECTORS = 32


@dataclass(frozen=True)
class ColumnTiling:
    """The cut of [rows, columns] where a thread reads ``pack`` adjacent columns.

    Attributes:
        vectors: adjacent vectors of a tile.
        tiles: tiles of a row.
        chunk: rows of a chunk; the last one may have fewer.
        chunks: chunks, and so partial results of each column.
    """

    rows: int
    columns: int
    pack: int
    vectors: int
    tiles: int
    chunk: int
    chunks: int

    @staticmethod
    def of(rows: int, columns: int, pack: int, target_blocks: int = TARGET_BLOCKS) -> ColumnTiling:
        """The cut for these sizes into at most about ``target_blocks``; pack divides columns."""
        lanes = columns // pack
        vectors = -(-lanes // -(-lanes // MAX_TILE_VECTORS))  # tiles of about one size
        tiles = -(-lanes // vectors)
        rows_at_once = BLOCK // vectors * ROWS_AHEAD
        chunks = max(1, min(target_blocks // tiles, -(-rows // rows_at_once)))
        chunk = -(-rows // chunks)
        return ColumnTiling(rows, columns, pack, vectors, tiles, chunk, -(-rows // chunk))

    @property
    def blocks(self) -> int:
        """Blocks of the launch, of `BLOCK` threads each."""
        return self.tiles * self.chunks
