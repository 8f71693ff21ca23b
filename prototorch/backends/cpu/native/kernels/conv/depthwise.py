"""Depthwise convolutions and their gradients by the input, channels last: groups have one channel.

Vectors lie along the channels. A register tile is some neighbouring output columns; an input column is loaded once for
all of them. Which columns have taps beyond the image is known when the code is made: their tiles are emitted apart,
without those taps, so that nothing is padded or copied. Weights are brought into [taps][channels] before.

Where a channel has several filters, the rows of a piece are copied first: each channel as often as it is read, or, for
the gradient, those that are added up one behind the other.
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
_CACHED_ELEMENTS = 1 << 16  # elements of an image that is in the cache after its first rows
_MAX_EDGE_TILES = 6  # tiles at a row's ends that are emitted apart, at most
MAX_TAPS = 12  # along a row whose vectors of weights are held at once, at most

Axes = tuple[ConvAxis, ConvAxis, ConvAxis]


class DepthwiseGeometry(NamedTuple):
    """The convolution (or the phases of a gradient, see `geometry`) from ``channels`` to ``filters``: each output sums
    up ``parts`` channels, each channel goes to ``copies`` outputs; one of both is 1."""

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
        """Output channels, with what fills up the last vector."""
        return _round_up_to_lanes(self.filters)

    @property
    def weight_elements(self) -> int:
        """Elements of the weights as they are read: [parts][taps][channels]."""
        return self.summed_channels * prod(self.kernel) * self.padded_filters

    @property
    def num_planes(self) -> int:
        """Output planes of the largest phase."""
        return max(d.count for d, _, _ in self.phases)

    @property
    def num_blocks(self) -> int:
        """Pieces of a plane."""
        return -(-max(h.count for _, h, _ in self.phases) // self.piece_rows)

    def scratch_elements(self, axes: Axes, rows: int) -> int:
        """Elements of the copied input of so many output rows; 0 where it is read where it lies."""
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
    """The convolution that makes y of x, if it is depthwise. For a gradient x is that of the output."""
    groups = attrs.get("groups", 1)
    if not is_channels_last_conv(x, w, y) or groups == 1 or w.shape[1] != 1:
        return None
    kernel = expand_to_3d(w.shape[2:], 1)
    rows = zip(expand_to_3d(x.shape[2:], 1), expand_to_3d(y.shape[2:], 1), kernel, expand_to_3d(attrs["strides"], 1),
               expand_to_3d(attrs["pads"], (0, 0)), expand_to_3d(attrs["dilation"], 1), strict=True)  # fmt: skip
    if backward:
        along = [input_grad_axes(o, s, k, t, p[0], d) for s, o, k, t, p, d in rows]
    else:
        along = [[conv_axis(s, o, k, t, p[0], d)] for s, o, k, t, p, d in rows]
    phases = tuple(axes for axes in product(*along) if all(a.count for a in axes))
    many = w.shape[0] // groups
    parts, copies = (many, 1) if backward else (1, many)
    g = DepthwiseGeometry(x.shape[0], x.shape[1], y.shape[1], parts, copies, phases, kernel, 1)  # type: ignore[arg-type]
    return g._replace(piece_rows=_rows_of_piece(g))


def _rows_of_piece(g: DepthwiseGeometry) -> int:
    rows = max(h.count for _, h, _ in g.phases)
    block = rows
    while block > 1 and g.n * g.num_planes * -(-rows // block) < _MIN_PIECES:
        block = -(-block // 2)
    return block


def arrange(k: KernelBuilder, parts: int, filters: int, taps: int, kept: bool) -> None:
    """Plain weights (argument 0) [filters][parts][taps] to [parts][taps][filters], in shared memory or (``kept``)
    argument 1; items are parts."""
    wide = _round_up_to_lanes(filters)
    with k.range(k.first, k.last) as j:
        to = (k.pointer(1) if kept else k.shared.as_type("float32")) + j * (taps * wide)
        transpose_into(k, k.pointer(0) + j * taps, filters, taps, parts * taps, to, wide)


def wants_prefetch(g: DepthwiseGeometry, axes: Axes) -> bool:
    """Whether rows are to be asked for before they are needed: columns lie too far apart for the processor to guess."""
    d, h, v = axes
    return g.summed_channels * g.multiplier == 1 and d.size * h.size * v.size * g.channels >= _CACHED_ELEMENTS


class DepthwiseInput:
    """The input rows of output rows ``oh`` ... of plane ``od`` of image ``n``: where tap 0 of column 0 of row ``oh``
    lies, and how far it is to the next column, row, plane tap, and to the next channel that is added up."""

    def __init__(self, k: KernelBuilder, g: DepthwiseGeometry, axes: Axes, x: Pointer, n: Int64, od: Int64, oh: Int64,
                 many: Any, rows: int):  # fmt: skip
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
        last = (top + ((many - 1) * h.stride + (h.taps - 1) * h.dilation + 1)).minimum(h.size) - top
        with k.range(low, high) as td, k.range(first, last) as r:
            here = image + ((plane + td * d.dilation) * h.size + (top + r)) * (v.size * g.channels)
            there = to + (td * self.plane_stride + r * self.row_stride)
            if g.multiplier > 1:
                with k.range(v.size * g.channels) as i:
                    one = here.load(i)
                    with k.range(g.multiplier) as j:
                        there.store(one, i * g.multiplier + j)
            else:
                with k.range(g.summed_channels) as j, k.range(v.size * g.filters) as i:
                    there.store(here.load(i * g.summed_channels + j), i + j * self.part_stride)

    def prefetch_next_row(self, x: Pointer, columns: int) -> None:
        """Ask for what the next output row is the first to see in so many columns; this one sees its tap 0 at ``x``."""
        _, h, v = self.axes
        for row in range(h.stride):
            for i in range(columns * v.stride):
                x.prefetch(((h.taps - 1) * h.dilation + 1 + row) * self.row_stride + i * self.column_stride)


def taps_by_input_column(v: ConvAxis, columns: Any) -> list[tuple[int, list[tuple[int, int]]]]:
    """For columns (known numbers): each input column they see, as its distance from tap 0 of the first of them, with
    the (column, tap) pairs that see it."""
    found: dict[int, list[tuple[int, int]]] = {}
    first = columns[0]
    for o in columns:
        for t in range(v.taps):
            at = o * v.stride + t * v.dilation
            if 0 <= at + v.offset < v.size:
                found.setdefault(at - first * v.stride, []).append((o - first, t))
    return sorted(found.items())


class ColumnTiles(NamedTuple):
    """Neighbouring tiles of one size that see their input in the same way: ``times`` from column ``first`` on."""

    first: int
    size: int
    num_tiles: int
    taps: Any


def tile_row(v: ConvAxis, largest: int) -> list[ColumnTiles] | None:
    """A row cut into tiles; None where too many of them have taps beyond the image."""
    made: list[ColumnTiles] = []
    first = 0
    for size in split_evenly(v.count, largest):
        pairs = taps_by_input_column(v, range(first, first + size))
        last = made[-1] if made else None
        if last is not None and (last.size, last.taps) == (size, pairs):
            made[-1] = last._replace(num_tiles=last.num_tiles + 1)
        else:
            made.append(ColumnTiles(first, size, 1, pairs))
        first += size
    return made if len(made) <= _MAX_EDGE_TILES else None


def max_tile_columns(taps: int) -> int:
    """Columns of a register tile beside the weights of so many taps."""
    return max(min(num_vector_registers() - taps - 3, 8), 2)


class _DepthwiseEmitter:
    """The code of one piece: some rows of one image. ``w`` is the input that holds the arranged weights; without it
    they lie in shared memory."""

    def __init__(self, k: KernelBuilder, g: DepthwiseGeometry, epilogue: FusedEpilogue, x: int, w: int | None,
                 past: bool):  # fmt: skip
        self.k, self.g, self.epilogue = k, g, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t, past) for i, t in enumerate(epilogue.output_dtypes)]
        self.w = k.shared.as_type("float32") if w is None else self.inputs[w]
        with k.range(k.first, k.last) as item:
            block, rest = item % g.num_blocks, item // g.num_blocks
            od, n, oh = rest % g.num_planes, rest // g.num_planes, block * g.piece_rows
            for axes in g.phases:
                with k.if_then(od < axes[0].count):
                    self.phase(axes, self.inputs[x], n, od, oh)

    def phase(self, axes: Axes, x: Pointer, n: Int64, od: Int64, oh: Int64) -> None:
        """The rows of one phase."""
        k, g = self.k, self.g
        d, h, v = axes
        many = (oh + g.piece_rows).minimum(h.count) - oh
        source = DepthwiseInput(k, g, axes, x, n, od, oh, many, g.piece_rows)
        planes = clip_taps(k, d, od * d.stride + d.offset)
        tiles = tile_row(v, max_tile_columns(v.taps)) if v.taps <= MAX_TAPS else None
        with k.range(many) as r:
            rows = clip_taps(k, h, (oh + r) * h.stride + h.offset)
            line = source.start + r * (h.stride * source.row_stride)
            place = ((n * d.out + (od * d.step + d.start)) * h.out + ((oh + r) * h.step + h.start)) * v.out
            if tiles is None:
                with k.range(v.count) as o:
                    self.column(axes, _TapRows(source, line, planes, rows), o, place)
            else:
                for c in tiles:
                    with k.range(c.num_tiles) as i:
                        self.tile(axes, _TapRows(source, line, planes, rows), i * c.size + c.first, c, place)

    def summed(self, axes: Axes, rows: _TapRows, step: Callable[[Pointer, Pointer], None]) -> None:
        """``step(x, w)`` for each row of taps: where its tap 0 of column 0 of channel 0 lies, and its weights."""
        k, g = self.k, self.g
        d, h, _ = axes
        source = rows.source
        with k.range(g.summed_channels) as j, k.range(*rows.planes) as td, k.range(*rows.rows) as th:
            x = rows.start + (j * source.part_stride + td * source.plane_stride + th * (h.dilation * source.row_stride))
            row = (j * g.kernel[0] + (td * d.tap_step + d.first_tap)) * g.kernel[1] + (th * h.tap_step + h.first_tap)
            step(x, self.w + row * (g.kernel[2] * g.padded_filters))

    def tile(self, axes: Axes, rows: _TapRows, first: Int64, columns: ColumnTiles, place: Int64) -> None:
        """All channels of neighbouring columns."""
        k, g, v = self.k, self.g, axes[2]

        def vector(c: Int64, mask: Num | None) -> None:
            sums = [k.variable(k.zero(k.lanes)) for _ in range(columns.size)]

            def step(x: Pointer, w: Pointer) -> None:
                taps = sorted({t for _, pairs in columns.taps for _, t in pairs})
                ws = {t: w.load(c + (t * v.tap_step + v.first_tap) * g.padded_filters, k.lanes) for t in taps}
                here = x + (first * (v.stride * rows.source.column_stride) + c)
                for at, pairs in columns.taps:
                    one = here.load(at * rows.source.column_stride, k.lanes, mask)
                    for o, t in pairs:
                        sums[o].value = k.fma(one, ws[t], sums[o].value)

            if wants_prefetch(g, axes):
                rows.source.prefetch_next_row(
                    rows.start + (first * (v.stride * rows.source.column_stride) + c), columns.size
                )
            self.summed(axes, rows, step)
            for o, made in enumerate(sums):
                self.store(v, place, first + o, c, made.value, mask)

        k.for_each_vector(g.filters, vector)

    def column(self, axes: Axes, rows: _TapRows, o: Int64, place: Int64) -> None:
        """All channels of one column; its taps inside are found at run time."""
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
            self.store(v, place, o, c, total.value, mask)

        k.for_each_vector(g.filters, vector)

    def store(self, v: ConvAxis, place: Int64, o: Int64, c: Int64, made: Num, mask: Num | None) -> None:
        """Store a vector of column o, after what follows it."""
        at = (place + (o * v.step + v.start)) * self.g.filters + c
        self.epilogue.store(self.k, self.inputs, self.outputs, made, at, c, mask)


class _TapRows(NamedTuple):
    """Where an output row sees its input: tap 0 of its planes and rows, and which of these taps lie inside."""

    source: DepthwiseInput
    start: Pointer
    planes: tuple[Any, Any]
    rows: tuple[Any, Any]


def emit_convolution(
    k: KernelBuilder, g: DepthwiseGeometry, epilogue: FusedEpilogue, x: int, w: int | None, past: bool
) -> None:
    """The code; items are pieces."""
    _DepthwiseEmitter(k, g, epilogue, x, w, past)


def _work(g: DepthwiseGeometry, asked: ConvRequest, outs: Specs, kept: bool) -> BindFn:
    x, w = asked.operands
    work = choose_nontemporal(
        lambda past: kernel_code(emit_convolution, g, asked.epilogue, x, w if kept else None, past), outs, g.filters
    )
    items = g.n * g.num_planes * g.num_blocks
    outputs = sum(prod(a.count for a in axes) for axes in g.phases)
    grain = items if g.n * outputs * g.filters * prod(g.kernel) * g.summed_channels <= _SERIAL_WORK else 1
    local = 4 * max(g.scratch_elements(axes, g.piece_rows) for axes in g.phases)
    shared = 0 if kept else 4 * g.weight_elements
    return lambda i, o: [ParallelTask(work(i, o), (*i, *o), items, grain, local, shared)]


def _find_geometry(ins: Specs, outs: Specs, asked: ConvRequest) -> DepthwiseGeometry | None:
    x, w = (ins[i] for i in asked.operands)
    return depthwise_geometry(x, w, outs[0], asked.attrs, asked.backward)


@register_convolution(native_kernel, special=True)
def depthwise(ins: Specs, outs: Specs, asked: ConvRequest) -> TaskList | None:
    """A depthwise convolution, and what follows it elementwise."""
    g = _find_geometry(ins, outs, asked)
    if g is None:
        return None
    arranging, work = (
        kernel_code(arrange, g.summed_channels, g.filters, prod(g.kernel), False),
        _work(g, asked, outs, False),
    )
    return TaskList(
        lambda i, o: [
            ParallelTask(arranging.address, (i[asked.operands[1]],), g.summed_channels, 1, 0, 4 * g.weight_elements),
            *work(i, o),
        ]
    )


@register_convolution(prepacked_kernel, special=True)
def prepacked_depthwise(ins: Specs, outs: Specs, asked: ConvRequest) -> PrepackedKernel | None:
    """The same with weights that are arranged once."""
    g = _find_geometry(ins, outs, asked)
    if g is None:
        return None
    arranging = kernel_code(arrange, g.summed_channels, g.filters, prod(g.kernel), True)
    return PrepackedKernel(
        asked.operands[1],
        g.weight_elements,
        lambda i, o: [ParallelTask(arranging.address, (i[0], o[0]), g.summed_channels)],
        _work(g, asked, outs, True),
        "depthwise",
        (g.summed_channels, g.filters, g.kernel),
    )
