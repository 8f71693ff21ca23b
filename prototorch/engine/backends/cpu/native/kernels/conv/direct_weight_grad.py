"""The weight gradient of a convolution, channels last.

A piece of work is a part of the batch's rows and one panel of filters. Its sums [taps][channels][filters] are in shared
memory; a register tile of them at a time is summed over the positions of a block of rows. Finally the parts are added
in order and stored in the layout of the weights. The parts depend on sizes alone, so that results are bitwise equal for
any number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    count_runs,
    max_tile_rows,
    split_evenly,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import (
    ConvGeometry,
    choose_panels,
    conv_axis,
    expand_to_3d,
)
from prototorch.engine.backends.cpu.native.kernels.conv.conv_request import is_channels_last_conv
from prototorch.engine.backends.cpu.native.kernels.conv.input_rows import InputRows, scratch_elements
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_MIN_PIECES = 16  # pieces of work
_PIECE_ELEMENTS = 1 << 16  # elements of the input rows of a block, at most
_MAX_PARTIAL_ELEMENTS = 1 << 24  # elements of all parts' sums, at most


class WeightGradTiling(NamedTuple):
    """How the sum is divided: parts of the blocks of rows; the sums of one part have ``size`` elements."""

    num_parts: int
    num_blocks: int  # of rows of an image plane
    num_units: int  # blocks of all images
    size: int
    merges_columns: bool  # the taps of a row and their channels are one contiguous loop


def _tile_weight_grad(g: ConvGeometry) -> WeightGradTiling:
    d, h, v = g.axes
    blocks = -(-h.count // g.piece_rows)
    units = g.n * d.count * blocks
    size = g.groups * g.taps * g.depth * g.panels.width
    pieces = g.groups * len(g.panels.vectors)
    parts = max(min(-(-_MIN_PIECES // pieces), units, max(_MAX_PARTIAL_ELEMENTS // size, 1)), 1)
    return WeightGradTiling(parts, blocks, units, size, g.groups == 1 and v.dilation == 1)


def _weight_grad_geometry(x: Spec, dy: Spec, w: Spec, attrs: Attrs) -> ConvGeometry:
    groups = attrs.get("groups", 1)
    kernel = expand_to_3d(w.shape[2:], 1)
    rows = zip(
        expand_to_3d(x.shape[2:], 1),
        expand_to_3d(dy.shape[2:], 1),
        kernel,
        expand_to_3d(attrs["strides"], 1),
        expand_to_3d(attrs["pads"], (0, 0)),
        expand_to_3d(attrs["dilation"], 1),
        strict=True,
    )
    axes = tuple(conv_axis(s, o, k, t, p[0], d) for s, o, k, t, p, d in rows)
    d, h, v = axes
    run = v.taps * x.shape[1] if groups == 1 and v.dilation == 1 else x.shape[1] // groups
    panels = choose_panels(dy.shape[1] // groups, run)
    line = v.extent(v.count) * x.shape[1] * d.extent(1)
    block = h.count
    while block > 1 and h.extent(block) * line > _PIECE_ELEMENTS:
        block = -(-block // 2)
    return ConvGeometry(x.shape[0], x.shape[1], dy.shape[1], groups, axes, panels, block, 1, (0, 0), kernel)  # type: ignore[arg-type]


class _PartialSums:
    """Emits the sums of one part."""

    def __init__(self, k: KernelBuilder, g: ConvGeometry, p: WeightGradTiling):
        self.k, self.g, self.p = k, g, p
        self.x, self.dy = k.pointer(0), k.pointer(1)
        d = g.axes[0]
        self.rows = k.local.as_type("float32") + scratch_elements(g)  # of dy: [positions of a block][width]
        count = len(g.panels.vectors)
        with k.range(k.first, k.last) as item:
            panel, rest = item % count, item // count
            self.group, part = rest % g.groups, rest // g.groups
            first_channel = 0
            for number, (vectors, times) in enumerate(count_runs(g.panels.vectors)):
                first_panel = sum(t for _, t in count_runs(g.panels.vectors)[:number])
                with k.if_then((panel >= first_panel) & (panel < first_panel + times)):
                    width = vectors * g.panels.lanes
                    channel = (panel - first_panel) * width + first_channel
                    at = part * p.size + self.group * (g.taps * g.depth * g.panels.width) + channel * (g.taps * g.depth)
                    self.sums = k.shared.as_type("float32") + at
                    size = g.taps * g.depth * width
                    clear(k, self.sums, size)
                    first, last = part * p.num_units // p.num_parts, (part + 1) * p.num_units // p.num_parts
                    with k.range(first, last) as unit:
                        block, rest = unit % p.num_blocks, unit // p.num_blocks
                        self.unit(rest // d.count, rest % d.count, block, channel, vectors)
                first_channel += vectors * times * g.panels.lanes

    def unit(self, n: Int64, od: Int64, block: Int64, channel: Int64, vectors: int) -> None:
        """Add the positions of one block of rows."""
        k, g = self.k, self.g
        d, h, v = g.axes
        oh = block * g.piece_rows
        row_count = (oh + g.piece_rows).minimum(h.count) - oh
        window = InputRows(k, g, self.x, n, od, oh, row_count)
        width = vectors * g.panels.lanes
        self.gather(((n * d.count + od) * h.count + oh) * v.count, row_count * v.count, channel, vectors)
        tile_rows = g.depth * v.taps if self.p.merges_columns else g.depth
        with k.range(d.taps) as td, k.range(h.taps) as th:
            plane = od * d.stride + (td * d.dilation + d.offset)
            first = oh * h.stride + (th * h.dilation + h.offset)
            low, high = Int64(k, k.word(0)), row_count
            if not h.is_inside:
                low = low.maximum((h.stride - 1) - first) // h.stride
                high = low.maximum(
                    row_count.minimum(Int64(k, k.word(0)).maximum((h.size + h.stride - 1) - first) // h.stride)
                )
            with k.if_then((plane >= 0) & (plane < d.size)), k.range(1 if self.p.merges_columns else v.taps) as tv:
                row = th * h.dilation + low * h.stride
                start = window.start + (td * (window.plane_step * window.plane_stride) + row * window.row_stride)
                start = start + (tv * (v.dilation * g.channels) + self.group * g.depth)
                at = self.sums + ((td * h.taps + th) * v.taps + tv) * (g.depth * width)
                depth = [
                    DepthLoop(high - low, h.stride * window.row_stride, v.count * width),
                    DepthLoop(v.count, v.stride * g.channels, width),
                ]
                self.tiles(start, at, self.rows + low * (v.count * width), depth, tile_rows, vectors)

    def gather(self, first: Int64, count: Any, channel: Int64, vectors: int) -> None:
        """Copy dy of the block's positions for the filters of the panel, contiguously; zeros beyond the filters of
        the group."""
        k, g = self.k, self.g
        lanes = g.panels.lanes
        width = vectors * lanes
        edge = g.width % lanes
        with k.range(count) as i:
            source = self.dy + ((first + i) * g.filters + (self.group * g.width + channel))
            for v in range(vectors):
                mask: Mask = None
                if edge and v == vectors - 1:
                    mask = k.mask(g.width - (channel + v * lanes), lanes)
                self.rows.store(source.load(v * lanes, lanes, mask), i * width + v * lanes)

    def tiles(self, x: Pointer, sums: Pointer, dy: Pointer, depth: list[DepthLoop], rows: int, vectors: int) -> None:
        """Emit all register tiles of one tap."""
        k, lanes = self.k, self.g.panels.lanes
        width = vectors * lanes
        first_row = 0
        for size, times in count_runs(tuple(split_evenly(rows, max_tile_rows(vectors)))):
            with k.range(times) as t:
                row = t * size + first_row
                tile = RegisterTile(size, vectors, lanes)
                at = sums + row * width
                start = [[at.load(r * width + v * lanes, lanes) for v in range(vectors)] for r in range(size)]
                tile_sums = accumulate(k, tile, x + row, 1, dy, depth, start)
                for r in range(size):
                    for v in range(vectors):
                        at.store(tile_sums[r][v], r * width + v * lanes)
            first_row += size * times


def emit_partial_sums(k: KernelBuilder, g: ConvGeometry, p: WeightGradTiling) -> None:
    """Sum the parts. Work items are parts of the rows and panels of filters."""
    _PartialSums(k, g, p)


def add_partial_sums(k: KernelBuilder, g: ConvGeometry, p: WeightGradTiling) -> None:
    """Add the parts and store the weights [filters][channels][taps]. Work items are panels of a group."""
    out = k.pointer(2)
    sums = k.shared.as_type("float32")
    count = len(g.panels.vectors)
    with k.range(k.first, k.last) as item:
        panel, group = item % count, item // count
        first_channel = first_panel = 0
        for vectors, times in count_runs(g.panels.vectors):
            with k.if_then((panel >= first_panel) & (panel < first_panel + times)):
                width = vectors * g.panels.lanes
                channel = (panel - first_panel) * width + first_channel
                base = sums + (group * (g.taps * g.depth * g.panels.width) + channel * (g.taps * g.depth))
                real = (channel + width).minimum(g.width) - channel
                with k.range(g.taps) as tap, k.range(g.depth) as c:
                    row = base + (tap * g.depth + c) * width
                    for v in range(vectors):
                        total = k.variable(row.load(v * g.panels.lanes, g.panels.lanes))
                        if p.num_parts > 1:
                            with k.range(1, p.num_parts) as i:
                                total.value = total.value + row.load(i * p.size + v * g.panels.lanes, g.panels.lanes)
                        row.store(total.value, v * g.panels.lanes)
                    to = out + ((group * g.width + channel) * (g.depth * g.taps) + c * g.taps + tap)
                    with k.range(real) as f:
                        to.store(row.load(f), f * (g.depth * g.taps))
            first_channel += vectors * times * g.panels.lanes
            first_panel += times


register_channels_last("native", "prefers", "conv_weight_grad", ins=(0, 1), outs=())


@native_kernel("conv_weight_grad")
def conv_weight_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """dw [filters, channels of a group, *kernel] from x and dy."""
    x, dy = ins
    if not is_channels_last_conv(x, outs[0], dy):
        return None
    g = _weight_grad_geometry(x, dy, outs[0], attrs)
    p = _tile_weight_grad(g)
    sums, adding = kernel_code(emit_partial_sums, g, p), kernel_code(add_partial_sums, g, p)
    pieces = g.groups * len(g.panels.vectors)
    local_bytes = 4 * (scratch_elements(g) + g.piece_rows * g.axes[2].count * max(g.panels.vectors) * g.panels.lanes)
    shared_bytes = 4 * p.size * p.num_parts

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        args = (*i, *o)
        return [
            ParallelTask(sums.address, args, pieces * p.num_parts, 1, local_bytes, shared_bytes),
            ParallelTask(adding.address, args, pieces, 1, 0, shared_bytes),
        ]

    return TaskList(bind, "direct")
