"""The weight gradient of 3 x 3 and 5 x 5 convolutions by Winograd's minimal filtering; see `winograd.py`.

After the transforms the sum over the positions of a tile is one product an element, so that the gradient is 36 matrix
products [channels, tiles] x [tiles, filters], added over blocks of tiles in order and transformed back at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    count_runs,
    max_tile_rows,
    split_evenly,
    transpose_registers,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import choose_panels
from prototorch.engine.backends.cpu.native.kernels.conv.winograd import is_winograd_conv
from prototorch.engine.backends.cpu.native.kernels.conv.winograd_transforms import (
    TILE_ELEMENTS,
    WinogradConv,
    count_panel_items,
    for_each_panel_channel,
    input_transform,
)
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_BLOCK_ELEMENTS = 1 << 21  # elements of a block's transformed tiles
_UNCACHED_ELEMENTS = 1 << 20  # elements of the sums, which each block reads and writes: above it blocks are larger
_LARGE_BLOCK_TILES, _MAX_BLOCK_ELEMENTS = 200, 1 << 23  # tiles of a larger block, and its elements at most


def _transform_output_grads(d: Sequence[Num]) -> list[Num]:
    """Transform the gradients of a tile's four or two outputs along an axis."""
    if len(d) == 2:
        twice = d[1] * 2.0
        return [d[0], d[0] + d[1], d[0] - d[1], d[0] + twice, d[0] - twice, d[1]]
    a, b = d[0] + d[2], d[1] + d[3]
    c, e = d[0] + d[2] * 4.0, (d[1] + d[3] * 4.0) * 2.0
    return [d[0], a + b, a - b, c + e, c - e, d[3]]


def _transform_to_weights(m: Sequence[Num], window: int) -> list[Num]:
    """Transform six sums to three or five weights."""
    a, b = (m[1] + m[2]) * (1 / 6), (m[2] - m[1]) * (1 / 6)
    c, d = (m[3] + m[4]) * (1 / 24), (m[3] - m[4]) * (1 / 24)
    weights = [m[0] * 0.25 - a + c, b + d * 2.0, c * 4.0 - a]
    if window == 5:
        weights += [b + d * 8.0, c * 16.0 - a]
    return [*weights[:-1], weights[-1] + m[5]]


def _partial_buffers(k: KernelBuilder, g: WinogradConv) -> tuple[Pointer, Pointer, Pointer]:
    """Return the addresses in shared memory of the sums [36][groups][panel][channels][width], and of the inputs and
    gradients of a block."""
    sums = k.shared.as_type("float32")
    tiles = sums + g.weight_elements
    return sums, tiles, tiles + TILE_ELEMENTS * g.block_tiles * g.channels


def transform_inputs(k: KernelBuilder, g: WinogradConv) -> None:
    """Transform the inputs of the block that begins at tile (argument 3). Work items are its tiles."""
    zeros = k.local.as_type("float32")
    clear(k, zeros, g.channels)
    input_transform(k, g, k.pointer(0), _partial_buffers(k, g)[1], g.block_tiles, k.argument(3), k.first, k.last, zeros)


def transform_output_grads(k: KernelBuilder, g: WinogradConv) -> None:
    """Transform the gradients of outputs to [36][block_tiles][padded_filters]. Work items are the tiles of the
    block."""
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
        target = to + p * g.padded_filters
        with k.range(g.groups) as group:

            def vector(f: Int64, mask: Mask, group: Int64 = group, at: Any = at, target: Pointer = target) -> None:
                channel = f + group * g.width
                half = [
                    _transform_output_grads([at[y][x].load(channel, k.lanes, mask) for y in range(g.side)])
                    for x in range(g.side)
                ]
                for y in range(6):
                    for x, value in enumerate(_transform_output_grads([half[j][y] for j in range(g.side)])):
                        target.store(
                            value, f + group * g.panels.width + (6 * y + x) * (g.block_tiles * g.padded_filters), mask
                        )

            k.for_each_vector(g.width, vector)
            fill = g.panels.width - g.width
            if fill:
                with k.range(TILE_ELEMENTS) as element:
                    line = target + (element * (g.block_tiles * g.padded_filters) + group * g.panels.width + g.width)
                    clear(k, line, fill)


def multiply_tiles(k: KernelBuilder, g: WinogradConv) -> None:
    """Add the products of a block to the sums. Work items are matrices, groups and panels."""
    sums, tiles, grads = _partial_buffers(k, g)
    first = k.argument(3)
    count = (first + g.block_tiles).minimum(g.tiles) - first
    panels = len(g.panels.vectors)
    lanes = g.panels.lanes
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, element = rest % g.groups, rest // g.groups
        first_panel = first_channel = 0
        for vectors, times in count_runs(g.panels.vectors):
            with k.if_then((panel >= first_panel) & (panel < first_panel + times)):
                width = vectors * lanes
                channel = (panel - first_panel) * width + first_channel
                x = tiles + (element * (g.block_tiles * g.channels) + group * g.depth)
                w = grads + (element * (g.block_tiles * g.padded_filters) + group * g.panels.width + channel)
                to = sums + (
                    element * (g.padded_filters * g.depth) + group * (g.panels.width * g.depth) + channel * g.depth
                )
                row = 0
                for size, num_tiles in count_runs(tuple(split_evenly(g.depth, max_tile_rows(vectors)))):
                    with k.range(num_tiles) as i:
                        at = to + (i * size + row) * width
                        start = [
                            [
                                k.select(first > 0, at.load(r * width + v * lanes, lanes), k.zero(lanes))
                                for v in range(vectors)
                            ]
                            for r in range(size)
                        ]
                        tile_sums = accumulate(
                            k,
                            RegisterTile(size, vectors, lanes),
                            x + (i * size + row),
                            1,
                            w,
                            [DepthLoop(count, g.channels, g.padded_filters)],
                            start,
                        )
                        for r in range(size):
                            for v in range(vectors):
                                at.store(tile_sums[r][v], r * width + v * lanes)
                    row += size * num_tiles
            first_panel += times
            first_channel += vectors * times * lanes


def transform_weight_sums(k: KernelBuilder, g: WinogradConv) -> None:
    """Transform the sums to weights [filters][channels][window][window] (argument 2). Work items as of
    `for_each_panel_channel`."""
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


def _store_taps(k: KernelBuilder, taps: list[Num], to: Pointer, step: int, remaining: Int64, lanes: int) -> None:
    """Store vectors of taps contiguously for each filter that exists."""
    for start in range(0, len(taps), lanes):
        vectors = taps[start : start + lanes]
        tap_mask = k.mask(len(vectors), lanes)
        for r, row in enumerate(transpose_registers(k, vectors + [k.zero(lanes)] * (lanes - len(vectors)))):
            to.store(row, r * step + start, (remaining > r).splat(lanes) & tap_mask)


def winograd_weight_grad(x: Spec, dy: Spec, w: Spec, attrs: Attrs) -> WinogradConv | None:
    """Return the weight gradient by Winograd, or None if the algorithm does not apply or the cost model expects no
    gain."""
    if not is_winograd_conv(x, w, dy, attrs):
        return None
    groups = attrs.get("groups", 1)
    pads = attrs["pads"]
    filters = dy.shape[1]
    if x.shape[1] // groups < 16 or filters // groups < 16:
        return None
    (rows, columns), (out_rows, out_cols) = x.shape[2:], dy.shape[2:]
    g = WinogradConv(
        x.shape[0],
        rows,
        columns,
        out_rows,
        out_cols,
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
    direct_work = g.taps * g.n * g.out_rows * g.out_columns * g.depth * g.filters / lanes
    winograd_work = (
        g.tiles
        * (TILE_ELEMENTS * g.depth * g.padded_filters + 6 * TILE_ELEMENTS * (g.channels + g.padded_filters))
        / lanes
    )
    winograd_work += (
        1.0 + -(-g.tiles // g.block_tiles) / 8
    ) * g.weight_elements  # the sums and their transform; measured
    return g if winograd_work < 0.8 * direct_work else None


register_channels_last("winograd", "prefers", "conv_weight_grad", ins=(0, 1), outs=())


@native_kernel("conv_weight_grad", level="winograd")
def conv_weight_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """dw [filters, channels of a group, window, window] from x and dy."""
    g = winograd_weight_grad(ins[0], ins[1], outs[0], attrs)
    if g is None:
        return None
    steps = [
        kernel_code(one, g) for one in (transform_inputs, transform_output_grads, multiply_tiles, transform_weight_sums)
    ]
    shared_bytes = 4 * (g.weight_elements + g.elements_of_tiles(g.block_tiles))
    local_bytes = 4 * max(g.channels, g.filters)

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        tasks = []
        for first in range(0, g.tiles, g.block_tiles):
            tile_count = min(g.block_tiles, g.tiles - first)
            args = (*i, *o, first)
            tasks += [
                ParallelTask(steps[0].address, args, tile_count, max(tile_count // 32, 1), local_bytes, shared_bytes),
                ParallelTask(steps[1].address, args, tile_count, max(tile_count // 32, 1), local_bytes, shared_bytes),
                ParallelTask(
                    steps[2].address, args, TILE_ELEMENTS * g.groups * len(g.panels.vectors), 1, 0, shared_bytes
                ),
            ]
        return [*tasks, ParallelTask(steps[3].address, (*i, *o), count_panel_items(g), 1, 0, shared_bytes)]

    return TaskList(bind, "winograd")
