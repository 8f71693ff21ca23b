"""Depthwise convolutions and their input gradients, channels last: each group has one input channel.

Vectors run along the channels. A register tile is a few adjacent output columns; each input column is loaded once for
all of them. Which columns have taps outside the image is known when the code is emitted: their tiles are emitted
separately, without those taps, so that nothing is padded or copied. Weights are reordered to [taps][channels] first.

With a depth multiplier the rows of a piece are copied first: each channel as often as it is read or, for the gradient,
those that are summed one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import BindFn, TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.backends.cpu.native.kernels.common.register_tile import split_evenly
from prototorch.backends.cpu.native.kernels.conv.conv_geometry import ConvAxis, conv_axis, expand_to_3d, input_grad_axes
from prototorch.backends.cpu.native.kernels.conv.direct import (
    ConvRequest,
    Specs,
    is_channels_last_conv,
    register_convolution,
)
from prototorch.backends.cpu.native.kernels.conv.input_rows import clip_taps
from prototorch.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_MIN_PIECES = 32  # pieces of work
_SERIAL_WORK = 1 << 16  # multiplications below which one piece is enough
_CACHED_ELEMENTS = 1 << 16  # elements of an image up to which the hardware prefetcher suffices
_MAX_EDGE_TILES = 6  # different tiles of a row, at most
MAX_TAPS = 12  # taps along a row whose weights are held in registers, at most

Axes = tuple[ConvAxis, ConvAxis, ConvAxis]


class DepthwiseGeometry(NamedTuple):
    """A depthwise convolution (or the phases of its input gradient) from ``channels`` to ``filters``: each output
    sums ``summed_channels``, each channel feeds ``multiplier`` outputs; one of the two is 1."""

    n: int
    channels: int
    filters: int
    summed_channels: int
    multiplier: int
    phases: tuple[Axes, ...]
    kernel: tuple[int, int, int]
    piece_rows: int  # output rows of a piece

    @property
    def padded_filters(self) -> int:
        """Output channels, rounded up to whole vectors."""
        return _round_up_to_lanes(self.filters)

    @property
    def weight_elements(self) -> int:
        """Elements of the reordered weights [summed_channels][taps][padded_filters]."""
        return self.summed_channels * prod(self.kernel) * self.padded_filters

    @property
    def num_planes(self) -> int:
        """Output planes of the largest phase."""
        return max(d.count for d, _, _ in self.phases)

    @property
    def num_blocks(self) -> int:
        """Pieces of work of a plane."""
        return -(-max(h.count for _, h, _ in self.phases) // self.piece_rows)

    def scratch_elements(self, axes: Axes, rows: int) -> int:
        """Elements of the copied input of ``rows`` output rows; 0 if it is read in place."""
        d, h, v = axes
        return (
            d.taps * h.extent(rows) * v.size * self.filters * self.summed_channels
            if self.summed_channels * self.multiplier > 1
            else 0
        )


def _round_up_to_lanes(channels: int) -> int:
    lanes = vector_lanes("float32")
    return -(-channels // lanes) * lanes


def depthwise_geometry(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], backward: bool) -> DepthwiseGeometry | None:
    """Return the geometry of the convolution that makes y of x, or None if it is not depthwise. For an input
    gradient x is the gradient of the output."""
    groups = attrs.get("groups", 1)
    if not is_channels_last_conv(x, w, y) or groups == 1 or w.shape[1] != 1:
        return None
    kernel = expand_to_3d(w.shape[2:], 1)
    rows = zip(expand_to_3d(x.shape[2:], 1), expand_to_3d(y.shape[2:], 1), kernel, expand_to_3d(attrs["strides"], 1),
               expand_to_3d(attrs["pads"], (0, 0)), expand_to_3d(attrs["dilation"], 1), strict=True)  # fmt: skip
    if backward:
        axes_by_dim = [input_grad_axes(o, s, k, t, p[0], d) for s, o, k, t, p, d in rows]
    else:
        axes_by_dim = [[conv_axis(s, o, k, t, p[0], d)] for s, o, k, t, p, d in rows]
    phases = tuple(axes for axes in product(*axes_by_dim) if all(a.count for a in axes))
    filters_per_group = w.shape[0] // groups
    parts, copies = (filters_per_group, 1) if backward else (1, filters_per_group)
    g = DepthwiseGeometry(x.shape[0], x.shape[1], y.shape[1], parts, copies, phases, kernel, 1)  # type: ignore[arg-type]
    return g._replace(piece_rows=_rows_of_piece(g))


def _rows_of_piece(g: DepthwiseGeometry) -> int:
    rows = max(h.count for _, h, _ in g.phases)
    block = rows
    while block > 1 and g.n * g.num_planes * -(-rows // block) < _MIN_PIECES:
        block = -(-block // 2)
    return block


def arrange(k: KernelBuilder, parts: int, filters: int, taps: int, to_output: bool) -> None:
    """Reorder weights [filters][parts][taps] (argument 0) to [parts][taps][filters], in shared memory or
    (``to_output``) argument 1. Work items are parts."""
    padded_filters = _round_up_to_lanes(filters)
    with k.range(k.first, k.last) as j:
        to = (k.pointer(1) if to_output else k.shared.as_type("float32")) + j * (taps * padded_filters)
        transpose_into(k, k.pointer(0) + j * taps, filters, taps, parts * taps, to, padded_filters)


def wants_prefetch(g: DepthwiseGeometry, axes: Axes) -> bool:
    """Whether input rows must be prefetched: columns are too far apart for the hardware prefetcher."""
    d, h, v = axes
    return g.summed_channels * g.multiplier == 1 and d.size * h.size * v.size * g.channels >= _CACHED_ELEMENTS


class DepthwiseInput:
    """The input of output rows ``oh`` ... of plane ``od`` of image ``n``: the address of tap 0 of column 0 of row
    ``oh``, and the strides to the next column, row, plane tap and summed channel."""

    def __init__(self, k: KernelBuilder, g: DepthwiseGeometry, axes: Axes, x: Pointer, n: Int64, od: Int64, oh: Int64,
                 count: Any, rows: int):  # fmt: skip
        self.axes = axes
        d, h, v = axes
        image = x + n * (d.size * h.size * v.size * g.channels)
        plane, top = od * d.stride + d.offset, oh * h.stride + h.offset
        self.part_stride = v.size * g.filters
        if not g.scratch_elements(axes, rows):
            self.column_stride, self.row_stride = g.channels, v.size * g.channels
            self.plane_stride = d.dilation * h.size * self.row_stride
            self.start = image + ((plane * h.size + top) * self.row_stride + v.offset * self.column_stride)
            return
        self.column_stride, self.row_stride = g.filters, g.summed_channels * self.part_stride
        self.plane_stride = h.extent(rows) * self.row_stride
        to = k.local.as_type("float32")
        self.start = to + v.offset * self.column_stride
        low, high = clip_taps(k, d, plane)
        first = Int64(k, k.word(0)).maximum(0 - top)
        last = (top + ((count - 1) * h.stride + (h.taps - 1) * h.dilation + 1)).minimum(h.size) - top
        with k.range(low, high) as td, k.range(first, last) as r:
            source = image + ((plane + td * d.dilation) * h.size + (top + r)) * (v.size * g.channels)
            target = to + (td * self.plane_stride + r * self.row_stride)
            if g.multiplier > 1:
                with k.range(v.size * g.channels) as i:
                    one = source.load(i)
                    with k.range(g.multiplier) as j:
                        target.store(one, i * g.multiplier + j)
            else:
                with k.range(g.summed_channels) as j, k.range(v.size * g.filters) as i:
                    target.store(source.load(i * g.summed_channels + j), i + j * self.part_stride)

    def prefetch_next_row(self, x: Pointer, columns: int) -> None:
        """Prefetch what only the next output row sees, for so many columns; ``x`` is the address of this row's tap
        0."""
        _, h, v = self.axes
        for row in range(h.stride):
            for i in range(columns * v.stride):
                x.prefetch(((h.taps - 1) * h.dilation + 1 + row) * self.row_stride + i * self.column_stride)


def taps_by_input_column(v: ConvAxis, columns: Any) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return, for each input column that the given output columns see, its distance from tap 0 of the first of them
    and the (output column, tap) pairs that use it."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    first = columns[0]
    for o in columns:
        for t in range(v.taps):
            at = o * v.stride + t * v.dilation
            if 0 <= at + v.offset < v.size:
                pairs.setdefault(at - first * v.stride, []).append((o - first, t))
    return sorted(pairs.items())


class ColumnTiles(NamedTuple):
    """Adjacent tiles of equal size with equal taps: ``num_tiles`` from column ``first`` on."""

    first: int
    size: int
    num_tiles: int
    taps: Any


def tile_row(v: ConvAxis, largest: int) -> list[ColumnTiles] | None:
    """Split a row into tiles, or return None if too many of them have taps outside the image."""
    tiles: list[ColumnTiles] = []
    first = 0
    for size in split_evenly(v.count, largest):
        pairs = taps_by_input_column(v, range(first, first + size))
        last = tiles[-1] if tiles else None
        if last is not None and (last.size, last.taps) == (size, pairs):
            tiles[-1] = last._replace(num_tiles=last.num_tiles + 1)
        else:
            tiles.append(ColumnTiles(first, size, 1, pairs))
        first += size
    return tiles if len(tiles) <= _MAX_EDGE_TILES else None


def max_tile_columns(taps: int) -> int:
    """Return how many columns fit into registers beside the weights of so many taps."""
    return max(min(num_vector_registers() - taps - 3, 8), 2)


class _DepthwiseEmitter:
    """Emits the code of one piece of work: some rows of one image. ``w`` is the input with the reordered weights,
    None if they are in shared memory."""

    def __init__(self, k: KernelBuilder, g: DepthwiseGeometry, epilogue: FusedEpilogue, x: int, w: int | None,
                 nontemporal: bool):  # fmt: skip
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

    def summed(self, axes: Axes, rows: _TapRows, step: Callable[[Pointer, Pointer], None]) -> None:
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

        def vector(c: Int64, mask: Num | None) -> None:
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
            self.summed(axes, rows, step)
            for o, total in enumerate(sums):
                self.store(v, out_row, first + o, c, total.value, mask)

        k.for_each_vector(g.filters, vector)

    def column(self, axes: Axes, rows: _TapRows, o: Int64, out_row: Int64) -> None:
        """Emit all channels of one column; its taps are clipped at run time."""
        k, g, v = self.k, self.g, axes[2]
        low, high = clip_taps(k, v, o * v.stride + v.offset)

        def vector(c: Int64, mask: Num | None) -> None:
            total = k.variable(k.zero(k.lanes))

            def step(x: Pointer, w: Pointer) -> None:
                with k.range(low, high) as t:
                    one = x.load((o * v.stride + t * v.dilation) * rows.source.column_stride + c, k.lanes, mask)
                    weight = w.load((t * v.tap_step + v.first_tap) * g.padded_filters + c, k.lanes)
                    total.value = k.fma(one, weight, total.value)

            self.summed(axes, rows, step)
            self.store(v, out_row, o, c, total.value, mask)

        k.for_each_vector(g.filters, vector)

    def store(self, v: ConvAxis, out_row: Int64, o: Int64, c: Int64, value: Num, mask: Num | None) -> None:
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
    local = 4 * max(g.scratch_elements(axes, g.piece_rows) for axes in g.phases)
    shared = 0 if is_prepacked else 4 * g.weight_elements
    return lambda i, o: [ParallelTask(work(i, o), (*i, *o), items, grain, local, shared)]


def _find_geometry(ins: Specs, outs: Specs, request: ConvRequest) -> DepthwiseGeometry | None:
    x, w = (ins[i] for i in request.operands)
    return depthwise_geometry(x, w, outs[0], request.attrs, request.backward)


@register_convolution(native_kernel, special=True)
def depthwise(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
    """A depthwise convolution with its epilogue."""
    g = _find_geometry(ins, outs, request)
    if g is None:
        return None
    arranging, work = (
        kernel_code(arrange, g.summed_channels, g.filters, prod(g.kernel), False),
        _work(g, request, outs, False),
    )
    return TaskList(
        lambda i, o: [
            ParallelTask(arranging.address, (i[request.operands[1]],), g.summed_channels, 1, 0, 4 * g.weight_elements),
            *work(i, o),
        ]
    )


@register_convolution(prepacked_kernel, special=True)
def prepacked_depthwise(ins: Specs, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    """A depthwise convolution whose weights are reordered once, in the setup of the plan."""
    g = _find_geometry(ins, outs, request)
    if g is None:
        return None
    arranging = kernel_code(arrange, g.summed_channels, g.filters, prod(g.kernel), True)
    return PrepackedKernel(
        request.operands[1],
        g.weight_elements,
        lambda i, o: [ParallelTask(arranging.address, (i[0], o[0]), g.summed_channels)],
        _work(g, request, outs, True),
        "depthwise",
        (g.summed_channels, g.filters, g.kernel),
    )
