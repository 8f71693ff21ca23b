"""General matrix products (GEMM) with fused epilogues, blocked for caches and registers (Goto and van de Geijn, 2008).

A piece of work is a block of rows and columns of the result. It goes through the depth in blocks, so that what it reads
of a and b stays in the cache; sums are in scratch memory between the blocks. b is read in place; only if it is
transposed are blocks of it transposed first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue, fused_epilogue, no_epilogue
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear, copy
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    transpose_registers,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.gemm import small_k_gemm, small_m_gemm
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_tiling import SERIAL_WORK, GemmTiling, plan_gemm
from prototorch.engine.backends.cpu.native.kernels.gemm.gemv import gemv
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["matmul"]

_UNCACHED_ELEMENTS = 1 << 18  # elements of a b that does not fit into the cache


class _GemmEmitter:
    """Emits the code of one product."""

    def __init__(self, k: KernelBuilder, p: GemmTiling, epilogue: FusedEpilogue, where: tuple[int, int]):
        self.k, self.p, self.epilogue = k, p, epilogue
        self.inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
        self.width = p.vectors * k.lanes
        self.panel = k.local + p.sum_elements
        self.copy = self.panel + p.block_depth * self.width
        with k.range(k.first, k.last) as item:
            row_pieces, column_pieces = sum(p.row_pieces), p.column_pieces
            matrix, rest = item // (row_pieces * column_pieces), item % (row_pieces * column_pieces)
            row, self.c0 = rest // column_pieces, (rest % column_pieces) * p.piece_columns
            self.ends = (self.c0 + p.piece_columns).minimum(p.n)
            self.a = self.inputs[where[0]] + matrix * p.a_batch_stride
            self.b = self.inputs[where[1]] + matrix * p.b_batch_stride
            self.base = matrix * (p.m * p.n)
            first_row = first_piece = 0
            for (height, times), pieces in zip(p.tile_heights, p.row_pieces, strict=True):
                with k.if_then((row >= first_piece) & (row < first_piece + pieces)):
                    first = (row - first_piece) * p.piece_tiles
                    tile_count = (first + p.piece_tiles).minimum(times) - first
                    self.piece(height, first * height + first_row, tile_count)
                first_row += height * times
                first_piece += pieces

    def piece(self, height: int, r0: Int64, tiles: Int64) -> None:
        """Emit ``tiles`` tiles of rows from r0, and the columns from c0."""
        k, p = self.k, self.p
        if p.finishes_rows:
            with k.range(tiles) as t:
                row = r0 + t * height
                self.panels(lambda c, vectors, mask: self.tiles(height, row, 1, 0, p.depth, c, vectors, mask, True))
            return
        if p.block_depth == p.depth:
            self.panels(lambda c, vectors, mask: self.tiles(height, r0, tiles, 0, p.depth, c, vectors, mask, True))
            return
        with k.range(tiles * height) as r:
            clear(k, k.local + r * p.piece_columns, p.piece_columns)
        with k.range(0, p.depth, p.block_depth) as kb:
            depth: Index = p.block_depth if p.depth % p.block_depth == 0 else (kb + p.block_depth).minimum(p.depth) - kb
            if p.copies_a:
                with k.range(tiles * height) as r:
                    source, to = self.a + ((r0 + r) * p.a_row_stride + kb), self.copy + r * p.copy_stride
                    copy(k, source, to, depth)
            self.panels(lambda c, vectors, mask: self.tiles(height, r0, tiles, kb, depth, c, vectors, mask, False))
        count = self.ends - self.c0
        with k.range(tiles * height) as r:

            def store_vector(i: Int64, mask: Mask) -> None:
                value = k.local.load(r * p.piece_columns + i, k.lanes)
                column = self.c0 + i
                at = self.base + (r0 + r) * p.n + column
                self.epilogue.store(k, self.inputs, self.outputs, value, at, column, mask)

            k.for_each_vector(count, store_vector)

    def panels(self, work: Callable[[Int64, int, Num | None], None]) -> None:
        """Emit ``work(first column, vectors, mask of the last)`` for each panel of the piece."""
        k, p = self.k, self.p
        main_end = p.n - p.n % self.width
        with k.range(self.c0, self.ends.minimum(main_end), self.width) as c:
            work(c, p.vectors, None)
        rest = p.n - main_end
        if rest:
            vectors = -(-rest // k.lanes)
            mask = k.mask(rest - (vectors - 1) * k.lanes, k.lanes) if rest % k.lanes else None
            with k.if_then(self.ends.equals(p.n)):
                work(Int64(k, k.word(main_end)), vectors, mask)

    def tiles(
        self,
        height: int,
        r0: Int64,
        tiles: Index,
        kb: Index,
        depth: Index,
        c: Int64,
        vectors: int,
        mask: Mask,
        is_full_depth: bool,
    ) -> None:
        """Emit one panel: a block of the depth for all tiles of rows; ``is_full_depth``: the block is the whole
        depth."""
        k, p = self.k, self.p
        tile = RegisterTile(height, vectors, k.lanes)
        x = self.a + kb * p.a_depth_stride
        if p.is_transposed:
            _transpose_block(k, p, self.b, kb, depth, c, vectors, mask is not None, self.panel)
            w, step, edge, prefetch_distance = self.panel, tile.width, None, 0
        else:
            w, step, edge = self.b + (kb * p.n + c), p.n, mask
            prefetch_distance = 4 * self.width if p.n * p.depth > _UNCACHED_ELEMENTS and not p.finishes_rows else 0
        with k.range(tiles) as t:
            row = t * height
            sum_address = k.local + (row * p.piece_columns + (c - self.c0))
            positions = [(r, v) for r in range(height) for v in range(vectors)]
            start = None
            if not is_full_depth:
                start = [
                    [sum_address.load(r * p.piece_columns + v * k.lanes, k.lanes) for v in range(vectors)]
                    for r in range(height)
                ]
            rows, row_stride = (
                (self.copy + row * p.copy_stride, p.copy_stride)
                if p.copies_a
                else (x + (r0 + row) * p.a_row_stride, p.a_row_stride)
            )
            tile_sums = accumulate(
                k, tile, rows, row_stride, w, [DepthLoop(depth, p.a_depth_stride, step)], start, edge, prefetch_distance
            )
            for r, v in positions:
                if is_full_depth:
                    column = c + v * k.lanes
                    at = self.base + (r0 + row + r) * p.n + column
                    self.epilogue.store(
                        k, self.inputs, self.outputs, tile_sums[r][v], at, column, mask if v == vectors - 1 else None
                    )
                else:
                    sum_address.store(tile_sums[r][v], r * p.piece_columns + v * k.lanes)


def _transpose_block(
    k: KernelBuilder,
    p: GemmTiling,
    b: Pointer,
    kb: Index,
    depth: Index,
    c: Int64,
    vectors: int,
    edge: bool,
    to: Pointer,
) -> None:
    """Copy columns c ... of b [n, depth] as rows of a panel [depth][vectors * lanes]; zeros beyond n at the edge."""
    lanes = k.lanes
    width = vectors * lanes
    for v in range(vectors):
        base = b + ((c + v * lanes) * p.depth + kb)

        def square(i: Any, mask: Mask, v: int = v, base: Pointer = base) -> None:
            rows = []
            for r in range(lanes):
                row_mask = mask
                if edge and v == vectors - 1:
                    inside = (c + (v * lanes + r) < p.n).splat(lanes)
                    row_mask = inside if mask is None else mask & inside
                rows.append(base.load(i + r * p.depth, lanes, row_mask))
            for r, row in enumerate(transpose_registers(k, rows)):
                if mask is None:
                    to.store(row, (i + r) * width + v * lanes)
                else:
                    with k.if_then(i + r < depth):
                        to.store(row, (i + r) * width + v * lanes)

        k.for_each_vector(depth, square, lanes)


def _emit_gemm(k: KernelBuilder, p: GemmTiling, epilogue: FusedEpilogue, where: tuple[int, int]) -> None:
    _GemmEmitter(k, p, epilogue, where)


def _tasks(p: GemmTiling, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    if p.m == p.batch == 1 and not p.is_transposed and p.a_depth_stride == 1:
        return gemv(p.depth, p.n, epilogue, where)
    if p.batch == 1 and p.a_depth_stride == 1 and p.m <= small_m_gemm.MAX_ROWS:
        if p.is_transposed and p.n * p.depth >= small_m_gemm.MIN_ELEMENTS_TRANSPOSED:
            return small_m_gemm.small_m_gemm_transposed(p.m, p.n, p.depth, epilogue, where)
        if not p.is_transposed and p.n * p.depth >= small_m_gemm.MIN_ELEMENTS:
            return small_m_gemm.small_m_gemm(p.m, p.n, p.depth, epilogue, where)
    if (
        p.batch == p.a_row_stride == 1
        and not p.is_transposed
        and p.depth <= small_k_gemm.MAX_DEPTH
        and p.m * p.n >= small_k_gemm.MIN_ELEMENTS
    ):
        return small_k_gemm.small_k_gemm(p.m, p.n, p.depth, epilogue, where)
    kernel = kernel_code(_emit_gemm, p, epilogue, where)
    items = p.batch * sum(p.row_pieces) * p.column_pieces
    grain = items if p.batch * p.m * p.n * p.depth <= SERIAL_WORK else 1
    local = 4 * (p.sum_elements + p.block_depth * p.vectors * vector_lanes("float32") + p.copied_elements)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain, local)])


register_fusion_role("native", "anchor", "matmul")


@native_kernel("matmul")
def matmul(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """A product alone."""
    return _prepare(ins, outs, no_epilogue(2), (0, 1), attrs)


@native_kernel("fused")
def fused_matmul(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """A product with its epilogue."""
    name, refs, matmul_attrs = attrs["program"][0]
    if name != "matmul" or any(ref[0] != "in" for ref in refs):
        return None
    where = (refs[0][1], refs[1][1])
    return _prepare(ins, outs, fused_epilogue(ins, outs, attrs, -1), where, dict(matmul_attrs))


def _prepare(ins: Specs, outs: Specs, epilogue: FusedEpilogue, where: tuple[int, int], attrs: Attrs) -> TaskList | None:
    transpose_a, transpose_b = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
    p = plan_gemm(ins[where[0]], ins[where[1]], outs[0], transpose_a, transpose_b)
    return _tasks(p, epilogue, where)
