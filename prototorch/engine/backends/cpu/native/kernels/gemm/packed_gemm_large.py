"""Products of many rows and a constant matrix (a dense layer over many rows, in a prediction): the matrix is packed
once into panels [panel][depth][width], which are then read in order.

A piece of work is a block of rows and some panels. A panel meets all tiles of its rows over the whole depth; the sums
stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue, fused_epilogue, no_epilogue
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import ChannelPanels, choose_panels
from prototorch.engine.backends.cpu.native.kernels.conv.input_rows import has_cache_conflicts
from prototorch.engine.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

_MIN_ROWS = 32  # fewer rows are done as fast without panels
_CACHED_ELEMENTS = 1 << 16  # elements of a piece's rows, which are read again for each panel
_MIN_PIECES = 16  # pieces of work
_SERIAL_WORK = 1 << 16  # multiplications below which one piece is enough


class PanelGroup(NamedTuple):
    """Adjacent panels of one width: their vectors and number, the first panel and its column."""

    vectors: int
    num_panels: int
    first_panel: int
    first_column: int


class LargeGemm(NamedTuple):
    """[m, depth] times [depth, n] (``is_transposed``: given as [n, depth]), in pieces of ``piece_rows`` rows and
    ``piece_panels`` panels."""

    m: int
    n: int
    depth: int
    is_transposed: bool
    column_panels: ChannelPanels
    piece_rows: int
    piece_panels: int

    @property
    def size(self) -> int:
        """Elements of the panels."""
        return self.column_panels.width * self.depth

    @property
    def column_pieces(self) -> int:
        """The number of parts of the panels."""
        return -(-len(self.column_panels.vectors) // self.piece_panels)

    @property
    def items(self) -> int:
        """The number of pieces of work."""
        return -(-self.m // self.piece_rows) * self.column_pieces

    def panel_groups(self) -> Iterator[PanelGroup]:
        """Yield the panels, those of one width together."""
        panel = column = 0
        for vectors in dict.fromkeys(self.column_panels.vectors):
            times = self.column_panels.vectors.count(vectors)
            yield PanelGroup(vectors, times, panel, column)
            panel, column = panel + times, column + times * vectors * self.column_panels.lanes


def plan_large_gemm(ins: Specs, outs: Specs, where: tuple[int, int], attrs: Attrs) -> LargeGemm | None:
    """Return the tiling of a product, or None if it is not one of many rows with one plain float32 matrix."""
    a, b = (ins[i] for i in where)
    if attrs.get("transpose_a", False) or b.ndim != 2 or a.ndim < 2 or where[0] == where[1]:
        return None
    if not all(s.dtype == "float32" and s.layout is None for s in (a, b, outs[0])):
        return None
    m, n, depth = prod(a.shape[:-1]), outs[0].shape[-1], a.shape[-1]
    if m < _MIN_ROWS:
        return None
    panels = choose_panels(n, m)
    if has_cache_conflicts(4 * depth, max_tile_rows(panels.vectors[0])):  # fewer rows at once
        panels = panels._replace(vectors=tuple(sorted(split_evenly(-(-n // panels.lanes), 4), reverse=True)))
    count, high = len(panels.vectors), max_tile_rows(panels.vectors[0])
    rows = min(max(_CACHED_ELEMENTS // depth, 4 * high), m)
    if m * n * depth > _SERIAL_WORK:
        row_pieces = -(-m // rows)
        if row_pieces * count < _MIN_PIECES:  # blocks of fewer rows
            row_pieces = min(-(-_MIN_PIECES // count), -(-m // high))
        rows = -(-m // row_pieces)
        column_pieces = min(-(-_MIN_PIECES // -(-m // rows)), count)
    else:
        rows, column_pieces = m, 1
    return LargeGemm(m, n, depth, attrs.get("transpose_b", False), panels, rows, -(-count // column_pieces))


def pack_panels(k: KernelBuilder, d: LargeGemm) -> None:
    """Pack the matrix (argument 0) into panels (argument 1). Work items are panels."""
    b, lanes = k.pointer(0), d.column_panels.lanes
    depth_stride, column_stride = (1, d.depth) if d.is_transposed else (d.n, 1)
    for group in d.panel_groups():
        width = group.vectors * lanes
        with k.range(k.first.maximum(group.first_panel), k.last.minimum(group.first_panel + group.num_panels)) as item:
            column = (item - group.first_panel) * width + group.first_column
            to = k.pointer(1) + column * d.depth
            real = (column + width).minimum(d.n) - column
            with k.range(d.depth) as i:
                with k.range(real) as o:
                    to.store(b.load(i * depth_stride + (column + o) * column_stride), i * width + o)
                with k.range(real, width) as o:
                    to.store(k.zero(), i * width + o)


class _LargeGemmEmitter:
    """Emits the code of one product; ``w`` is the input with the panels."""

    def __init__(self, k: KernelBuilder, d: LargeGemm, epilogue: FusedEpilogue, a: int, w: int):
        self.k, self.d, self.epilogue = k, d, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t) for i, t in enumerate(epilogue.output_dtypes)]
        self.a, self.w = self.inputs[a], self.inputs[w]
        with k.range(k.first, k.last) as item:
            row_piece, part = item // d.column_pieces, item % d.column_pieces
            first, last = part * d.piece_panels, (part + 1) * d.piece_panels
            blocks = [(d.piece_rows, 0, d.m // d.piece_rows), (d.m % d.piece_rows, d.m // d.piece_rows, 1)]
            for rows, first_block, times in (one for one in blocks if one[0] * one[2]):
                with k.if_then((row_piece >= first_block) & (row_piece < first_block + times)):
                    for group in d.panel_groups():
                        with k.range(
                            first.maximum(group.first_panel), last.minimum(group.first_panel + group.num_panels)
                        ) as panel:
                            self.panel(row_piece * d.piece_rows, rows, group, (panel - group.first_panel))

    def panel(self, r0: Int64, rows: int, group: PanelGroup, number: Int64) -> None:
        """Emit a panel of a group and the rows from r0 on."""
        k, d = self.k, self.d
        lanes = d.column_panels.lanes
        column = number * (group.vectors * lanes) + group.first_column
        edge = group.first_column + group.num_panels * group.vectors * lanes > d.n
        sizes = split_evenly(rows, max_tile_rows(group.vectors))
        first_row = 0
        for size in dict.fromkeys(sizes):
            times = sizes.count(size)
            with k.range(times) as t:
                self.tile(r0 + (t * size + first_row), RegisterTile(size, group.vectors, lanes), column, edge)
            first_row += size * times

    def tile(self, row: Int64, tile: RegisterTile, column: Int64, edge: bool) -> None:
        """Emit the sums of a tile and the epilogue; at the ``edge`` some of its last columns may not exist."""
        k, d = self.k, self.d
        tile_sums = accumulate(
            k, tile, self.a + row * d.depth, d.depth, self.w + column * d.depth, [DepthLoop(d.depth, 1, tile.width)]
        )

        def store(mask: Mask) -> None:
            for r in range(tile.rows):
                for v in range(tile.vectors):
                    c = column + v * tile.lanes
                    self.epilogue.store(
                        k,
                        self.inputs,
                        self.outputs,
                        tile_sums[r][v],
                        (row + r) * d.n + c,
                        c,
                        mask if v == tile.vectors - 1 else None,
                    )

        if not edge:
            store(None)
            return
        with k.b.if_else((column + tile.width <= d.n).v) as (then_branch, else_branch):
            with then_branch:
                store(None)
            with else_branch:
                store(k.mask(d.n % tile.lanes, tile.lanes))


def emit_gemm(k: KernelBuilder, d: LargeGemm, epilogue: FusedEpilogue, a: int, w: int) -> None:
    """Emit the product. Work items are pieces."""
    _LargeGemmEmitter(k, d, epilogue, a, w)


def _prepare(
    ins: Specs, outs: Specs, epilogue: FusedEpilogue, where: tuple[int, int], attrs: Attrs
) -> PrepackedKernel | None:
    d = plan_large_gemm(ins, outs, where, attrs)
    if d is None:
        return None
    packing, work = kernel_code(pack_panels, d), kernel_code(emit_gemm, d, epilogue, *where)
    panels = len(d.column_panels.vectors)
    return PrepackedKernel(
        where[1],
        d.size,
        lambda i, o: [ParallelTask(packing.address, (i[0], o[0]), panels)],
        lambda i, o: [ParallelTask(work.address, (*i, *o), d.items)],
        "packed_gemm_large",
        (d.n, d.depth, d.is_transposed, d.column_panels),
    )


@prepacked_kernel("matmul")
def matmul_prepacked_large(ins: Specs, outs: Specs, attrs: Attrs) -> PrepackedKernel | None:
    """A product alone."""
    return _prepare(ins, outs, no_epilogue(2), (0, 1), attrs)


@prepacked_kernel("fused")
def fused_matmul_prepacked_large(ins: Specs, outs: Specs, attrs: Attrs) -> PrepackedKernel | None:
    """A product with its epilogue."""
    name, refs, matmul_attrs = attrs["program"][0]
    if name != "matmul" or any(ref[0] != "in" for ref in refs):
        return None
    return _prepare(ins, outs, fused_epilogue(ins, outs, attrs, -1), (refs[0][1], refs[1][1]), dict(matmul_attrs))
