"""Matrix products inside a kernel, on operands that are in the cache, and their transposition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    transpose_registers,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask

__all__ = ["MatrixView", "multiply_in_cache", "tile_height", "transpose_into"]

#: stores a vector of the result: (row, column, vector, mask)
StoreVector = Callable[[Any, Any, Num, "Num | None"], None]
InitialSums = Callable[[Any, Any, "Num | None"], Num]


class MatrixView(NamedTuple):
    """An address with the strides to the next row and to the next element of the depth."""

    address: Pointer
    row_stride: int
    depth_stride: int


def tile_vectors(columns: int, lanes: int) -> int:
    """Return the vectors of a tile, as wide as registers and columns allow."""
    return min(4 if num_vector_registers() >= 32 else 2, -(-columns // lanes))


def tile_height(rows: int, columns: int, lanes: int) -> int:
    """Return the rows of a tile: a divisor of the rows, if there is one of a good size."""
    most = min(max_tile_rows(tile_vectors(columns, lanes)), rows)
    even = (h for h in range(most, max(most // 2, 1) - 1, -1) if rows % h == 0)
    return next(even, most)


def multiply_in_cache(
    k: KernelBuilder,
    rows: Index,
    height: int,
    columns: int,
    depth: Index,
    x: MatrixView,
    w: MatrixView,
    store: StoreVector,
    start: InitialSums | None = None,
    is_padded: bool = False,
    column_limit: Any = None,
) -> None:
    """Emit the sums over the depth of x[row, depth] * w[depth, column], and ``store`` them; columns of w are
    contiguous.

    ``rows`` and ``depth`` may be known only at run time; tiles have ``height`` rows. ``start`` gives initial values.
    ``is_padded``: w and the result hold whole vectors, so that nothing is masked. ``column_limit``: vectors
    that begin at this column or beyond may be left out.
    """
    lanes = k.lanes
    vectors = tile_vectors(columns, lanes)

    def tile(r: Index, c: Index, height: int, vectors: int, mask: Mask) -> None:
        def edge(v: int) -> Num | None:
            return mask if v == vectors - 1 else None

        initial = None
        if start is not None:
            initial = [[start(r + i, c + v * lanes, edge(v)) for v in range(vectors)] for i in range(height)]
        tile_sums = accumulate(
            k,
            RegisterTile(height, vectors, lanes),
            x.address + r * x.row_stride,
            x.row_stride,
            w.address + c,
            [DepthLoop(depth, x.depth_stride, w.depth_stride)],
            initial,
            mask,
        )
        for i in range(height):
            for v in range(vectors):
                store(r + i, c + v * lanes, tile_sums[i][v], edge(v))

    def panel(c: Index, vectors: int, mask: Mask) -> None:
        main_end = rows - rows % height
        with k.range(0, main_end, height) as r:
            tile(r, c, height, vectors, mask)
        if not isinstance(rows, int) or main_end != rows:
            with k.range(main_end, rows) as r:
                tile(r, c, 1, vectors, mask)

    width = vectors * lanes
    main_end = columns - columns % width
    limit = main_end if column_limit is None else column_limit.minimum(main_end)
    with k.range(0, limit, width) as c:
        panel(c, vectors, None)
    rest = columns - main_end
    if rest:
        last = -(-rest // lanes)
        mask = None if is_padded or rest % lanes == 0 else k.mask(rest - (last - 1) * lanes, lanes)
        at = Int64(k, k.word(main_end))
        if column_limit is None:
            panel(at, last, mask)
        else:
            with k.if_then(column_limit > main_end):
                panel(at, last, mask)


def transpose_into(k: KernelBuilder, x: Pointer, rows: int, columns: int, step: int, to: Pointer, width: int) -> None:
    """Copy x [rows][columns], rows ``step`` apart, as [columns][width]; zeros beyond the rows up to a whole vector."""
    lanes = k.lanes

    def square(r: Index, c: Int64, count: int, mask: Mask) -> None:
        vectors = [x.load((r + i) * step + c, lanes, mask) if i < count else k.zero(lanes) for i in range(lanes)]
        for i, row in enumerate(transpose_registers(k, vectors)[: lanes if mask is None else columns % lanes]):
            to.store(row, (c + i) * width + r)

    rest = rows % lanes
    with k.range(0, rows - rest, lanes) as r:
        k.for_each_vector(columns, lambda c, mask: square(r, c, lanes, mask))
    if rest:
        at = Int64(k, k.word(rows - rest))
        k.for_each_vector(columns, lambda c, mask: square(at, c, rest, mask))
