"""The register tile: the sums of products that convolutions and matrix products are made of.

``rows`` x ``vectors`` accumulators stay in registers while a nest of loops runs over the depth: each step takes one
number of each row of x, broadcast, and ``vectors`` neighbouring vectors of w. The widest tile that leaves registers for
w and for a broadcast is the fastest; how a size is cut into tiles is `split_evenly`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prototorch.backends.cpu.native.cpu_features import num_vector_registers
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer

#: numbers of a depth loop that are done between two tests of its end
UNROLL_FACTOR = 4


class RegisterTile(NamedTuple):
    """The shape of a register tile."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class DepthLoop:
    """A loop of the depth: how often, and how far x and w move each time (in elements)."""

    count: int | Int64
    x_stride: int
    w_stride: int


def max_tile_rows(vectors: int) -> int:
    """Rows of a tile that stays in registers: beside it, w's vectors and one broadcast."""
    return max((num_vector_registers() - vectors - 1) // vectors, 1)


def split_evenly(size: int, largest: int) -> list[int]:
    """A size in as few parts as possible that are no larger, of at most two different sizes."""
    parts = -(-size // largest)
    return [size // parts + (i < size % parts) for i in range(parts)]


def accumulate(k: KernelBuilder, tile: RegisterTile, x: Pointer, row: int, w: Pointer, depth: Sequence[DepthLoop],
               start: Sequence[Sequence[Num]] | None = None, mask: Num | None = None,
               ahead: int = 0, beside: Callable[[Int64], None] | None = None) -> list[list[Num]]:  # fmt: skip
    """The sums of a tile: row r begins at ``x + r * row``; ``start`` are the sums so far.

    ``mask`` holds for the last vector of w. ``ahead``: w is asked for this many elements before it is needed.
    ``beside`` is said in each turn of the outermost of several loops, with its number: to ask for what comes later.
    """
    zero = k.zero(tile.lanes)
    held = [[k.variable(zero if start is None else start[r][v]) for v in range(tile.vectors)] for r in range(tile.rows)]

    def steps(places: Sequence[tuple[Pointer, Pointer]]) -> None:
        """Products at these places of x and w, one after the other; sums are taken up and put down once."""
        sums = [[one.value for one in row] for row in held]
        for x, w in places:
            ws = [
                w.load(v * tile.lanes, tile.lanes, mask if v == tile.vectors - 1 else None) for v in range(tile.vectors)
            ]
            if ahead:
                for line in range(0, tile.width, 16):
                    w.prefetch(ahead + line)
            for r in range(tile.rows):
                one = x.load(r * row).splat(tile.lanes)
                for v in range(tile.vectors):
                    sums[r][v] = k.fma(one, ws[v], sums[r][v])
        for kept, made in zip(held, sums, strict=True):
            for cell, value in zip(kept, made, strict=True):
                cell.value = value

    def nest(loops: Sequence[DepthLoop], x: Pointer, w: Pointer) -> None:
        loop = loops[0]
        if len(loops) > 1:
            with k.range(loop.count) as i:
                if beside is not None and loops is depth:
                    beside(i)
                nest(loops[1:], x + i * loop.x_stride, w + i * loop.w_stride)
            return
        count = loop.count
        many = _unroll_factor(count)
        whole = count - count % many
        with k.range(0, whole, many) as i:
            here, there = x + i * loop.x_stride, w + i * loop.w_stride
            steps([(here + u * loop.x_stride, there + u * loop.w_stride) for u in range(many)])
        if not isinstance(count, int):
            with k.range(whole, count) as i:
                steps([(x + i * loop.x_stride, w + i * loop.w_stride)])
        elif (rest := count % many) > 0:
            steps([(x + u * loop.x_stride, w + u * loop.w_stride) for u in range(count - rest, count)])

    nest(depth, x, w)
    return [[a.value for a in one] for one in held]


def _unroll_factor(count: int | Int64) -> int:
    """Numbers of a depth loop that are done between two tests of its end: of a short one, so that no rest remains."""
    if not isinstance(count, int) or count > 8 * UNROLL_FACTOR:
        return UNROLL_FACTOR
    return next((n for n in (UNROLL_FACTOR, 3, 5, 6) if count % n == 0), UNROLL_FACTOR)


def transpose_registers(k: KernelBuilder, rows: Sequence[Num]) -> list[Num]:
    """A square of numbers, given as vectors, with rows and columns exchanged: by interleaving halves."""
    n = len(rows)
    held = list(rows)
    size = n
    while size > 1:
        half = n // 2
        made: list[Num] = []
        for i in range(half):
            made += [k.interleave(held[i], held[i + half], low) for low in (True, False)]
        held = made
        size //= 2
    return held
