"""Winograd's minimal filtering F(4x4, 3x3) and F(2x2, 5x5) (Lavin and Gray, 2016), channels last.

A tile of outputs, 4 x 4 for 3 x 3 filters and 2 x 2 for 5 x 5 filters, sees 6 x 6 inputs. Inputs and weights are
transformed (the values of their polynomials at 0, 1, -1, 2, -2 and infinity), after which the sum over the window is
one product for each of the 36 elements: 36 matrix products [tiles, channels] x [channels, filters], with 4 and 2.8
times fewer multiplications. The transforms round: the error is about 1e-5 of the largest element. These kernels are a
level of their own, which `precision: strict` leaves out.

The input gradient is the same with filters and channels exchanged and the window flipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import BindFn, TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
    transpose_registers,
)
from prototorch.backends.cpu.native.kernels.conv.conv_geometry import ChannelPanels, choose_panels
from prototorch.backends.cpu.native.kernels.conv.direct import (
    CONV_OPS,
    ConvRequest,
    Specs,
    count_runs,
    is_channels_last_conv,
    register_convolution,
)
from prototorch.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_TILE_ELEMENTS = 36
_CACHED_ELEMENTS = 160_000  # elements of a thread's tiles, transformed and not, that fit into its cache
_MAX_CACHED_ELEMENTS = 200_000  # the same for the smallest block
_CHANNEL_RUN = 64  # channels of a work item that transforms weights
_MAX_BLOCK_ELEMENTS = 1 << 22  # elements of a block that all threads share


class WinogradConv(NamedTuple):
    """The convolution [n, rows, columns, channels] -> [n, out_rows, out_columns, filters]; output (0, 0) sees input
    (-top, -left) first. ``backward``: the input gradient, with the flipped window and exchanged weights."""

    n: int
    rows: int
    columns: int
    out_rows: int
    out_columns: int
    top: int
    left: int
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
        return _TILE_ELEMENTS * self.padded_filters * self.depth

    @property
    def shared_elements(self) -> int:
        """Elements of shared memory that the transformed weights take."""
        return 0 if self.is_prepacked else self.weight_elements

    def elements_of_tiles(self, tiles: int) -> int:
        """Return the elements of so many tiles, transformed inputs and products together."""
        return _TILE_ELEMENTS * tiles * (self.channels + self.padded_filters)


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
        for vectors, times, first_channel in _panel_runs(g):
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
    start: Any,
    stop: Any,
    zeros: Pointer,
) -> None:
    """Transform input tiles ``first + start ... first + stop`` to [36][block_tiles][channels]; ``zeros`` is the
    address of enough zeros."""
    with k.range(start, stop) as p:
        tile = first + p
        column, rest = tile % g.tile_cols, tile // g.tile_cols
        row, n = rest % g.tile_rows, rest // g.tile_rows
        top, left = row * g.side - g.top, column * g.side - g.left
        image = x + n * (g.rows * g.columns * g.channels)
        rows = [((top + i >= 0) & (top + i < g.rows), top + i) for i in range(6)]
        columns = [((left + j >= 0) & (left + j < g.columns), left + j) for j in range(6)]
        at = [
            [k.select_pointer(a & b, image + (r * g.columns + c) * g.channels, zeros) for b, c in columns]
            for a, r in rows
        ]
        target = to + p * g.channels

        def vector(i: Int64, mask: Num | None, at: list[list[Pointer]] = at, target: Pointer = target) -> None:
            half = [_transform_inputs([at[y][x].load(i, k.lanes, mask) for y in range(6)]) for x in range(6)]
            for y in range(6):
                for x, value in enumerate(_transform_inputs([half[j][y] for j in range(6)])):
                    target.store(value, i + (6 * y + x) * (block_tiles * g.channels), mask)

        k.for_each_vector(g.channels, vector)


def multiply_tiles(
    k: KernelBuilder,
    g: WinogradConv,
    tiles: Pointer,
    weights: Pointer,
    out: Pointer,
    block_tiles: int,
    element: Int64,
    group: Int64,
    run: tuple[int, int, int],
    t: Any,
    count: Any,
) -> None:
    """Multiply one of the 36 matrices for one panel: panel ``t`` of those of ``run`` (vectors, count, first
    channel)."""
    vectors, _, first_channel = run
    lanes = g.panels.lanes
    width = vectors * lanes
    channel = t * width + first_channel
    w = weights + (element * (g.padded_filters * g.depth) + group * (g.panels.width * g.depth) + channel * g.depth)
    x = tiles + (element * (block_tiles * g.channels) + group * g.depth)
    to = out + (element * (block_tiles * g.padded_filters) + group * g.panels.width + channel)
    height = split_evenly(block_tiles, max_tile_rows(vectors))[0]

    def rows(size: int, row: Any) -> None:
        tile_sums = accumulate(
            k, RegisterTile(size, vectors, lanes), x + row * g.channels, g.channels, w, [DepthLoop(g.depth, 1, width)]
        )
        for r in range(size):
            for v in range(vectors):
                to.store(tile_sums[r][v], (row + r) * g.padded_filters + v * lanes)

    # The missing rows of the last block are computed too: their memory exists, and nothing reads it.
    row_blocks = (count + (height - 1)) // height
    with k.range(row_blocks) as i:
        rows(height, (i * height).minimum(block_tiles - height))


def output_transform(
    k: KernelBuilder,
    g: WinogradConv,
    products: Pointer,
    epilogue: FusedEpilogue,
    inputs: list[Pointer],
    outputs: list[Pointer],
    block_tiles: int,
    first: Int64,
    start: Any,
    stop: Any,
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

        def group(i: Any, padded_width: int, width: int) -> None:
            def vector(f: Int64, mask: Num | None) -> None:
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
            k.for_each_vector(g.filters, lambda f, mask: epilogue.store(
                k, inputs, outputs, line.load(f, k.lanes, mask), out_offset + f, f, mask))  # fmt: skip


def _operand_pointers(
    k: KernelBuilder, epilogue: FusedEpilogue, nontemporal: bool
) -> tuple[list[Pointer], list[Pointer]]:
    inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
    return inputs, [k.pointer(len(inputs) + i, t, nontemporal) for i, t in enumerate(epilogue.output_dtypes)]


def _panel_runs(g: WinogradConv) -> list[tuple[int, int, int]]:
    runs, first_channel = [], 0
    for vectors, times in count_runs(g.panels.vectors):
        runs.append((vectors, times, first_channel))
        first_channel += vectors * times * g.panels.lanes
    return runs


def _transformed_weights(k: KernelBuilder, g: WinogradConv, where: tuple[int, int]) -> Pointer:
    """Return the address of the transformed weights."""
    return k.pointer(where[1]) if g.is_prepacked else k.shared.as_type("float32")


def convolve_in_cache(
    k: KernelBuilder, g: WinogradConv, epilogue: FusedEpilogue, where: tuple[int, int], nontemporal: bool
) -> None:
    """All three steps for blocks of tiles, in the thread's own memory. Work items are blocks."""
    inputs, outputs = _operand_pointers(k, epilogue, nontemporal)
    weights = _transformed_weights(k, g, where)
    tiles = k.local.as_type("float32")
    products = tiles + _TILE_ELEMENTS * g.block_tiles * g.channels
    output_scratch = products + _TILE_ELEMENTS * g.block_tiles * g.padded_filters
    zeros = output_scratch + g.side**2 * g.filters
    k.for_each_vector(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    with k.range(k.first, k.last) as item:
        first = item * g.block_tiles
        count = (first + g.block_tiles).minimum(g.tiles) - first
        input_transform(k, g, inputs[where[0]], tiles, g.block_tiles, first, 0, count, zeros)
        with k.range(_TILE_ELEMENTS) as element, k.range(g.groups) as group:
            for run in _panel_runs(g):
                with k.range(run[1]) as t:
                    multiply_tiles(k, g, tiles, weights, products, g.block_tiles, element, group, run, t, count)
        output_transform(k, g, products, epilogue, inputs, outputs, g.block_tiles, first, 0, count, output_scratch)


def transform_block_inputs(k: KernelBuilder, g: WinogradConv, where: tuple[int, int], inputs: int) -> None:
    """Transform the inputs of one block, the last argument. Work items are tiles of the block."""
    zeros = k.local.as_type("float32")
    k.for_each_vector(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    tiles = k.shared.as_type("float32") + g.shared_elements
    input_transform(k, g, k.pointer(where[0]), tiles, g.block_tiles, k.argument(inputs), k.first, k.last, zeros)


def multiply_block(k: KernelBuilder, g: WinogradConv, where: tuple[int, int], inputs: int) -> None:
    """Multiply one block. Work items are matrices, groups and panels."""
    weights = _transformed_weights(k, g, where)
    tiles = k.shared.as_type("float32") + g.shared_elements
    products = tiles + _TILE_ELEMENTS * g.block_tiles * g.channels
    count = (k.argument(inputs) + g.block_tiles).minimum(g.tiles) - k.argument(inputs)
    panels = len(g.panels.vectors)
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, element = rest % g.groups, rest // g.groups
        first_panel = 0
        for run in _panel_runs(g):
            with k.if_then((panel >= first_panel) & (panel < first_panel + run[1])):
                multiply_tiles(
                    k, g, tiles, weights, products, g.block_tiles, element, group, run, panel - first_panel, count
                )
            first_panel += run[1]


def transform_block_outputs(k: KernelBuilder, g: WinogradConv, epilogue: FusedEpilogue, nontemporal: bool) -> None:
    """Transform the products of one block to outputs. Work items are tiles of the block."""
    inputs, outputs = _operand_pointers(k, epilogue, nontemporal)
    products = k.shared.as_type("float32") + (g.shared_elements + _TILE_ELEMENTS * g.block_tiles * g.channels)
    first = k.argument(len(inputs) + len(outputs))
    output_transform(
        k, g, products, epilogue, inputs, outputs, g.block_tiles, first, k.first, k.last, k.local.as_type("float32")
    )


def is_winograd_conv(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any]) -> bool:
    """Whether the algorithm can compute this convolution at all."""
    is_unit_stride = tuple(attrs["strides"]) == (1, 1) and tuple(attrs["dilation"]) == (1, 1)
    return is_channels_last_conv(x, w, y) and is_unit_stride and w.shape[2:] in ((3, 3), (5, 5))


def winograd_conv(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], backward: bool,
                is_prepacked: bool = False, gain: bool = True) -> WinogradConv | None:  # fmt: skip
    """Return the convolution, or None if the algorithm does not apply or the cost model expects no gain (``gain``
    False: or expects one)."""
    if not is_winograd_conv(x, w, y, attrs):
        return None
    groups, window = attrs.get("groups", 1), w.shape[2]
    (top, _), (left, _) = attrs["pads"]
    if backward:
        top, left = window - 1 - top, window - 1 - left
    filters = y.shape[1]
    depth, width = x.shape[1] // groups, filters // groups
    if depth < 16 or width < 16:
        return None
    (rows, columns), (out_rows, out_cols) = x.shape[2:], y.shape[2:]
    g = WinogradConv(
        x.shape[0],
        rows,
        columns,
        out_rows,
        out_cols,
        top,
        left,
        x.shape[1],
        filters,
        groups,
        backward,
        window,
        choose_panels(width, 14),
        1,
        is_prepacked,
    )
    rows = max_tile_rows(max(g.panels.vectors))
    if g.elements_of_tiles(rows) <= _MAX_CACHED_ELEMENTS and g.tiles >= 16 * rows:
        times = max(min(_CACHED_ELEMENTS // g.elements_of_tiles(rows), 4), 1)
        g = g._replace(block_tiles=rows * times)
    else:
        most = max(_MAX_BLOCK_ELEMENTS // g.elements_of_tiles(1), rows)
        parts = split_evenly(g.tiles, most)
        g = g._replace(block_tiles=parts[0])
    return g if _is_gain(g) is gain else None


def _is_gain(g: WinogradConv) -> bool:
    """Whether the saved multiplications outweigh the transforms, counted in vector operations."""
    lanes = vector_lanes("float32")
    direct_work = g.taps * g.n * g.out_rows * g.out_columns * g.depth * g.filters / lanes
    winograd_work = (
        g.tiles
        * (_TILE_ELEMENTS * g.depth * g.padded_filters + 4 * _TILE_ELEMENTS * (g.channels + 2 * g.padded_filters))
        / lanes
    )
    winograd_work += (
        0.5 * g.weight_elements if g.is_prepacked else 1.0 * g.weight_elements
    )  # reading the weights, or transforming them; measured
    return winograd_work < 0.8 * direct_work


def _work(g: WinogradConv, request: ConvRequest, outs: Specs) -> BindFn:
    """Return the tasks after the transform of the weights."""
    epilogue, where = request.epilogue, request.operands
    if g.elements_of_tiles(1) * g.block_tiles <= _MAX_CACHED_ELEMENTS:
        cached_code = choose_nontemporal(
            lambda nontemporal: kernel_code(convolve_in_cache, g, epilogue, where, nontemporal), outs, g.filters
        )
        local, shared = (
            4 * (g.elements_of_tiles(g.block_tiles) + g.side**2 * g.filters + g.channels),
            4 * g.shared_elements,
        )
        return lambda i, o: [ParallelTask(cached_code(i, o), (*i, *o), -(-g.tiles // g.block_tiles), 1, local, shared)]
    count = len(epilogue.input_dtypes) + len(epilogue.output_dtypes)
    first_step, second_step = (
        kernel_code(transform_block_inputs, g, where, count),
        kernel_code(multiply_block, g, where, count),
    )
    third_step = choose_nontemporal(
        lambda nontemporal: kernel_code(transform_block_outputs, g, epilogue, nontemporal), outs, g.filters
    )
    shared = 4 * (g.shared_elements + g.elements_of_tiles(g.block_tiles))

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        tasks: list[ParallelTask] = []
        for first in range(0, g.tiles, g.block_tiles):
            tile_count = min(g.block_tiles, g.tiles - first)
            args = (*i, *o, first)
            tasks += [
                ParallelTask(first_step.address, args, tile_count, max(tile_count // 32, 1), 4 * g.channels, shared),
                ParallelTask(
                    second_step.address, args, _TILE_ELEMENTS * g.groups * len(g.panels.vectors), 1, 0, shared
                ),
                ParallelTask(
                    third_step(i, o), args, tile_count, max(tile_count // 32, 1), 4 * g.side**2 * g.filters, shared
                ),
            ]
        return tasks

    return bind


def _find_conv(
    ins: Specs, outs: Specs, request: ConvRequest, is_prepacked: bool, gain: bool = True
) -> WinogradConv | None:
    x, w = (ins[i] for i in request.operands)
    return winograd_conv(x, w, outs[0], request.attrs, request.backward, is_prepacked, gain)


@register_convolution(native_kernel, level="winograd")
def winograd(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
    """A convolution with its epilogue."""
    return _tasks(_find_conv(ins, outs, request, False), outs, request)


@register_convolution(native_kernel, level="measured")
def measured(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
    """The same where the cost model expects no gain; chosen only by autotuning."""
    return _tasks(_find_conv(ins, outs, request, False, False), outs, request)


def _tasks(g: WinogradConv | None, outs: Specs, request: ConvRequest) -> TaskList | None:
    if g is None:
        return None
    change, work = kernel_code(filter_transform, g), _work(g, request, outs)
    return TaskList(
        lambda i, o: [
            ParallelTask(change.address, (i[request.operands[1]],), count_panel_items(g), 1, 0, 4 * g.weight_elements),
            *work(i, o),
        ],
        "winograd",
    )


@register_convolution(prepacked_kernel, level="winograd")
def prepacked_winograd(ins: Specs, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    """The same with weights that are transformed once."""
    return _parts(_find_conv(ins, outs, request, True), outs, request)


@register_convolution(prepacked_kernel, level="measured")
def measured_prepacked_winograd(ins: Specs, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    """The same where the cost model expects no gain; chosen only by autotuning."""
    return _parts(_find_conv(ins, outs, request, True, False), outs, request)


def _parts(g: WinogradConv | None, outs: Specs, request: ConvRequest) -> PrepackedKernel | None:
    if g is None:
        return None
    change, work = kernel_code(filter_transform, g), _work(g, request, outs)
    return PrepackedKernel(
        request.operands[1],
        g.weight_elements,
        lambda i, o: [ParallelTask(change.address, (i[0], o[0]), count_panel_items(g))],
        work,
        "winograd",
        (g.channels, g.filters, g.groups, g.backward, g.window, g.panels),
    )


for _level in ("winograd", "measured"):
    register_channels_last(_level, "prefers", *CONV_OPS, ins=(0,), outs=(0,))
    register_channels_last(_level, "follows", "fused")
