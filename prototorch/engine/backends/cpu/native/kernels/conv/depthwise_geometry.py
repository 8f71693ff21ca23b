"""The geometry of depthwise convolutions: phases, tiles of columns, and where a piece of work reads its input."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import num_vector_registers, vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import split_evenly
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import (
    ConvAxis,
    conv_axis,
    expand_to_3d,
    input_grad_axes,
)
from prototorch.engine.backends.cpu.native.kernels.conv.conv_request import (
    is_channels_last_conv,
)
from prototorch.engine.backends.cpu.native.kernels.conv.input_rows import clip_taps
from prototorch.spec import Spec

__all__ = [
    "MAX_TAPS",
    "Axes",
    "ColumnTiles",
    "DepthwiseGeometry",
    "DepthwiseInput",
    "depthwise_geometry",
    "max_tile_columns",
    "round_up_to_lanes",
    "tile_row",
    "wants_prefetch",
]

_MIN_PIECES = 32  # pieces of work


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
        return round_up_to_lanes(self.filters)

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


def round_up_to_lanes(channels: int) -> int:
    lanes = vector_lanes("float32")
    return -(-channels // lanes) * lanes


def depthwise_geometry(x: Spec, w: Spec, y: Spec, attrs: Attrs, backward: bool) -> DepthwiseGeometry | None:
    """Return the geometry of the convolution that makes y of x, or None if it is not depthwise. For an input
    gradient x is the gradient of the output."""
    groups = attrs.get("groups", 1)
    if not is_channels_last_conv(x, w, y) or groups == 1 or w.shape[1] != 1:
        return None
    kernel = expand_to_3d(w.shape[2:], 1)
    rows = zip(
        expand_to_3d(x.shape[2:], 1),
        expand_to_3d(y.shape[2:], 1),
        kernel,
        expand_to_3d(attrs["strides"], 1),
        expand_to_3d(attrs["pads"], (0, 0)),
        expand_to_3d(attrs["dilation"], 1),
        strict=True,
    )
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


def wants_prefetch(g: DepthwiseGeometry, axes: Axes) -> bool:
    """Whether input rows must be prefetched: columns are too far apart for the hardware prefetcher."""
    d, h, v = axes
    return g.summed_channels * g.multiplier == 1 and d.size * h.size * v.size * g.channels >= _CACHED_ELEMENTS


class DepthwiseInput:
    """The input of output rows ``oh`` ... of plane ``od`` of image ``n``: the address of tap 0 of column 0 of row
    ``oh``, and the strides to the next column, row, plane tap and summed channel."""

    def __init__(
        self,
        k: KernelBuilder,
        g: DepthwiseGeometry,
        axes: Axes,
        x: Pointer,
        n: Int64,
        od: Int64,
        oh: Int64,
        count: Any,
        rows: int,
    ):
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
