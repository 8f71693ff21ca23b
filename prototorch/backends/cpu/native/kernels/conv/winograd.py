"""Convolutions of 3 x 3 and 5 x 5 windows by Winograd's minimal filtering (Lavin and Gray, 2016), channels last.

A tile of outputs, 4 x 4 for windows of 3 and 2 x 2 for windows of 5, sees 6 x 6 inputs. Inputs and weights are changed
to another basis (their polynomials' values at 0, 1, -1, 2, -2 and infinity), in which the sum over the window is one
product a place: 36 matrix products [tiles, channels] x [channels, filters], with 4 and 2.8 times fewer multiplications.
The change of basis rounds: about 1e-5 of the largest element. These kernels are a level of their own, which `precision:
strict` leaves out.

The gradient by the input is the same with filters and channels exchanged and the window turned round.
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
_CACHED_ELEMENTS = 160_000  # elements of a thread's tiles, in both bases, that stay near it
_MAX_CACHED_ELEMENTS = 200_000  # and of as few tiles as go together
_CHANNEL_RUN = 64  # channels of an item that changes weights
_MAX_BLOCK_ELEMENTS = 1 << 22  # elements of the tiles of all threads together


class WinogradConv(NamedTuple):
    """The convolution [n, rows, columns, channels] -> [n, out_rows, out_columns, filters]; output (0, 0) sees input
    (-top, -left) first. ``backward``: by the turned window of exchanged weights."""

    n: int
    rows: int
    columns: int
    out_rows: int
    out_columns: int
    top: int
    left: int
    channels: int  # of all groups
    filters: int
    groups: int
    backward: bool
    window: int  # its side: 3 or 5
    panels: ChannelPanels
    block_tiles: int  # tiles that are done together
    is_prepacked: bool = False  # the changed weights are an input; else they lie in shared memory, before all else

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
        """Tiles below each other in an image."""
        return -(-self.out_rows // self.side)

    @property
    def tile_cols(self) -> int:
        """Tiles side by side."""
        return -(-self.out_columns // self.side)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.n * self.tile_rows * self.tile_cols

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def width(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def padded_filters(self) -> int:
        """Filters of all groups, with what fills up the panels."""
        return self.groups * self.panels.width

    @property
    def weight_elements(self) -> int:
        """Elements of the changed weights."""
        return _TILE_ELEMENTS * self.padded_filters * self.depth

    @property
    def shared_elements(self) -> int:
        """Elements of shared memory that the changed weights take."""
        return 0 if self.is_prepacked else self.weight_elements

    def elements_of_tiles(self, tiles: int) -> int:
        """Elements of so many tiles, changed inputs and products."""
        return _TILE_ELEMENTS * tiles * (self.channels + self.padded_filters)


def _transform_inputs(d: Sequence[Num]) -> list[Num]:
    """The change of basis of six inputs."""
    a, b = d[4] - d[2] * 4.0, d[3] - d[1] * 4.0
    c, e = d[4] - d[2], (d[3] - d[1]) * 2.0
    return [d[0] * 4.0 - d[2] * 5.0 + d[4], a + b, a - b, c + e, c - e, d[1] * 4.0 - d[3] * 5.0 + d[5]]


def _transform_products(m: Sequence[Num], side: int) -> list[Num]:
    """Six products back to the outputs."""
    a, b, c, d = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    if side == 2:
        return [m[0] + a + c, b + d * 2.0 + m[5]]
    return [m[0] + a + c, b + d * 2.0, a + c * 4.0, b + d * 8.0 + m[5]]


def _transform_weights(g: Sequence[Num]) -> list[Num]:
    """The change of basis of three or five weights."""
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
    """Plain weights (argument 0) to [36][groups][panel][channels][width]; items are as `for_each_panel_channel` has
    them, so that the
    36 places that are written to go on evenly."""
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
    """``work(group, first filter, vectors, channel)`` for each channel of each panel; items are runs of channels of a
    panel, `count_panel_items` of them."""
    chunks = -(-g.depth // _CHANNEL_RUN)
    with k.range(k.first, k.last) as item:
        chunk, rest = item % chunks, item // chunks
        panel, group = rest % len(g.panels.vectors), rest // len(g.panels.vectors)
        done = 0
        for vectors, times, before in _panel_runs(g):
            with k.if_then((panel >= done) & (panel < done + times)):
                channel = (panel - done) * (vectors * g.panels.lanes) + before
                first = chunk * _CHANNEL_RUN
                with k.range(first, (first + _CHANNEL_RUN).minimum(g.depth)) as c:
                    work(group, channel, vectors, c)
            done += times


def count_panel_items(g: WinogradConv) -> int:
    """The items of a kernel that goes by panels."""
    return g.groups * len(g.panels.vectors) * -(-g.depth // _CHANNEL_RUN)


def _load_taps(k: KernelBuilder, base: Pointer, step: int, left: Int64, lanes: int, taps: int) -> list[Num]:
    """The taps of ``lanes`` neighbouring filters, ``step`` apart, as vectors; 0 for filters that are not there."""
    made: list[Num] = []
    for start in range(0, taps, lanes):
        some = min(lanes, taps - start)
        few = k.mask(some, lanes)
        rows = [base.load(r * step + start, lanes, (left > r).splat(lanes) & few) for r in range(lanes)]
        made += transpose_registers(k, rows)[:some]
    return made


def input_transform(
    k: KernelBuilder,
    g: WinogradConv,
    x: Pointer,
    to: Pointer,
    many: int,
    first: Int64,
    start: Any,
    stop: Any,
    zeros: Pointer,
) -> None:
    """Tiles ``first + start ...`` of the input to [36][many][channels], in places start ... stop; ``zeros`` are a place
    of zeros."""
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
        there = to + p * g.channels

        def vector(i: Int64, mask: Num | None, at: list[list[Pointer]] = at, there: Pointer = there) -> None:
            half = [_transform_inputs([at[y][x].load(i, k.lanes, mask) for y in range(6)]) for x in range(6)]
            for y in range(6):
                for x, value in enumerate(_transform_inputs([half[j][y] for j in range(6)])):
                    there.store(value, i + (6 * y + x) * (many * g.channels), mask)

        k.for_each_vector(g.channels, vector)


def multiply_tiles(
    k: KernelBuilder,
    g: WinogradConv,
    tiles: Pointer,
    weights: Pointer,
    out: Pointer,
    many: int,
    place: Int64,
    group: Int64,
    run: tuple[int, int, int],
    t: Any,
    count: Any,
) -> None:
    """The product of one place for one panel: panel ``t`` of those of ``run`` (vectors, times, channels before)."""
    vectors, _, before = run
    lanes = g.panels.lanes
    width = vectors * lanes
    channel = t * width + before
    w = weights + (place * (g.padded_filters * g.depth) + group * (g.panels.width * g.depth) + channel * g.depth)
    x = tiles + (place * (many * g.channels) + group * g.depth)
    to = out + (place * (many * g.padded_filters) + group * g.panels.width + channel)
    height = split_evenly(many, max_tile_rows(vectors))[0]

    def rows(size: int, row: Any) -> None:
        made = accumulate(
            k, RegisterTile(size, vectors, lanes), x + row * g.channels, g.channels, w, [DepthLoop(g.depth, 1, width)]
        )
        for r in range(size):
            for v in range(vectors):
                to.store(made[r][v], (row + r) * g.padded_filters + v * lanes)

    # The last rows of a block that is not full are done too: their place is there, and nobody reads them.
    whole = (count + (height - 1)) // height
    with k.range(whole) as i:
        rows(height, (i * height).minimum(many - height))


def output_transform(
    k: KernelBuilder,
    g: WinogradConv,
    products: Pointer,
    epilogue: FusedEpilogue,
    inputs: list[Pointer],
    outputs: list[Pointer],
    many: int,
    first: Int64,
    start: Any,
    stop: Any,
    held: Pointer,
) -> None:
    """Places start ... stop of the products to outputs; ``held`` is scratch memory [side][side][filters]."""
    with k.range(start, stop) as p:
        tile = first + p
        column, rest = tile % g.tile_cols, tile // g.tile_cols
        row, n = rest % g.tile_rows, rest // g.tile_rows
        source = products + p * g.padded_filters
        place = (n * g.out_rows + row * g.side) * g.out_columns + column * g.side

        def group(i: Any, wide: int, narrow: int) -> None:
            def vector(f: Int64, mask: Num | None) -> None:
                half = []
                for x in range(6):
                    held_here = [
                        source.load(f + (i * wide + (6 * y + x) * (many * g.padded_filters)), k.lanes, mask)
                        for y in range(6)
                    ]
                    half.append(_transform_products(held_here, g.side))
                for y in range(g.side):
                    for x, value in enumerate(_transform_products([half[j][y] for j in range(6)], g.side)):
                        held.store(value, f + (i * narrow + (g.side * y + x) * g.filters), mask)

            k.for_each_vector(narrow, vector)

        with k.range(g.groups) as i:
            group(i, g.panels.width, g.width)
        below, beside = (g.out_rows - row * g.side).minimum(g.side), (g.out_columns - column * g.side).minimum(g.side)
        with k.range(below) as y, k.range(beside) as x:
            here = (place + y * g.out_columns + x) * g.filters
            line = held + (y * g.side + x) * g.filters
            k.for_each_vector(g.filters, lambda f, mask: epilogue.store(
                k, inputs, outputs, line.load(f, k.lanes, mask), here + f, f, mask))  # fmt: skip


def _operand_pointers(k: KernelBuilder, epilogue: FusedEpilogue, past: bool) -> tuple[list[Pointer], list[Pointer]]:
    inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
    return inputs, [k.pointer(len(inputs) + i, t, past) for i, t in enumerate(epilogue.output_dtypes)]


def _panel_runs(g: WinogradConv) -> list[tuple[int, int, int]]:
    made, before = [], 0
    for vectors, times in count_runs(g.panels.vectors):
        made.append((vectors, times, before))
        before += vectors * times * g.panels.lanes
    return made


def _transformed_weights(k: KernelBuilder, g: WinogradConv, where: tuple[int, int]) -> Pointer:
    """The changed weights."""
    return k.pointer(where[1]) if g.is_prepacked else k.shared.as_type("float32")


def convolve_in_cache(
    k: KernelBuilder, g: WinogradConv, epilogue: FusedEpilogue, where: tuple[int, int], past: bool
) -> None:
    """Blocks of tiles, all three steps in the thread's own memory; items are blocks."""
    inputs, outputs = _operand_pointers(k, epilogue, past)
    weights = _transformed_weights(k, g, where)
    tiles = k.local.as_type("float32")
    products = tiles + _TILE_ELEMENTS * g.block_tiles * g.channels
    held = products + _TILE_ELEMENTS * g.block_tiles * g.padded_filters
    zeros = held + g.side**2 * g.filters
    k.for_each_vector(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    with k.range(k.first, k.last) as item:
        first = item * g.block_tiles
        count = (first + g.block_tiles).minimum(g.tiles) - first
        input_transform(k, g, inputs[where[0]], tiles, g.block_tiles, first, 0, count, zeros)
        with k.range(_TILE_ELEMENTS) as place, k.range(g.groups) as group:
            for run in _panel_runs(g):
                with k.range(run[1]) as t:
                    multiply_tiles(k, g, tiles, weights, products, g.block_tiles, place, group, run, t, count)
        output_transform(k, g, products, epilogue, inputs, outputs, g.block_tiles, first, 0, count, held)


def transform_block_inputs(k: KernelBuilder, g: WinogradConv, where: tuple[int, int], inputs: int) -> None:
    """Items are tiles of the block that the last argument numbers."""
    zeros = k.local.as_type("float32")
    k.for_each_vector(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    tiles = k.shared.as_type("float32") + g.shared_elements
    input_transform(k, g, k.pointer(where[0]), tiles, g.block_tiles, k.argument(inputs), k.first, k.last, zeros)


def multiply_block(k: KernelBuilder, g: WinogradConv, where: tuple[int, int], inputs: int) -> None:
    """Items are places, groups and panels."""
    weights = _transformed_weights(k, g, where)
    tiles = k.shared.as_type("float32") + g.shared_elements
    products = tiles + _TILE_ELEMENTS * g.block_tiles * g.channels
    count = (k.argument(inputs) + g.block_tiles).minimum(g.tiles) - k.argument(inputs)
    panels = len(g.panels.vectors)
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, place = rest % g.groups, rest // g.groups
        done = 0
        for run in _panel_runs(g):
            with k.if_then((panel >= done) & (panel < done + run[1])):
                multiply_tiles(k, g, tiles, weights, products, g.block_tiles, place, group, run, panel - done, count)
            done += run[1]


def transform_block_outputs(k: KernelBuilder, g: WinogradConv, epilogue: FusedEpilogue, past: bool) -> None:
    """Items are tiles of the block."""
    inputs, outputs = _operand_pointers(k, epilogue, past)
    products = k.shared.as_type("float32") + (g.shared_elements + _TILE_ELEMENTS * g.block_tiles * g.channels)
    first = k.argument(len(inputs) + len(outputs))
    output_transform(
        k, g, products, epilogue, inputs, outputs, g.block_tiles, first, k.first, k.last, k.local.as_type("float32")
    )


def is_winograd_conv(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any]) -> bool:
    """Whether a convolution of x with w that gives y can be done so at all."""
    plain = tuple(attrs["strides"]) == (1, 1) and tuple(attrs["dilation"]) == (1, 1)
    return is_channels_last_conv(x, w, y) and plain and w.shape[2:] in ((3, 3), (5, 5))


def winograd_conv(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], backward: bool,
                kept: bool = False, gain: bool = True) -> WinogradConv | None:  # fmt: skip
    """The convolution by Winograd; None where it does not apply, or is no gain (not ``gain``: or is one)."""
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
    (rows, columns), (down, across) = x.shape[2:], y.shape[2:]
    g = WinogradConv(x.shape[0], rows, columns, down, across, top, left, x.shape[1], filters, groups, backward, window,
                 choose_panels(width, 14), 1, kept)  # fmt: skip
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
    """Whether the multiplications saved are worth the changes of basis, counted in operations on vectors."""
    lanes = vector_lanes("float32")
    direct = g.taps * g.n * g.out_rows * g.out_columns * g.depth * g.filters / lanes
    here = (
        g.tiles
        * (_TILE_ELEMENTS * g.depth * g.padded_filters + 4 * _TILE_ELEMENTS * (g.channels + 2 * g.padded_filters))
        / lanes
    )
    here += (
        0.5 * g.weight_elements if g.is_prepacked else 1.0 * g.weight_elements
    )  # reading them, or changing their basis, too; measured
    return here < 0.8 * direct


def _work(g: WinogradConv, asked: ConvRequest, outs: Specs) -> BindFn:
    """All but the change of the weights."""
    epilogue, where = asked.epilogue, asked.operands
    if g.elements_of_tiles(1) * g.block_tiles <= _MAX_CACHED_ELEMENTS:
        whole = choose_nontemporal(
            lambda past: kernel_code(convolve_in_cache, g, epilogue, where, past), outs, g.filters
        )
        local, shared = (
            4 * (g.elements_of_tiles(g.block_tiles) + g.side**2 * g.filters + g.channels),
            4 * g.shared_elements,
        )
        return lambda i, o: [ParallelTask(whole(i, o), (*i, *o), -(-g.tiles // g.block_tiles), 1, local, shared)]
    count = len(epilogue.input_dtypes) + len(epilogue.output_dtypes)
    first_step, second_step = (
        kernel_code(transform_block_inputs, g, where, count),
        kernel_code(multiply_block, g, where, count),
    )
    third_step = choose_nontemporal(
        lambda past: kernel_code(transform_block_outputs, g, epilogue, past), outs, g.filters
    )
    shared = 4 * (g.shared_elements + g.elements_of_tiles(g.block_tiles))

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        made: list[ParallelTask] = []
        for first in range(0, g.tiles, g.block_tiles):
            many = min(g.block_tiles, g.tiles - first)
            given = (*i, *o, first)
            made += [
                ParallelTask(first_step.address, given, many, max(many // 32, 1), 4 * g.channels, shared),
                ParallelTask(
                    second_step.address, given, _TILE_ELEMENTS * g.groups * len(g.panels.vectors), 1, 0, shared
                ),
                ParallelTask(third_step(i, o), given, many, max(many // 32, 1), 4 * g.side**2 * g.filters, shared),
            ]
        return made

    return bind


def _find_conv(ins: Specs, outs: Specs, asked: ConvRequest, kept: bool, gain: bool = True) -> WinogradConv | None:
    x, w = (ins[i] for i in asked.operands)
    return winograd_conv(x, w, outs[0], asked.attrs, asked.backward, kept, gain)


@register_convolution(native_kernel, level="winograd")
def winograd(ins: Specs, outs: Specs, asked: ConvRequest) -> TaskList | None:
    """A convolution, and what follows it elementwise."""
    return _tasks(_find_conv(ins, outs, asked, False), outs, asked)


@register_convolution(native_kernel, level="measured")
def measured(ins: Specs, outs: Specs, asked: ConvRequest) -> TaskList | None:
    """The same where the count of operations sees no gain."""
    return _tasks(_find_conv(ins, outs, asked, False, False), outs, asked)


def _tasks(g: WinogradConv | None, outs: Specs, asked: ConvRequest) -> TaskList | None:
    if g is None:
        return None
    change, work = kernel_code(filter_transform, g), _work(g, asked, outs)
    return TaskList(
        lambda i, o: [
            ParallelTask(change.address, (i[asked.operands[1]],), count_panel_items(g), 1, 0, 4 * g.weight_elements),
            *work(i, o),
        ],
        "winograd",
    )


@register_convolution(prepacked_kernel, level="winograd")
def prepacked_winograd(ins: Specs, outs: Specs, asked: ConvRequest) -> PrepackedKernel | None:
    """The same with weights whose basis is changed once."""
    return _parts(_find_conv(ins, outs, asked, True), outs, asked)


@register_convolution(prepacked_kernel, level="measured")
def measured_prepacked_winograd(ins: Specs, outs: Specs, asked: ConvRequest) -> PrepackedKernel | None:
    """The same where the count of operations sees no gain."""
    return _parts(_find_conv(ins, outs, asked, True, False), outs, asked)


def _parts(g: WinogradConv | None, outs: Specs, asked: ConvRequest) -> PrepackedKernel | None:
    if g is None:
        return None
    change, work = kernel_code(filter_transform, g), _work(g, asked, outs)
    return PrepackedKernel(
        asked.operands[1],
        g.weight_elements,
        lambda i, o: [ParallelTask(change.address, (i[0], o[0]), count_panel_items(g))],
        work,
        "winograd",
        (g.channels, g.filters, g.groups, g.backward, g.window, g.panels),
    )


for _level in ("winograd", "measured"):
    register_channels_last(_level, "prefers", *CONV_OPS, ins=(0,), outs=(0,))
    register_channels_last(_level, "follows", "fused")
