"""Products of few rows and a constant matrix, as of a prediction's dense layers: the matrix is prepacked (as by BLIS).

The matrix is packed once, into panels as wide as a register tile, [panel][depth][width], padded with zeros: a panel is
then read in order and never masked. A piece of work is some panels for all rows or, if the matrix is small, for one
half of the rows. Threads begin at both ends of the pieces, so that with two of them each goes through all layers of a
small net with rows of its own, which it finds in its caches.
"""

from __future__ import annotations

from typing import NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import (
    ANCHOR,
    FusedEpilogue,
    fused_epilogue,
    no_epilogue,
)
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import unit_mask
from prototorch.engine.backends.cpu.native.kernels.gemm import small_m_gemm
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_tiling import plan_gemm
from prototorch.engine.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["matmul_prepacked", "plan_packed_gemm"]

_MAX_ROWS = 64  # more rows: packed_gemm_large.py
_CACHED_ELEMENTS = 1 << 17  # elements of a matrix that each thread reads whole, for one half of the rows
_MIN_HALF_ROWS = 4  # rows of a half, at least
_SERIAL_CYCLES = 6000  # estimated cycles up to which one thread is used
_PIECE_CYCLES = 1500  # estimated cycles of a piece, at least
_MAX_PIECES = 32
_LOAD_CYCLES = 2.2  # cycles to load a vector from L2
_FMA_LATENCY = 4  # cycles from a sum to the next that depends on it


class PackedGemm(NamedTuple):
    """[m, depth] by [depth, n] in panels of ``vectors`` vectors. The rows are cut into tiles of one or two heights,
    (rows, count), from the top; ``piece_tiles`` of them belong to a piece. ``is_transposed``: the matrix is given as
    [n, depth]."""

    m: int
    n: int
    depth: int
    vectors: int
    tile_heights: tuple[tuple[int, int], ...]
    piece_tiles: int
    is_transposed: bool

    @property
    def num_panels(self) -> int:
        """The number of panels."""
        return -(-self.n // (self.vectors * vector_lanes("float32")))

    @property
    def row_groups(self) -> int:
        """The number of parts of the rows."""
        return -(-sum(times for _, times in self.tile_heights) // self.piece_tiles)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * vector_lanes("float32")

    @property
    def cycles(self) -> float:
        """About how many cycles one thread takes."""
        each = sum(times * max(rows * self.vectors, _FMA_LATENCY) for rows, times in self.tile_heights)
        return self.num_panels * self.depth * max(each, _LOAD_CYCLES * self.vectors)

    @property
    def grain_size(self) -> int:
        """Panels of a piece."""
        items = self.num_panels * self.row_groups
        if self.cycles < _SERIAL_CYCLES:
            return items
        return max(-(-items // _MAX_PIECES), round(_PIECE_CYCLES * items / self.cycles), 1)


def plan_packed_gemm(m: int, n: int, depth: int, is_transposed: bool) -> PackedGemm:
    """Return the cheapest tiling."""
    candidates = []
    splits_rows = m >= 2 * _MIN_HALF_ROWS and n * depth <= _CACHED_ELEMENTS
    for vectors in range(1, min(4, -(-n // vector_lanes("float32"))) + 1):
        most = max_tile_rows(vectors)
        parts = split_evenly(m, min(most, -(-m // 2)) if splits_rows else most)
        heights = tuple((rows, parts.count(rows)) for rows in sorted(set(parts), reverse=True))
        candidates.append(PackedGemm(m, n, depth, vectors, heights, -(-len(parts) // (1 + splits_rows)), is_transposed))
    return min(candidates, key=_estimate_cost)


def _estimate_cost(p: PackedGemm) -> float:
    # a tile's loads: vectors of the panel, and one element a row, two at a time
    loads = sum(times * (p.vectors + rows / 2) for rows, times in p.tile_heights) * p.num_panels * p.depth
    return p.cycles + 0.2 * loads


def _pack_panels(k: KernelBuilder, p: PackedGemm) -> None:
    """Pack the matrix. Work items are panels."""
    b, width, rest = k.pointer(0), p.width, p.n % p.width
    with k.range(k.first, k.last) as panel:
        to = k.pointer(1) + panel * (p.depth * width)
        if p.is_transposed:
            source = b + panel * (width * p.depth)
            with k.if_then(panel < p.n // width):
                transpose_into(k, source, width, p.depth, p.depth, to, width)
            if rest:
                with k.if_then(panel >= p.n // width):
                    with k.range(p.depth * p.vectors) as i:
                        to.store(k.zero(k.lanes), i * k.lanes)
                    transpose_into(k, source, rest, p.depth, p.depth, to, width)
        else:
            with k.range(p.depth) as row:
                for v in range(p.vectors):
                    column = panel * width + v * k.lanes
                    values = b.load(row * p.n + column, k.lanes, unit_mask(k, column, p.n, p.vectors))
                    to.store(values, row * width + v * k.lanes)


def _emit_gemm(k: KernelBuilder, p: PackedGemm, epilogue: FusedEpilogue, where: tuple[int, int]) -> None:
    """Multiply. Work items are panels, for one part of the rows after the other."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    with k.range(k.first, k.last) as item:
        group, panel = item // p.num_panels, item % p.num_panels if p.row_groups > 1 else item
        w, c0 = inputs[where[1]] + panel * (p.depth * p.width), panel * p.width

        def tile(row: Index, height: int) -> None:
            tile_sums = accumulate(
                k,
                RegisterTile(height, p.vectors, k.lanes),
                inputs[where[0]] + row * p.depth,
                p.depth,
                w,
                [DepthLoop(p.depth, 1, p.width)],
            )
            for v in range(p.vectors):
                column = c0 + v * k.lanes
                mask = unit_mask(k, column, p.n, p.vectors)
                for r in range(height):
                    epilogue.store(k, inputs, outputs, tile_sums[r][v], (row + r) * p.n + column, column, mask)

        first_row = first_tile = 0
        for height, times in p.tile_heights:
            if p.row_groups == 1:
                with k.range(times) as t:
                    tile(t * height + first_row, height)
            else:
                first = (group * p.piece_tiles - first_tile).maximum(0)
                with k.range(first, (group * p.piece_tiles + p.piece_tiles - first_tile).minimum(times)) as t:
                    tile(t * height + first_row, height)
            first_row, first_tile = first_row + height * times, first_tile + times


def _prepacked_kernel(p: PackedGemm, epilogue: FusedEpilogue, where: tuple[int, int]) -> PrepackedKernel:
    packing, work = kernel_code(_pack_panels, p), kernel_code(_emit_gemm, p, epilogue, where)
    return PrepackedKernel(
        where[1],
        p.num_panels * p.width * p.depth,
        lambda i, o: [ParallelTask(packing.address, (*i, *o), p.num_panels, max((1 << 14) // (p.depth * p.width), 1))],
        lambda i, o: [ParallelTask(work.address, (*i, *o), p.num_panels * p.row_groups, p.grain_size)],
        "packed_gemm",
        (p.n, p.depth, p.is_transposed, p.vectors),
    )


def _prepare(
    ins: Specs, outs: Specs, epilogue: FusedEpilogue, where: tuple[int, int], attrs: Attrs
) -> PrepackedKernel | None:
    a, b = (ins[i] for i in where)
    if attrs.get("transpose_a") or where[0] == where[1] or b.ndim != 2 or epilogue.kinds[where[1]] != ANCHOR:
        return None
    product = plan_gemm(a, b, outs[0], False, attrs.get("transpose_b", False))
    if product.batch != 1 or product.m > _MAX_ROWS or b.size >= small_m_gemm.MIN_ELEMENTS:
        return None
    return _prepacked_kernel(
        plan_packed_gemm(product.m, product.n, product.depth, product.is_transposed), epilogue, where
    )


@prepacked_kernel("matmul", special=True)
def matmul_prepacked(ins: Specs, outs: Specs, attrs: Attrs) -> PrepackedKernel | None:
    """A product alone."""
    return _prepare(ins, outs, no_epilogue(2), (0, 1), attrs)


@prepacked_kernel("fused", special=True)
def fused_matmul_prepacked(ins: Specs, outs: Specs, attrs: Attrs) -> PrepackedKernel | None:
    """A product with its epilogue."""
    name, refs, matmul_attrs = attrs["program"][0]
    if name != "matmul" or any(ref[0] != "in" for ref in refs):
        return None
    return _prepare(ins, outs, fused_epilogue(ins, outs, attrs, -1), (refs[0][1], refs[1][1]), dict(matmul_attrs))
