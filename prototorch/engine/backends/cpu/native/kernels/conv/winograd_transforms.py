"""The transforms of Winograd's minimal filtering: of filters, inputs and outputs; see `winograd.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    count_runs,
    transpose_registers,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import ChannelPanels

__all__ = [
    "TILE_ELEMENTS",
    "WinogradConv",
    "count_panel_items",
    "filter_transform",
    "for_each_panel_channel",
    "input_transform",
    "output_transform",
    "panel_runs",
]

TILE_ELEMENTS = 36


_CHANNEL_RUN = 64  # channels of a work item that transforms weights


class WinogradConv(NamedTuple):
    """The convolution [n, rows, columns, channels] -> [n, out_rows, out_columns, filters]; output (0, 0) sees input
    (-pad_top, -pad_left) first. ``backward``: the input gradient, with the flipped window and exchanged weights."""

    n: int
    rows: int
    columns: int
    out_rows: int
    out_columns: int
    pad_top: int
    pad_left: int
    channels: int  # in all groups
    filters: int
    groups: int
    backward: bool
    window: int  # side of the window: 3 or 5
    panels: ChannelPanels
    block_tiles: int  # tiles of a block
    is_prepacked: bool = False  # the transformed weights are an input; else they are at the begin of shared memory

    @property
    def side(self) -> int:
        """Outputs of a tile along an axis."""
        return 7 - self.window

    @property
    def taps(self) -> int:
        """Weights of a window."""
        return self.window**2

    @property
    def tile_rows(self) -> int:
        """Rows of tiles in an image."""
        return -(-self.out_rows // self.side)

    @property
    def tile_cols(self) -> int:
        """Columns of tiles in an image."""
        return -(-self.out_columns // self.side)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.n * self.tile_rows * self.tile_cols

    @property
    def depth(self) -> int:
        """Input channels of a group."""
        return self.channels // self.groups

    @property
    def width(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def padded_filters(self) -> int:
        """Filters of all groups, with the padding of the panels."""
        return self.groups * self.panels.width

    @property
    def weight_elements(self) -> int:
        """Elements of the transformed weights."""
        return TILE_ELEMENTS * self.padded_filters * self.depth

    @property
    def shared_elements(self) -> int:
        """Elements of shared memory that the transformed weights take."""
        return 0 if self.is_prepacked else self.weight_elements

    def elements_of_tiles(self, tiles: int) -> int:
        """Return the elements of so many tiles, transformed inputs and products together."""
        return TILE_ELEMENTS * tiles * (self.channels + self.padded_filters)


def _transform_inputs(d: Sequence[Num]) -> list[Num]:
    """Transform six inputs."""
    a, b = d[4] - d[2] * 4.0, d[3] - d[1] * 4.0
    c, e = d[4] - d[2], (d[3] - d[1]) * 2.0
    return [d[0] * 4.0 - d[2] * 5.0 + d[4], a + b, a - b, c + e, c - e, d[1] * 4.0 - d[3] * 5.0 + d[5]]


def _transform_products(m: Sequence[Num], side: int) -> list[Num]:
    """Transform six products to two or four outputs."""
    a, b, c, d = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    if side == 2:
        return [m[0] + a + c, b + d * 2.0 + m[5]]
    return [m[0] + a + c, b + d * 2.0, a + c * 4.0, b + d * 8.0 + m[5]]


def _transform_weights(g: Sequence[Num]) -> list[Num]:
    """Transform three or five weights."""
    even, odd = g[0], g[1]
    twice_even, twice_odd = g[0], g[1] * 2.0
    for i, one in enumerate(g[2:], 2):
        if i % 2:
            odd, twice_odd = odd + one, twice_odd + one * 2.0**i
        else:
            even, twice_even = even + one, twice_even + one * 2.0**i
    a, b = even * (-1 / 6), odd * (1 / 6)
    c, d = twice_even * (1 / 24), twice_odd * (1 / 24)
    return [g[0] * 0.25, a - b, a + b, c + d, c - d, g[-1]]


def filter_transform(k: KernelBuilder, g: WinogradConv) -> None:
    """Transform weights (argument 0) to [36][groups][panel][channels][width]. Work items as of
    `for_each_panel_channel`, so that the 36 destinations advance evenly."""
    w, to = k.pointer(0), k.pointer(1) if g.is_prepacked else k.shared.as_type("float32")
    lanes, r = g.panels.lanes, g.window
    out_step, in_step = (g.taps, g.width * g.taps) if g.backward else (g.depth * g.taps, g.taps)

    def one(group: Int64, channel: Int64, vectors: int, c: Int64) -> None:
        base = w + (group * (g.width * g.depth * g.taps) + c * in_step)
        at = to + (group * (g.panels.width * g.depth) + channel * g.depth + c * (vectors * lanes))
        with k.range(vectors) as v:
            first = channel + v * lanes
            taps = _load_taps(k, base + first * out_step, out_step, g.width - first, lanes, g.taps)
            if g.backward:
                taps = taps[::-1]
            half = [_transform_weights([taps[r * i + j] for i in range(r)]) for j in range(r)]
            for i in range(6):
                for j, value in enumerate(_transform_weights([half[x][i] for x in range(r)])):
                    at.store(value, v * lanes + (6 * i + j) * (g.padded_filters * g.depth))

    for_each_panel_channel(k, g, one)


def for_each_panel_channel(k: KernelBuilder, g: WinogradConv, work: Callable[[Int64, Int64, int, Int64], None]) -> None:
    """Emit ``work(group, first filter, vectors, channel)`` for each channel of each panel. Work items are runs of
    channels of a panel, `count_panel_items` of them."""
    chunks = -(-g.depth // _CHANNEL_RUN)
    with k.range(k.first, k.last) as item:
        chunk, rest = item % chunks, item // chunks
        panel, group = rest % len(g.panels.vectors), rest // len(g.panels.vectors)
        first_panel = 0
        for vectors, times, first_channel in panel_runs(g):
            with k.if_then((panel >= first_panel) & (panel < first_panel + times)):
                channel = (panel - first_panel) * (vectors * g.panels.lanes) + first_channel
                first = chunk * _CHANNEL_RUN
                with k.range(first, (first + _CHANNEL_RUN).minimum(g.depth)) as c:
                    work(group, channel, vectors, c)
            first_panel += times


def count_panel_items(g: WinogradConv) -> int:
    """Return the work items of a kernel that goes by panels."""
    return g.groups * len(g.panels.vectors) * -(-g.depth // _CHANNEL_RUN)


def _load_taps(k: KernelBuilder, base: Pointer, step: int, remaining: Int64, lanes: int, taps: int) -> list[Num]:
    """Load the taps of ``lanes`` adjacent filters, ``step`` apart, as vectors; 0 for filters that do not exist."""
    vectors: list[Num] = []
    for start in range(0, taps, lanes):
        num_taps = min(lanes, taps - start)
        tap_mask = k.mask(num_taps, lanes)
        rows = [base.load(r * step + start, lanes, (remaining > r).splat(lanes) & tap_mask) for r in range(lanes)]
        vectors += transpose_registers(k, rows)[:num_taps]
    return vectors


def input_transform(
    k: KernelBuilder,
    g: WinogradConv,
    x: Pointer,
    to: Pointer,
    block_tiles: int,
    first: Int64,
    start: Index,
    stop: Index,
    zeros: Pointer,
) -> None:
    """Transform input tiles ``first + start ... first + stop`` to [36][block_tiles][channels]; ``zeros`` is the
    address of enough zeros."""
    with k.range(start, stop) as p:
        tile = first + p
        column, rest = tile % g.tile_cols, tile // g.tile_cols
        row, n = rest % g.tile_rows, rest // g.tile_rows
        first_row, first_col = row * g.side - g.pad_top, column * g.side - g.pad_left
        image = x + n * (g.rows * g.columns * g.channels)
        rows = [((first_row + i >= 0) & (first_row + i < g.rows), first_row + i) for i in range(6)]
        columns = [((first_col + j >= 0) & (first_col + j < g.columns), first_col + j) for j in range(6)]
        at = [
            [k.select_pointer(a & b, image + (r * g.columns + c) * g.channels, zeros) for b, c in columns]
            for a, r in rows
        ]
        target = to + p * g.channels

        def vector(i: Int64, mask: Mask, at: list[list[Pointer]] = at, target: Pointer = target) -> None:
            half = [_transform_inputs([at[y][x].load(i, k.lanes, mask) for y in range(6)]) for x in range(6)]
            for y in range(6):
                for x, value in enumerate(_transform_inputs([half[j][y] for j in range(6)])):
                    target.store(value, i + (6 * y + x) * (block_tiles * g.channels), mask)

        k.for_each_vector(g.channels, vector)


def output_transform(
    k: KernelBuilder,
    g: WinogradConv,
    products: Pointer,
    epilogue: FusedEpilogue,
    inputs: list[Pointer],
    outputs: list[Pointer],
    block_tiles: int,
    first: Int64,
    start: Index,
    stop: Index,
    scratch: Pointer,
) -> None:
    """Transform the products of tiles ``start ... stop`` to outputs; ``scratch`` is memory for
    [side][side][filters]."""
    with k.range(start, stop) as p:
        tile = first + p
        column, rest = tile % g.tile_cols, tile // g.tile_cols
        row, n = rest % g.tile_rows, rest // g.tile_rows
        source = products + p * g.padded_filters
        out_position = (n * g.out_rows + row * g.side) * g.out_columns + column * g.side

        def group(i: Index, padded_width: int, width: int) -> None:
            def vector(f: Int64, mask: Mask) -> None:
                half = []
                for x in range(6):
                    column_values = [
                        source.load(
                            f + (i * padded_width + (6 * y + x) * (block_tiles * g.padded_filters)), k.lanes, mask
                        )
                        for y in range(6)
                    ]
                    half.append(_transform_products(column_values, g.side))
                for y in range(g.side):
                    for x, value in enumerate(_transform_products([half[j][y] for j in range(6)], g.side)):
                        scratch.store(value, f + (i * width + (g.side * y + x) * g.filters), mask)

            k.for_each_vector(width, vector)

        with k.range(g.groups) as i:
            group(i, g.panels.width, g.width)
        valid_rows, valid_cols = (
            (g.out_rows - row * g.side).minimum(g.side),
            (g.out_columns - column * g.side).minimum(g.side),
        )
        with k.range(valid_rows) as y, k.range(valid_cols) as x:
            out_offset = (out_position + y * g.out_columns + x) * g.filters
            line = scratch + (y * g.side + x) * g.filters
            k.for_each_vector(
                g.filters,
                lambda f, mask: epilogue.store(
                    k, inputs, outputs, line.load(f, k.lanes, mask), out_offset + f, f, mask
                ),
            )


def panel_runs(g: WinogradConv) -> list[tuple[int, int, int]]:
    runs, first_channel = [], 0
    for vectors, times in count_runs(g.panels.vectors):
        runs.append((vectors, times, first_channel))
        first_channel += vectors * times * g.panels.lanes
    return runs
