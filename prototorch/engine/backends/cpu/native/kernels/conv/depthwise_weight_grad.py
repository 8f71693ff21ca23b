"""The weight gradient of a depthwise convolution, channels last.

A piece of work is a part of all output rows. For a few adjacent columns, one vector of channels and a row of taps the
sums stay in registers; between them they are stored in the part's own memory [taps][channels]. Finally the parts are
added in order. The parts depend on sizes alone, so that results are bitwise equal for any number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.depthwise_geometry import (
    MAX_TAPS,
    ColumnTiles,
    DepthwiseGeometry,
    DepthwiseInput,
    depthwise_geometry,
    tile_row,
    wants_prefetch,
)
from prototorch.engine.backends.cpu.native.kernels.conv.input_rows import clip_taps
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

_MAX_PARTS = 32
_MAX_PARTIAL_ELEMENTS = 1 << 22  # elements of all parts' sums, at most
_SERIAL_WORK = 1 << 16  # multiplications below which one part is enough
_TILE_COLUMNS = 16


def emit_partial_sums(k: KernelBuilder, g: DepthwiseGeometry, parts: int) -> None:
    """Sum one part each; work items are parts of the output rows of all images."""
    axes = g.phases[0]
    d, h, v = axes
    units = g.n * d.count * h.count
    tiles = (
        tile_row(v, _TILE_COLUMNS if num_vector_registers() >= 32 else _TILE_COLUMNS // 2)
        if v.taps <= MAX_TAPS
        else None
    )
    with k.range(k.first, k.last) as part:
        sums = k.shared.as_type("float32") + part * g.weight_elements
        k.for_each_vector(g.weight_elements, lambda i, m: sums.store(k.zero(k.lanes), i, m))
        with k.range(part * units // parts, (part + 1) * units // parts) as unit:
            oh, rest = unit % h.count, unit // h.count
            od, n = rest % d.count, rest // d.count
            source = DepthwiseInput(k, g, axes, k.pointer(0), n, od, oh, 1, 1)
            dy = k.pointer(1) + unit * (v.count * g.filters)
            planes = clip_taps(k, d, od * d.stride + d.offset)
            rows = clip_taps(k, h, oh * h.stride + h.offset)
            at = _RowGradient(k, g, source, dy, sums, (planes, rows))
            if tiles is None:
                with k.range(v.count) as o:
                    at.column(o)
            else:
                for c in tiles:
                    with k.range(c.num_tiles) as i:
                        at.tile(i * c.size + c.first, c)


class _RowGradient:
    """One output row: its gradients, its input, and the sums they are added to."""

    def __init__(
        self, k: KernelBuilder, g: DepthwiseGeometry, source: DepthwiseInput, dy: Pointer, sums: Pointer, inside: Any
    ):
        self.k, self.g, self.source, self.dy, self.sums = k, g, source, dy, sums
        self.planes, self.rows = inside

    def tile(self, first: Int64, columns: ColumnTiles) -> None:
        """Emit adjacent columns, all channels."""
        k, g, source = self.k, self.g, self.source
        v = g.phases[0][2]

        def vector(c: Int64, mask: Mask) -> None:
            if wants_prefetch(g, g.phases[0]):
                source.prefetch_next_row(source.start + (first * (v.stride * source.column_stride) + c), columns.size)
                for o in range(columns.size):
                    self.dy.prefetch((first + (v.count + o)) * g.filters + c)
            grads = [self.dy.load((first + o) * g.filters + c, k.lanes, mask) for o in range(columns.size)]
            with k.range(*self.planes) as td, k.range(*self.rows) as th:
                x, at = self._row(td, th)
                x_address, at = x + (first * (v.stride * source.column_stride) + c), at + c
                taps = sorted({t for _, pairs in columns.taps for _, t in pairs})
                sums = {t: at.load(t * g.padded_filters, k.lanes) for t in taps}
                for offset, pairs in columns.taps:
                    one = x_address.load(offset * source.column_stride, k.lanes, mask)
                    for o, t in pairs:
                        sums[t] = k.fma(one, grads[o], sums[t])
                for t in taps:
                    at.store(sums[t], t * g.padded_filters)

        k.for_each_vector(g.filters, vector)

    def column(self, o: Int64) -> None:
        """Emit one column; its taps are clipped at run time."""
        k, g = self.k, self.g
        v = g.phases[0][2]
        low, high = clip_taps(k, v, o * v.stride + v.offset)

        def vector(c: Int64, mask: Mask) -> None:
            grad = self.dy.load(o * g.filters + c, k.lanes, mask)
            with k.range(*self.planes) as td, k.range(*self.rows) as th:
                x, at = self._row(td, th)
                with k.range(low, high) as t:
                    one = x.load((o * v.stride + t * v.dilation) * self.source.column_stride + c, k.lanes, mask)
                    sum_address = at + (t * g.padded_filters + c)
                    sum_address.store(k.fma(one, grad, sum_address.load(0, k.lanes)))

        k.for_each_vector(g.filters, vector)

    def _row(self, td: Index, th: Index) -> tuple[Pointer, Pointer]:
        """Return the addresses of the input of a row of taps and of its sums."""
        g, source = self.g, self.source
        _, h, v = g.phases[0]
        x = source.start + (td * source.plane_stride + th * (h.dilation * source.row_stride))
        return x, self.sums + (td * h.taps + th) * (v.taps * g.padded_filters)


def add_partial_sums(k: KernelBuilder, g: DepthwiseGeometry, parts: int) -> None:
    """Add the parts and store the weights [filters][taps] (argument 2). Work items are vectors of filters."""
    sums, taps = k.shared.as_type("float32"), prod(g.kernel)
    with k.range(k.first, k.last) as item:
        c = item * k.lanes
        real = (c + k.lanes).minimum(g.filters) - c
        with k.range(taps) as tap:
            row = sums + (tap * g.padded_filters + c)
            total = k.variable(row.load(0, k.lanes))
            with k.range(1, parts) as i:
                total.value = total.value + row.load(i * g.weight_elements, k.lanes)
            row.store(total.value)
            with k.range(real) as f:
                k.pointer(2).store(row.load(f), (c + f) * taps + tap)


@native_kernel("conv_weight_grad", special=True)
def depthwise_weight_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """dw [filters, 1, *kernel] from x and dy."""
    x, dy = ins
    g = depthwise_geometry(x, outs[0], dy, attrs, False)
    if g is None:
        return None
    units = g.n * g.phases[0][0].count * g.phases[0][1].count
    parts = max(min(_MAX_PARTS, units, _MAX_PARTIAL_ELEMENTS // g.weight_elements), 1)
    if dy.size * prod(g.kernel) <= _SERIAL_WORK:
        parts = 1
    sums, adding = kernel_code(emit_partial_sums, g, parts), kernel_code(add_partial_sums, g, parts)
    local_bytes, shared_bytes = 4 * g.scratch_elements(g.phases[0], 1), 4 * g.weight_elements * parts
    vectors = g.padded_filters // vector_lanes("float32")

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        args = (*i, *o)
        return [
            ParallelTask(sums.address, args, parts, 1, local_bytes, shared_bytes),
            ParallelTask(adding.address, args, vectors, max(vectors // 8, 1), 0, shared_bytes),
        ]

    return TaskList(bind, "depthwise")
