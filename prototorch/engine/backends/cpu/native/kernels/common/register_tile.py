"""The register tile: the inner loops of all convolutions and matrix products (the micro-kernel of Goto and BLIS).

``rows`` x ``vectors`` accumulators stay in registers while a loop nest runs over the depth: each step broadcasts one
element of each row of x and multiplies it with ``vectors`` adjacent vectors of w. The largest tile that leaves
registers for w and for one broadcast is the fastest; `split_evenly` divides a size into tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.types import Mask

__all__ = [
    "DepthLoop",
    "RegisterTile",
    "accumulate",
    "count_runs",
    "max_tile_rows",
    "split_evenly",
    "transpose_registers",
]

#: iterations of a depth loop that are unrolled
UNROLL_FACTOR = 4


class RegisterTile(NamedTuple):
    """A block of an array in registers: rows of ``vectors`` with ``lanes`` elements each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class DepthLoop:
    """A loop over the depth: its trip count, and the strides of x and w in elements."""

    count: int | Int64
    x_stride: int
    w_stride: int


def max_tile_rows(vectors: int) -> int:
    """Return how many rows of accumulators fit into registers beside the vectors of w and one broadcast."""
    return max((num_vector_registers() - vectors - 1) // vectors, 1)


def split_evenly(size: int, largest: int) -> list[int]:
    """Split a size into as few parts as possible, none above ``largest``, of at most two different sizes."""
    parts = -(-size // largest)
    return [size // parts + (i < size % parts) for i in range(parts)]


def accumulate(
    k: KernelBuilder,
    tile: RegisterTile,
    x: Pointer,
    row: int,
    w: Pointer,
    depth: Sequence[DepthLoop],
    start: Sequence[Sequence[Num]] | None = None,
    mask: Mask = None,
    prefetch_distance: int = 0,
    on_outer_step: Callable[[Int64], None] | None = None,
) -> list[list[Num]]:
    """Emit the sums of a tile and return them; row r of x begins at ``x + r * row``, ``start`` are initial values.

    ``mask`` is that of the last vector of w. ``prefetch_distance``: elements ahead of its use at which w is prefetched.
    ``on_outer_step`` is called with the index of the outermost of several loops: to emit prefetches.
    """
    zero = k.zero(tile.lanes)
    accumulators = [
        [k.variable(zero if start is None else start[r][v]) for v in range(tile.vectors)] for r in range(tile.rows)
    ]

    def steps(addresses: Sequence[tuple[Pointer, Pointer]]) -> None:
        """Multiply and add at these addresses of x and w, one after the other; accumulators are loaded and stored
        once."""
        sums = [[one.value for one in row] for row in accumulators]
        for x, w in addresses:
            w_vectors = [
                w.load(v * tile.lanes, tile.lanes, mask if v == tile.vectors - 1 else None) for v in range(tile.vectors)
            ]
            if prefetch_distance:
                for line in range(0, tile.width, 16):
                    w.prefetch(prefetch_distance + line)
            for r in range(tile.rows):
                one = x.load(r * row).splat(tile.lanes)
                for v in range(tile.vectors):
                    sums[r][v] = k.fma(one, w_vectors[v], sums[r][v])
        for row_accumulators, row_sums in zip(accumulators, sums, strict=True):
            for cell, value in zip(row_accumulators, row_sums, strict=True):
                cell.value = value

    def nest(loops: Sequence[DepthLoop], x: Pointer, w: Pointer) -> None:
        loop = loops[0]
        if len(loops) > 1:
            with k.range(loop.count) as i:
                if on_outer_step is not None and loops is depth:
                    on_outer_step(i)
                nest(loops[1:], x + i * loop.x_stride, w + i * loop.w_stride)
            return
        count = loop.count
        unroll = _unroll_factor(count)
        main_end = count - count % unroll
        with k.range(0, main_end, unroll) as i:
            x_address, w_address = x + i * loop.x_stride, w + i * loop.w_stride
            steps([(x_address + u * loop.x_stride, w_address + u * loop.w_stride) for u in range(unroll)])
        if not isinstance(count, int):
            with k.range(main_end, count) as i:
                steps([(x + i * loop.x_stride, w + i * loop.w_stride)])
        elif (rest := count % unroll) > 0:
            steps([(x + u * loop.x_stride, w + u * loop.w_stride) for u in range(count - rest, count)])

    nest(depth, x, w)
    return [[a.value for a in one] for one in accumulators]


def _unroll_factor(count: int | Int64) -> int:
    """Return the unroll factor of a depth loop; for a short loop one that leaves no remainder."""
    if not isinstance(count, int) or count > 8 * UNROLL_FACTOR:
        return UNROLL_FACTOR
    return next((n for n in (UNROLL_FACTOR, 3, 5, 6) if count % n == 0), UNROLL_FACTOR)


def transpose_registers(k: KernelBuilder, rows: Sequence[Num]) -> list[Num]:
    """Transpose a square of elements, given as vectors, by interleaving halves."""
    n = len(rows)
    vectors = list(rows)
    size = n
    while size > 1:
        half = n // 2
        pairs: list[Num] = []
        for i in range(half):
            pairs += [k.interleave(vectors[i], vectors[i + half], low) for low in (True, False)]
        vectors = pairs
        size //= 2
    return vectors


def count_runs(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Run-length encode: return (size, count) of equal neighbours."""
    runs: list[tuple[int, int]] = []
    for size in sizes:
        if runs and runs[-1][0] == size:
            runs[-1] = (size, runs[-1][1] + 1)
        else:
            runs.append((size, 1))
    return runs
