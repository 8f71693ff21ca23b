"""The gradient by the weights of 3 x 3 and 5 x 5 convolutions by Winograd's minimal filtering; see `winograd.py`.

In the other basis the sum over the places of a tile is one product a place, so that the gradient there is 36 products
[channels, tiles] x [tiles, filters], added up over blocks of tiles in their order, and changed back in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.memory import clear
from prototorch.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
    transpose_registers,
)
from prototorch.backends.cpu.native.kernels.conv.conv_geometry import choose_panels
from prototorch.backends.cpu.native.kernels.conv.direct import count_runs
from prototorch.backends.cpu.native.kernels.conv.winograd import (
    WinogradConv,
    count_panel_items,
    for_each_panel_channel,
    input_transform,
    is_winograd_conv,
)
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_TILE_ELEMENTS = 36
_BLOCK_ELEMENTS = 1 << 21  # elements of a block's tiles in the other basis
_UNCACHED_ELEMENTS = (
    1 << 20
)  # sums that do not stay in a near cache, and that each block reads and writes: blocks are larger then
_LARGE_BLOCK_TILES, _MAX_BLOCK_ELEMENTS = 200, 1 << 23  # tiles of such a block, as long as it has no more elements


def _transform_output_grads(d: Sequence[Num]) -> list[Num]:
    """The change of basis of the gradients of a tile's outputs along an axis, four or two."""
    if len(d) == 2:
        twice = d[1] * 2.0
        return [d[0], d[0] + d[1], d[0] - d[1], d[0] + twice, d[0] - twice, d[1]]
    a, b = d[0] + d[2], d[1] + d[3]
    c, e = d[0] + d[2] * 4.0, (d[1] + d[3] * 4.0) * 2.0
    return [d[0], a + b, a - b, c + e, c - e, d[3]]


def _transform_to_weights(m: Sequence[Num], window: int) -> list[Num]:
    """Six sums back to three or five weights."""
    a, b = (m[1] + m[2]) * (1 / 6), (m[2] - m[1]) * (1 / 6)
    c, d = (m[3] + m[4]) * (1 / 24), (m[3] - m[4]) * (1 / 24)
    made = [m[0] * 0.25 - a + c, b + d * 2.0, c * 4.0 - a]
    if window == 5:
        made += [b + d * 8.0, c * 16.0 - a]
    return [*made[:-1], made[-1] + m[5]]


def _partial_buffers(k: KernelBuilder, g: WinogradConv) -> tuple[Pointer, Pointer, Pointer]:
    """The sums [36][groups][panel][channels][width], the inputs and the gradients of a block, in shared memory."""
    sums = k.shared.as_type("float32")
    tiles = sums + g.weight_elements
    return sums, tiles, tiles + _TILE_ELEMENTS * g.block_tiles * g.channels


def transform_inputs(k: KernelBuilder, g: WinogradConv) -> None:
    """Items are tiles of the block that begins at tile (argument 3)."""
    zeros = k.local.as_type("float32")
    clear(k, zeros, g.channels)
    input_transform(k, g, k.pointer(0), _partial_buffers(k, g)[1], g.block_tiles, k.argument(3), k.first, k.last, zeros)


def transform_output_grads(k: KernelBuilder, g: WinogradConv) -> None:
    """Items are tiles of the block: gradients of outputs to [36][block][filters, with what fills up the panels]."""
    dy, to, first = k.pointer(1), _partial_buffers(k, g)[2], k.argument(3)
    zeros = k.local.as_type("float32")
    clear(k, zeros, g.filters)
    with k.range(k.first, k.last) as p:
        tile = first + p
        column, rest = tile % g.tile_cols, tile // g.tile_cols
        row, n = rest % g.tile_rows, rest // g.tile_rows
        image = dy + n * (g.out_rows * g.out_columns * g.filters)
        rows, columns = ([i * g.side + s for s in range(g.side)] for i in (row, column))
        at = [
            [
                k.select_pointer(
                    (y < g.out_rows) & (x < g.out_columns), image + (y * g.out_columns + x) * g.filters, zeros
                )
                for x in columns
            ]
            for y in rows
        ]
        there = to + p * g.padded_filters
        with k.range(g.groups) as group:

            def vector(f: Int64, mask: Num | None, group: Int64 = group, at: Any = at, there: Pointer = there) -> None:
                here = f + group * g.width
                half = [
                    _transform_output_grads([at[y][x].load(here, k.lanes, mask) for y in range(g.side)])
                    for x in range(g.side)
                ]
                for y in range(6):
                    for x, value in enumerate(_transform_output_grads([half[j][y] for j in range(g.side)])):
                        there.store(
                            value, f + group * g.panels.width + (6 * y + x) * (g.block_tiles * g.padded_filters), mask
                        )

            k.for_each_vector(g.width, vector)
            fill = g.panels.width - g.width
            if fill:
                with k.range(_TILE_ELEMENTS) as place:
                    line = there + (place * (g.block_tiles * g.padded_filters) + group * g.panels.width + g.width)
                    clear(k, line, fill)


def multiply_tiles(k: KernelBuilder, g: WinogradConv) -> None:
    """Items are places, groups and panels: add the block's products to the sums."""
    sums, tiles, grads = _partial_buffers(k, g)
    first = k.argument(3)
    count = (first + g.block_tiles).minimum(g.tiles) - first
    panels = len(g.panels.vectors)
    lanes = g.panels.lanes
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, place = rest % g.groups, rest // g.groups
        done = before = 0
        for vectors, times in count_runs(g.panels.vectors):
            with k.if_then((panel >= done) & (panel < done + times)):
                width = vectors * lanes
                channel = (panel - done) * width + before
                x = tiles + (place * (g.block_tiles * g.channels) + group * g.depth)
                w = grads + (place * (g.block_tiles * g.padded_filters) + group * g.panels.width + channel)
                to = sums + (
                    place * (g.padded_filters * g.depth) + group * (g.panels.width * g.depth) + channel * g.depth
                )
                row = 0
                for size, many in count_runs(tuple(split_evenly(g.depth, max_tile_rows(vectors)))):
                    with k.range(many) as i:
                        at = to + (i * size + row) * width
                        start = [[k.select(first > 0, at.load(r * width + v * lanes, lanes), k.zero(lanes))
                                  for v in range(vectors)] for r in range(size)]  # fmt: skip
                        made = accumulate(k, RegisterTile(size, vectors, lanes), x + (i * size + row), 1, w,
                                          [DepthLoop(count, g.channels, g.padded_filters)], start)  # fmt: skip
                        for r in range(size):
                            for v in range(vectors):
                                at.store(made[r][v], r * width + v * lanes)
                    row += size * many
            done += times
            before += vectors * times * lanes


def transform_weight_sums(k: KernelBuilder, g: WinogradConv) -> None:
    """The sums back to weights [filters][channels][window][window] (argument 2); items as `winograd.by_panel` has
    them."""
    sums, out = k.shared.as_type("float32"), k.pointer(2)
    lanes, r, step = g.panels.lanes, g.window, g.padded_filters * g.depth

    def one(group: Int64, channel: Int64, vectors: int, c: Int64) -> None:
        at = sums + (group * (g.panels.width * g.depth) + channel * g.depth + c * (vectors * lanes))
        with k.range(vectors) as v:
            f = channel + v * lanes
            half = [
                _transform_to_weights([at.load(v * lanes + (6 * i + j) * step, lanes) for i in range(6)], r)
                for j in range(6)
            ]
            taps = [value for i in range(r) for value in _transform_to_weights([half[j][i] for j in range(6)], r)]
            to = out + ((group * g.width + f) * (g.depth * g.taps) + c * g.taps)
            _store_taps(k, taps, to, g.depth * g.taps, g.width - f, lanes)

    for_each_panel_channel(k, g, one)


def _store_taps(k: KernelBuilder, taps: list[Num], to: Pointer, step: int, left: Int64, lanes: int) -> None:
    """Vectors of taps as neighbours, for each of the filters that are there."""
    for start in range(0, len(taps), lanes):
        some = taps[start : start + lanes]
        few = k.mask(len(some), lanes)
        for r, row in enumerate(transpose_registers(k, some + [k.zero(lanes)] * (lanes - len(some)))):
            to.store(row, r * step + start, (left > r).splat(lanes) & few)


def winograd_weight_grad(x: Spec, dy: Spec, w: Spec, attrs: dict[str, Any]) -> WinogradConv | None:
    """The gradient by Winograd; None where it does not apply, or is no gain."""
    if not is_winograd_conv(x, w, dy, attrs):
        return None
    groups = attrs.get("groups", 1)
    pads = attrs["pads"]
    filters = dy.shape[1]
    if x.shape[1] // groups < 16 or filters // groups < 16:
        return None
    (rows, columns), (down, across) = x.shape[2:], dy.shape[2:]
    g = WinogradConv(
        x.shape[0],
        rows,
        columns,
        down,
        across,
        pads[0][0],
        pads[1][0],
        x.shape[1],
        filters,
        groups,
        False,
        w.shape[2],
        choose_panels(filters // groups, x.shape[1] // groups),
        1,
    )
    block = max(_BLOCK_ELEMENTS // g.elements_of_tiles(1), 32)
    if g.weight_elements > _UNCACHED_ELEMENTS:
        block = max(block, min(_LARGE_BLOCK_TILES, _MAX_BLOCK_ELEMENTS // g.elements_of_tiles(1)))
    g = g._replace(block_tiles=split_evenly(g.tiles, block)[0])
    lanes = vector_lanes("float32")
    direct = g.taps * g.n * g.out_rows * g.out_columns * g.depth * g.filters / lanes
    here = (
        g.tiles
        * (_TILE_ELEMENTS * g.depth * g.padded_filters + 6 * _TILE_ELEMENTS * (g.channels + g.padded_filters))
        / lanes
    )
    here += (1.0 + -(-g.tiles // g.block_tiles) / 8) * g.weight_elements  # the sums, and their change back; measured
    return g if here < 0.8 * direct else None


register_channels_last("winograd", "prefers", "conv_weight_grad", ins=(0, 1), outs=())


@native_kernel("conv_weight_grad", level="winograd")
def conv_weight_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """dw [filters, channels of a group, window, window] from x and dy."""
    g = winograd_weight_grad(ins[0], ins[1], outs[0], attrs)
    if g is None:
        return None
    steps = [
        kernel_code(one, g) for one in (transform_inputs, transform_output_grads, multiply_tiles, transform_weight_sums)
    ]
    shared = 4 * (g.weight_elements + g.elements_of_tiles(g.block_tiles))
    local = 4 * max(g.channels, g.filters)

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        made = []
        for first in range(0, g.tiles, g.block_tiles):
            many = min(g.block_tiles, g.tiles - first)
            given = (*i, *o, first)
            made += [
                ParallelTask(steps[0].address, given, many, max(many // 32, 1), local, shared),
                ParallelTask(steps[1].address, given, many, max(many // 32, 1), local, shared),
                ParallelTask(steps[2].address, given, _TILE_ELEMENTS * g.groups * len(g.panels.vectors), 1, 0, shared),
            ]
        return [*made, ParallelTask(steps[3].address, (*i, *o), count_panel_items(g), 1, 0, shared)]

    return TaskList(bind, "winograd")
