"""Matrix products inside of a kernel, on memory that is in the cache; and matrices turned for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.cpu_features import num_vector_registers
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    transpose_registers,
)

#: what is done with a vector of the result: (row, column, the vector, its mask)
StoreVector = Callable[[Any, Any, Num, "Num | None"], None]
InitialSums = Callable[[Any, Any, "Num | None"], Num]


class MatrixView(NamedTuple):
    """Numbers in memory: how far it is to the next of its own rows, and to the next along the depth."""

    address: Pointer
    row_stride: int
    depth_stride: int


def tile_vectors(columns: int, lanes: int) -> int:
    """Vectors of a tile that is as wide as registers and columns allow."""
    return min(4 if num_vector_registers() >= 32 else 2, -(-columns // lanes))


def tile_height(rows: int, columns: int, lanes: int) -> int:
    """Rows of a tile: a number that goes evenly into the rows, if there is one of a good size."""
    most = min(max_tile_rows(tile_vectors(columns, lanes)), rows)
    even = (h for h in range(most, max(most // 2, 1) - 1, -1) if rows % h == 0)
    return next(even, most)


def multiply_in_cache(
    k: KernelBuilder,
    rows: Any,
    height: int,
    columns: int,
    depth: Any,
    x: MatrixView,
    w: MatrixView,
    store: StoreVector,
    start: InitialSums | None = None,
    padded: bool = False,
    until: Any = None,
) -> None:
    """``store`` the sums over the depth of x[row, deep] * w[deep, column], w's columns lying side by side.

    ``rows`` and ``depth`` may be known at run time only; tiles have ``height`` rows. ``start`` gives what the sums
    begin with. ``padded``: w and the result have room for whole vectors, so nothing is masked. ``until``: vectors that
    begin at this column or beyond may be left out.
    """
    lanes = k.lanes
    vectors = tile_vectors(columns, lanes)

    def tile(r: Any, c: Any, height: int, vectors: int, mask: Num | None) -> None:
        def edge(v: int) -> Num | None:
            return mask if v == vectors - 1 else None

        begun = None
        if start is not None:
            begun = [[start(r + i, c + v * lanes, edge(v)) for v in range(vectors)] for i in range(height)]
        made = accumulate(
            k,
            RegisterTile(height, vectors, lanes),
            x.address + r * x.row_stride,
            x.row_stride,
            w.address + c,
            [DepthLoop(depth, x.depth_stride, w.depth_stride)],
            begun,
            mask,
        )
        for i in range(height):
            for v in range(vectors):
                store(r + i, c + v * lanes, made[i][v], edge(v))

    def panel(c: Any, vectors: int, mask: Num | None) -> None:
        whole = rows - rows % height
        with k.range(0, whole, height) as r:
            tile(r, c, height, vectors, mask)
        if not isinstance(rows, int) or whole != rows:
            with k.range(whole, rows) as r:
                tile(r, c, 1, vectors, mask)

    width = vectors * lanes
    whole = columns - columns % width
    limit = whole if until is None else until.minimum(whole)
    with k.range(0, limit, width) as c:
        panel(c, vectors, None)
    rest = columns - whole
    if rest:
        last = -(-rest // lanes)
        mask = None if padded or rest % lanes == 0 else k.mask(rest - (last - 1) * lanes, lanes)
        at = Int64(k, k.word(whole))
        if until is None:
            panel(at, last, mask)
        else:
            with k.if_then(until > whole):
                panel(at, last, mask)


def transpose_into(k: KernelBuilder, x: Pointer, rows: int, columns: int, step: int, to: Pointer, width: int) -> None:
    """x [rows][columns], whose rows are ``step`` apart, as [columns][width]; beyond the rows are zeros to the end of a
    vector."""
    lanes = k.lanes

    def square(r: Any, c: Int64, count: int, mask: Num | None) -> None:
        given = [x.load((r + i) * step + c, lanes, mask) if i < count else k.zero(lanes) for i in range(lanes)]
        for i, row in enumerate(transpose_registers(k, given)[: lanes if mask is None else columns % lanes]):
            to.store(row, (c + i) * width + r)

    rest = rows % lanes
    with k.range(0, rows - rest, lanes) as r:
        k.for_each_vector(columns, lambda c, mask: square(r, c, lanes, mask))
    if rest:
        at = Int64(k, k.word(rows - rest))
        k.for_each_vector(columns, lambda c, mask: square(at, c, rest, mask))
