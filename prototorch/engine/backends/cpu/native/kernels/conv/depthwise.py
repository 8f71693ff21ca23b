"""Depthwise convolutions and their input gradients, channels last: each group has one input channel.

Vectors run along the channels. A register tile is a few adjacent output columns; each input column is loaded once for
all of them. Which columns have taps outside the image is known when the code is emitted: their tiles are emitted
separately, without those taps, so that nothing is padded or copied. Weights are reordered to [taps][channels] first.

With a depth multiplier the rows of a piece are copied first: each channel as often as it is read or, for the gradient,
those that are for_each_tap_row one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import BindFn, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.types import Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import ConvAxis
from prototorch.engine.backends.cpu.native.kernels.conv.conv_request import (
    ConvRequest,
    register_convolution,
)
from prototorch.engine.backends.cpu.native.kernels.conv.depthwise_geometry import (
    MAX_TAPS,
    Axes,
    ColumnTiles,
    DepthwiseGeometry,
    DepthwiseInput,
    depthwise_geometry,
    max_tile_columns,
    round_up_to_lanes,
    tile_row,
    wants_prefetch,
)
from prototorch.engine.backends.cpu.native.kernels.conv.input_rows import clip_taps
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

_SERIAL_WORK = 1 << 16  # multiplications below which one piece is enough


def reorder_weights(k: KernelBuilder, parts: int, filters: int, taps: int, to_output: bool) -> None:
    """Reorder weights [filters][parts][taps] (argument 0) to [parts][taps][filters], in shared memory or
    (``to_output``) argument 1. Work items are parts."""
    padded_filters = round_up_to_lanes(filters)
    with k.range(k.first, k.last) as j:
        to = (k.pointer(1) if to_output else k.shared.as_type("float32")) + j * (taps * padded_filters)
        transpose_into(k, k.pointer(0) + j * taps, filters, taps, parts * taps, to, padded_filters)


class _DepthwiseEmitter:
    """Emits the code of one piece of work: some rows of one image. ``w`` is the input with the reordered weights,
    None if they are in shared memory."""

    def __init__(
        self, k: KernelBuilder, g: DepthwiseGeometry, epilogue: FusedEpilogue, x: int, w: int | None, nontemporal: bool
    ):
        self.k, self.g, self.epilogue = k, g, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t, nontemporal) for i, t in enumerate(epilogue.output_dtypes)]
        self.w = k.shared.as_type("float32") if w is None else self.inputs[w]
        with k.range(k.first, k.last) as item:
            block, rest = item % g.num_blocks, item // g.num_blocks
            od, n, oh = rest % g.num_planes, rest // g.num_planes, block * g.piece_rows
            for axes in g.phases:
                with k.if_then(od < axes[0].count):
                    self.phase(axes, self.inputs[x], n, od, oh)

    def phase(self, axes: Axes, x: Pointer, n: Int64, od: Int64, oh: Int64) -> None:
        """Emit the rows of one phase."""
        k, g = self.k, self.g
        d, h, v = axes
        count = (oh + g.piece_rows).minimum(h.count) - oh
        source = DepthwiseInput(k, g, axes, x, n, od, oh, count, g.piece_rows)
        planes = clip_taps(k, d, od * d.stride + d.offset)
        tiles = tile_row(v, max_tile_columns(v.taps)) if v.taps <= MAX_TAPS else None
        with k.range(count) as r:
            rows = clip_taps(k, h, (oh + r) * h.stride + h.offset)
            line = source.start + r * (h.stride * source.row_stride)
            out_row = ((n * d.out + (od * d.step + d.start)) * h.out + ((oh + r) * h.step + h.start)) * v.out
            if tiles is None:
                with k.range(v.count) as o:
                    self.column(axes, _TapRows(source, line, planes, rows), o, out_row)
            else:
                for c in tiles:
                    with k.range(c.num_tiles) as i:
                        self.tile(axes, _TapRows(source, line, planes, rows), i * c.size + c.first, c, out_row)

    def for_each_tap_row(self, axes: Axes, rows: _TapRows, step: Callable[[Pointer, Pointer], None]) -> None:
        """Emit ``step(x, w)`` for each row of taps: the address of its tap 0 of column 0 of channel 0, and of its
        weights."""
        k, g = self.k, self.g
        d, h, _ = axes
        source = rows.source
        with k.range(g.summed_channels) as j, k.range(*rows.planes) as td, k.range(*rows.rows) as th:
            x = rows.start + (j * source.part_stride + td * source.plane_stride + th * (h.dilation * source.row_stride))
            row = (j * g.kernel[0] + (td * d.tap_step + d.first_tap)) * g.kernel[1] + (th * h.tap_step + h.first_tap)
            step(x, self.w + row * (g.kernel[2] * g.padded_filters))

    def tile(self, axes: Axes, rows: _TapRows, first: Int64, columns: ColumnTiles, out_row: Int64) -> None:
        """Emit all channels of adjacent columns."""
        k, g, v = self.k, self.g, axes[2]

        def vector(c: Int64, mask: Mask) -> None:
            sums = [k.variable(k.zero(k.lanes)) for _ in range(columns.size)]

            def step(x: Pointer, w: Pointer) -> None:
                taps = sorted({t for _, pairs in columns.taps for _, t in pairs})
                ws = {t: w.load(c + (t * v.tap_step + v.first_tap) * g.padded_filters, k.lanes) for t in taps}
                x_address = x + (first * (v.stride * rows.source.column_stride) + c)
                for at, pairs in columns.taps:
                    one = x_address.load(at * rows.source.column_stride, k.lanes, mask)
                    for o, t in pairs:
                        sums[o].value = k.fma(one, ws[t], sums[o].value)

            if wants_prefetch(g, axes):
                rows.source.prefetch_next_row(
                    rows.start + (first * (v.stride * rows.source.column_stride) + c), columns.size
                )
            self.for_each_tap_row(axes, rows, step)
            for o, total in enumerate(sums):
                self.store(v, out_row, first + o, c, total.value, mask)

        k.for_each_vector(g.filters, vector)

    def column(self, axes: Axes, rows: _TapRows, o: Int64, out_row: Int64) -> None:
        """Emit all channels of one column; its taps are clipped at run time."""
        k, g, v = self.k, self.g, axes[2]
        low, high = clip_taps(k, v, o * v.stride + v.offset)

        def vector(c: Int64, mask: Mask) -> None:
            total = k.variable(k.zero(k.lanes))

            def step(x: Pointer, w: Pointer) -> None:
                with k.range(low, high) as t:
                    one = x.load((o * v.stride + t * v.dilation) * rows.source.column_stride + c, k.lanes, mask)
                    weight = w.load((t * v.tap_step + v.first_tap) * g.padded_filters + c, k.lanes)
                    total.value = k.fma(one, weight, total.value)

            self.for_each_tap_row(axes, rows, step)
            self.store(v, out_row, o, c, total.value, mask)

        k.for_each_vector(g.filters, vector)

    def store(self, v: ConvAxis, out_row: Int64, o: Int64, c: Int64, value: Num, mask: Mask) -> None:
        """Store a vector of column o, through the epilogue."""
        at = (out_row + (o * v.step + v.start)) * self.g.filters + c
        self.epilogue.store(self.k, self.inputs, self.outputs, value, at, c, mask)


class _TapRows(NamedTuple):
    """Where an output row finds its input: the address of tap 0, and the ranges of plane and row taps inside the
    input."""

    source: DepthwiseInput
    start: Pointer
    planes: tuple[Any, Any]
    rows: tuple[Any, Any]


def emit_convolution(
    k: KernelBuilder, g: DepthwiseGeometry, epilogue: FusedEpilogue, x: int, w: int | None, nontemporal: bool
) -> None:
    """Emit the convolution. Work items are pieces."""
    _DepthwiseEmitter(k, g, epilogue, x, w, nontemporal)


def _work(g: DepthwiseGeometry, request: ConvRequest, outs: Specs, is_prepacked: bool) -> BindFn:
    x, w = request.operands
    work = choose_nontemporal(
        lambda nontemporal: kernel_code(
            emit_convolution, g, request.epilogue, x, w if is_prepacked else None, nontemporal
        ),
        outs,
        g.filters,
    )
    items = g.n * g.num_planes * g.num_blocks
    outputs = sum(prod(a.count for a in axes) for axes in g.phases)
    grain = items if g.n * outputs * g.filters * prod(g.kernel) * g.summed_channels <= _SERIAL_WORK else 1
    local_bytes = 4 * max(g.scratch_elements(axes, g.piece_rows) for axes in g.phases)
    shared_bytes = 0 if is_prepacked else 4 * g.weight_elements
    return lambda i, o: [ParallelTask(work(i, o), (*i, *o), items, grain, local_bytes, shared_bytes)]


def _find_geometry(ins: Specs, outs: Specs, request: ConvRequest) -> DepthwiseGeometry | None:
    x, w = (ins[i] for i in request.operands)
    return depthwise_geometry(x, w, outs[0], request.attrs, request.backward)


@register_convolution(native_kernel, special=True)
def depthwise(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
    """A depthwise convolution with its epilogue."""
    g = _find_geometry(ins, outs, request)
    if g is None:
        return None
    reordering, work = (
        kernel_code(reorder_weights, g.summed_channels, g.filters, prod(g.kernel), False),
        _work(g, request, outs, False),
    )
    return TaskList(
        lambda i, o: [
            ParallelTask(reordering.address, (i[request.operands[1]],), g.summed_channels, 1, 0, 4 * g.weight_elements),
            *work(i, o),
        ]
    )


@register_convolution(prepacked_kernel, special=True)
def prepacked_depthwise(ins: Specs, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    """A depthwise convolution whose weights are reordered once, in the setup of the plan."""
    g = _find_geometry(ins, outs, request)
    if g is None:
        return None
    reordering = kernel_code(reorder_weights, g.summed_channels, g.filters, prod(g.kernel), True)
    return PrepackedKernel(
        request.operands[1],
        g.weight_elements,
        lambda i, o: [ParallelTask(reordering.address, (i[0], o[0]), g.summed_channels)],
        _work(g, request, outs, True),
        "depthwise",
        (g.summed_channels, g.filters, g.kernel),
    )
