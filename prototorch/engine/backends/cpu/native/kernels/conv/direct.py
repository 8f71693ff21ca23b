"""Direct convolution and its input gradient, channels last: implicit GEMM by register tiles over image rows.

A piece of work is some rows of one image (see `input_rows.py`). Weights are packed into panels
[panel][taps][channels][width] first. With unit dilation and one group, adjacent taps and their channels are one
contiguous run of the depth.
"""

from __future__ import annotations

from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last, register_fusion_role
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, BindFn, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    count_runs,
    max_tile_rows,
    split_evenly,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import (
    PIECE_ELEMENTS,
    ConvGeometry,
    conv_geometries,
)
from prototorch.engine.backends.cpu.native.kernels.conv.conv_request import (
    CONV_OPS,
    ConvRequest,
    is_channels_last_conv,
    register_convolution,
)
from prototorch.engine.backends.cpu.native.kernels.conv.input_rows import InputRows, clip_taps, scratch_elements
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask


def pack_weights(k: KernelBuilder, g: ConvGeometry, to_output: bool) -> None:
    """Pack weights (argument 0) into panels, in shared memory or (``to_output``) argument 1. Work items are taps of
    a group."""
    w, panels = k.pointer(0), k.pointer(1) if to_output else k.shared.as_type("float32")
    d, h, v = g.axes
    out_step, in_step = g.strides
    with k.range(k.first, k.last) as item:
        group, tap = item // g.taps, item % g.taps
        td, th, tv = tap // (h.taps * v.taps), (tap // v.taps) % h.taps, tap % v.taps
        tap_offset = ((td * d.tap_step + d.first_tap) * g.kernel[1] + (th * h.tap_step + h.first_tap)) * g.kernel[2] + (
            tv * v.tap_step + v.first_tap
        )
        base = w + (tap_offset + group * _group_step(g))
        first_filter = 0
        for vectors in g.panels.vectors:
            width = vectors * g.panels.lanes
            real = min(width, g.width - first_filter)
            to = panels + (
                group * (g.panels.width * g.taps * g.depth) + tap * (g.depth * width) + first_filter * g.taps * g.depth
            )
            with k.range(g.depth) as i:
                with k.range(real) as o:
                    to.store(base.load(i * in_step + (o + first_filter) * out_step), i * width + o)
                with k.range(real, width) as o:
                    to.store(k.zero(), i * width + o)
            first_filter += width


def _group_step(g: ConvGeometry) -> int:
    """Return the elements of the weights from one group to the next; filters come first in them, forward and
    backward."""
    out_step, in_step = g.strides
    return g.width * out_step if out_step > in_step else g.depth * in_step


class _DirectConvolution:
    """Emits the code of one geometry. ``where`` is the input x; ``packed_input`` the one with the packed weights,
    None if they are in shared memory."""

    def __init__(
        self,
        k: KernelBuilder,
        g: ConvGeometry,
        epilogue: FusedEpilogue,
        where: int,
        packed_input: int | None,
        nontemporal: bool,
    ):
        self.k, self.g, self.epilogue = k, g, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t, nontemporal) for i, t in enumerate(epilogue.output_dtypes)]
        self.x = self.inputs[where]
        self.w = k.shared.as_type("float32") if packed_input is None else self.inputs[packed_input]
        d, h, _ = g.axes
        blocks = -(-h.count // g.piece_rows)
        with k.range(k.first, k.last) as item:
            share, rest = item % g.panel_shares, item // g.panel_shares
            block, rest = rest % blocks, rest // blocks
            self.od, self.n = rest % d.count, rest // d.count
            self.oh = block * g.piece_rows
            self.many = (self.oh + g.piece_rows).minimum(h.count) - self.oh
            self.window = InputRows(k, g, self.x, self.n, self.od, self.oh, self.many, max_tile_height(g))
            self.panels(share)

    def panels(self, share: Int64) -> None:
        """Emit the panels of the piece's share, group by group."""
        k, g = self.k, self.g
        each = -(-len(g.panels.vectors) * g.groups // g.panel_shares)
        run = list(count_runs(g.panels.vectors))
        with k.range(g.groups) as group:
            first_panel = 0
            for vectors, times in run:
                with k.range(times) as t:
                    number = group * len(g.panels.vectors) + (t + first_panel)
                    is_in_share = (number // each).equals(share) if g.panel_shares > 1 else None
                    channel = (t + first_panel) * (vectors * g.panels.lanes) if first_panel == 0 else None
                    first = (
                        channel
                        if channel is not None
                        else t * (vectors * g.panels.lanes) + self._first_channel(first_panel)
                    )
                    if is_in_share is None:
                        self.panel(group, first, vectors)
                    else:
                        with k.if_then(is_in_share):
                            self.panel(group, first, vectors)
                first_panel += times

    def _first_channel(self, panels: int) -> int:
        return sum(self.g.panels.vectors[:panels]) * self.g.panels.lanes

    def panel(self, group: Int64, channel: Int64, vectors: int) -> None:
        """Emit all rows of the piece for one panel of a group."""
        k, g = self.k, self.g
        lanes = g.panels.lanes
        d, h, v = g.axes
        w = self.w + (group * (g.panels.width * g.taps * g.depth) + channel * (g.taps * g.depth))
        edge = g.width % lanes
        width = vectors * lanes
        per = g.depth * width
        runs = [(size, times) for size, times in count_runs(tuple(split_evenly(v.count, max_tile_rows(vectors))))]
        planes = clip_taps(k, d, self.od * d.stride + d.offset)
        with k.range(self.many) as r:
            rows = clip_taps(k, h, (self.oh + r) * h.stride + h.offset)
            line = self.window.start + (r * (h.stride * self.window.row_stride) + group * g.depth)
            line = line + (
                planes[0] * (self.window.plane_step * self.window.plane_stride)
                + rows[0] * (h.dilation * self.window.row_stride)
            )
            tap_weights = w + (planes[0] * (h.taps * v.taps * per) + rows[0] * (v.taps * per))
            depth = self.depth(width, planes[1] - planes[0], rows[1] - rows[0])
            out_row = (
                (self.n * d.out + (self.od * d.step + d.start)) * h.out + ((self.oh + r) * h.step + h.start)
            ) * v.out
            first_column = 0
            for size, times in runs:
                with k.range(times) as t:
                    column = t * size + first_column
                    tile = RegisterTile(size, vectors, lanes)
                    step = v.stride * self.window.column_stride
                    sums = accumulate(k, tile, line + column * step, step, tap_weights, depth)
                    out_offset = (out_row + (column * v.step + v.start)) * g.filters + group * g.width + channel
                    self.store(sums, tile, out_offset, group * g.width + channel, channel, edge)
                first_column += size * times

    def depth(self, width: int, planes: Any, rows: Index) -> list[DepthLoop]:
        """Return the loops over taps and channels; adjacent columns and their channels are one loop where they are
        contiguous."""
        g = self.g
        _, h, v = g.axes
        per = g.depth * width
        window = self.window
        loops = [
            DepthLoop(planes, window.plane_step * window.plane_stride, h.taps * v.taps * per),
            DepthLoop(rows, h.dilation * window.row_stride, v.taps * per),
        ]
        if g.groups == 1 and v.dilation == 1 and window.column_stride == g.channels:
            loops.append(DepthLoop(v.taps * g.depth, 1, width))
        else:
            loops += [DepthLoop(v.taps, v.dilation * window.column_stride, per), DepthLoop(g.depth, 1, width)]
        outer_loops = [one for one in loops[:-1] if not (isinstance(one.count, int) and one.count == 1)]
        return outer_loops + loops[-1:] if g.taps else [DepthLoop(0, 0, 0)]

    def store(
        self, sums: list[list[Num]], tile: RegisterTile, offset: Int64, channel: Int64, inner: Int64, edge: int
    ) -> None:
        """Store the sums of a tile from ``offset`` on, columns ``v.step`` positions apart."""
        k, g = self.k, self.g
        step = g.axes[2].step * g.filters
        last = tile.vectors - 1

        def write(mask: Mask) -> None:
            for r in range(tile.rows):
                for v in range(tile.vectors):
                    self.epilogue.store(
                        k,
                        self.inputs,
                        self.outputs,
                        sums[r][v],
                        offset + (r * step + v * tile.lanes),
                        channel + v * tile.lanes,
                        mask if v == last else None,
                    )

        if not edge:
            write(None)
            return
        if tile.vectors == g.panels.vectors[-1] and g.panels.vectors.count(tile.vectors) == 1:
            write(k.mask(edge, tile.lanes))
            return
        if tile.vectors != g.panels.vectors[-1]:
            write(None)
            return
        with k.b.if_else((inner + tile.width <= g.width).v) as (then_branch, else_branch):
            with then_branch:
                write(None)
            with else_branch:
                write(k.mask(edge, tile.lanes))


def emit_convolution(
    k: KernelBuilder, g: ConvGeometry, epilogue: FusedEpilogue, where: int, packed_input: int | None, nontemporal: bool
) -> None:
    """Emit a convolution. Work items are pieces of rows. ``nontemporal``: results are stored past the caches."""
    _DirectConvolution(k, g, epilogue, where, packed_input, nontemporal)


def max_tile_height(g: ConvGeometry) -> int:
    """Return the rows of the highest register tile."""
    return max(split_evenly(g.axes[2].count, max_tile_rows(vectors))[0] for vectors in g.panels.vectors)


def _work(g: ConvGeometry, request: ConvRequest, outs: Specs, packed_input: int | None) -> BindFn:
    address_of = choose_nontemporal(
        lambda nontemporal: kernel_code(
            emit_convolution, g, request.epilogue, request.operands[0], packed_input, nontemporal
        ),
        outs,
        g.width,
    )
    items = g.n * g.axes[0].count * -(-g.axes[1].count // g.piece_rows) * g.panel_shares
    local_bytes, shared_bytes = (
        4 * scratch_elements(g, max_tile_height(g)),
        4 * g.packed_elements if packed_input is None else 0,
    )
    return lambda i, o: [ParallelTask(address_of(i, o), (*i, *o), items, 1, local_bytes, shared_bytes)]


def _tasks(phases: list[ConvGeometry], request: ConvRequest, outs: Specs) -> TaskList:
    steps = [(g, kernel_code(pack_weights, g, False), _work(g, request, outs, None)) for g in phases]

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        tasks = []
        for g, packing, work in steps:
            if g.taps:
                tasks.append(
                    ParallelTask(
                        packing.address, (i[request.operands[1]],), g.groups * g.taps, 1, 0, 4 * g.packed_elements
                    )
                )
            tasks += work(i, o)
        return tasks

    return TaskList(bind, "direct")


def _parts(phases: list[ConvGeometry], request: ConvRequest, outs: Specs) -> PrepackedKernel:
    """Return the same kernel with weights packed ahead, those of one phase behind those of the other."""
    w = request.operands[1]
    starts = [sum(g.packed_elements for g in phases[:n]) for n in range(len(phases))]
    packing = [kernel_code(pack_weights, g, True) for g in phases]
    works = [_work(g, request, outs, w) for g in phases]

    def arrange(i: Addresses, o: Addresses) -> list[ParallelTask]:
        return [
            ParallelTask(p.address, (i[0], o[0] + 4 * start), g.groups * g.taps)
            for g, p, start in zip(phases, packing, starts, strict=True)
            if g.taps
        ]

    def work(i: Addresses, o: Addresses) -> list[ParallelTask]:
        return [
            task
            for one, start in zip(works, starts, strict=True)
            for task in one([*i[:w], i[w] + 4 * start, *i[w + 1 :]], o)
        ]

    return PrepackedKernel(
        w,
        sum(g.packed_elements for g in phases),
        arrange,
        work,
        "direct",
        tuple(g._replace(n=0, piece_rows=0, panel_shares=0) for g in phases),
    )


def _find_geometries(ins: Specs, outs: Specs, request: ConvRequest) -> list[ConvGeometry] | None:
    x, w = (ins[i] for i in request.operands)
    return (
        conv_geometries(x, w, outs[0], request.attrs, request.backward)
        if is_channels_last_conv(x, w, outs[0])
        else None
    )


@register_convolution(native_kernel)
def direct_convolution(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
    """Any channels-last convolution with its epilogue."""
    phases = _find_geometries(ins, outs, request)
    return None if phases is None else _tasks(phases, request, outs)


@register_convolution(prepacked_kernel)
def prepacked_convolution(ins: Specs, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    """Any channels-last convolution whose weights are packed once."""
    phases = _find_geometries(ins, outs, request)
    return None if phases is None else _parts(phases, request, outs)


def _smaller_geometries(ins: Specs, outs: Specs, request: ConvRequest) -> list[ConvGeometry] | None:
    """Return the geometries with pieces of a quarter of the size, or None if that makes no difference."""
    phases = _find_geometries(ins, outs, request)
    x, w = (ins[i] for i in request.operands)
    if phases is None:
        return None
    smaller = conv_geometries(x, w, outs[0], request.attrs, request.backward, PIECE_ELEMENTS // 4)
    return smaller if smaller != phases else None


@register_convolution(native_kernel, level="smaller")
def smaller_direct_convolution(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
    """The same in smaller pieces of work; chosen only by autotuning."""
    phases = _smaller_geometries(ins, outs, request)
    return None if phases is None else _tasks(phases, request, outs)


@register_convolution(prepacked_kernel, level="smaller")
def smaller_prepacked_convolution(ins: Specs, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    """The same with prepacked weights; chosen only by autotuning."""
    phases = _smaller_geometries(ins, outs, request)
    return None if phases is None else _parts(phases, request, outs)


register_channels_last("smaller", "prefers", *CONV_OPS, ins=(0,), outs=(0,))
register_channels_last("smaller", "follows", "fused")
register_channels_last("native", "prefers", *CONV_OPS, ins=(0,), outs=(0,))
register_fusion_role("native", "anchor", *CONV_OPS)
