"""Winograd's minimal filtering F(4x4, 3x3) and F(2x2, 5x5) (Lavin and Gray, 2016), channels last.

A tile of outputs, 4 x 4 for 3 x 3 filters and 2 x 2 for 5 x 5 filters, sees 6 x 6 inputs. Inputs and weights are
transformed (the values of their polynomials at 0, 1, -1, 2, -2 and infinity), after which the sum over the window is
one product for each of the 36 elements: 36 matrix products [tiles, channels] x [channels, filters], with 4 and 2.8
times fewer multiplications. The transforms round: the error is about 1e-5 of the largest element. These kernels are a
level of their own, which `precision: fp32` leaves out.

The input gradient is the same with filters and channels exchanged and the window flipped.
"""

from __future__ import annotations

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, BindFn, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
    split_evenly,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Specs
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import choose_panels
from prototorch.engine.backends.cpu.native.kernels.conv.conv_request import (
    CONV_OPS,
    ConvRequest,
    is_channels_last_conv,
    register_convolution,
)
from prototorch.engine.backends.cpu.native.kernels.conv.winograd_transforms import (
    TILE_ELEMENTS,
    WinogradConv,
    count_panel_items,
    filter_transform,
    input_transform,
    output_transform,
    panel_runs,
)
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

__all__ = ["is_winograd_conv"]

_CACHED_ELEMENTS = 160_000  # elements of a thread's tiles, transformed and not, that fit into its cache
_MAX_CACHED_ELEMENTS = 200_000  # the same for the smallest block
_MAX_BLOCK_ELEMENTS = 1 << 22  # elements of a block that all threads share


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
    t: Index,
    count: Index,
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

    def rows(size: int, row: Index) -> None:
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


def _operand_pointers(
    k: KernelBuilder, epilogue: FusedEpilogue, nontemporal: bool
) -> tuple[list[Pointer], list[Pointer]]:
    inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.input_dtypes)]
    return inputs, [k.pointer(len(inputs) + i, t, nontemporal) for i, t in enumerate(epilogue.output_dtypes)]


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
    products = tiles + TILE_ELEMENTS * g.block_tiles * g.channels
    output_scratch = products + TILE_ELEMENTS * g.block_tiles * g.padded_filters
    zeros = output_scratch + g.side**2 * g.filters
    k.for_each_vector(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    with k.range(k.first, k.last) as item:
        first = item * g.block_tiles
        count = (first + g.block_tiles).minimum(g.tiles) - first
        input_transform(k, g, inputs[where[0]], tiles, g.block_tiles, first, 0, count, zeros)
        with k.range(TILE_ELEMENTS) as element, k.range(g.groups) as group:
            for run in panel_runs(g):
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
    products = tiles + TILE_ELEMENTS * g.block_tiles * g.channels
    count = (k.argument(inputs) + g.block_tiles).minimum(g.tiles) - k.argument(inputs)
    panels = len(g.panels.vectors)
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, element = rest % g.groups, rest // g.groups
        first_panel = 0
        for run in panel_runs(g):
            with k.if_then((panel >= first_panel) & (panel < first_panel + run[1])):
                multiply_tiles(
                    k, g, tiles, weights, products, g.block_tiles, element, group, run, panel - first_panel, count
                )
            first_panel += run[1]


def transform_block_outputs(k: KernelBuilder, g: WinogradConv, epilogue: FusedEpilogue, nontemporal: bool) -> None:
    """Transform the products of one block to outputs. Work items are tiles of the block."""
    inputs, outputs = _operand_pointers(k, epilogue, nontemporal)
    products = k.shared.as_type("float32") + (g.shared_elements + TILE_ELEMENTS * g.block_tiles * g.channels)
    first = k.argument(len(inputs) + len(outputs))
    output_transform(
        k, g, products, epilogue, inputs, outputs, g.block_tiles, first, k.first, k.last, k.local.as_type("float32")
    )


def is_winograd_conv(x: Spec, w: Spec, y: Spec, attrs: Attrs) -> bool:
    """Whether the algorithm can compute this convolution at all."""
    is_unit_stride = tuple(attrs["strides"]) == (1, 1) and tuple(attrs["dilation"]) == (1, 1)
    return is_channels_last_conv(x, w, y) and is_unit_stride and w.shape[2:] in ((3, 3), (5, 5))


def winograd_conv(
    x: Spec, w: Spec, y: Spec, attrs: Attrs, backward: bool, is_prepacked: bool = False, gain: bool = True
) -> WinogradConv | None:
    """Return the convolution, or None if the algorithm does not apply or the cost model expects no gain (``gain``
    False: or expects one)."""
    if not is_winograd_conv(x, w, y, attrs):
        return None
    groups, window = attrs.get("groups", 1), w.shape[2]
    (pad_top, _), (pad_left, _) = attrs["pads"]
    if backward:
        pad_top, pad_left = window - 1 - pad_top, window - 1 - pad_left
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
        pad_top,
        pad_left,
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
        * (TILE_ELEMENTS * g.depth * g.padded_filters + 4 * TILE_ELEMENTS * (g.channels + 2 * g.padded_filters))
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
        local_bytes, shared_bytes = (
            4 * (g.elements_of_tiles(g.block_tiles) + g.side**2 * g.filters + g.channels),
            4 * g.shared_elements,
        )
        return lambda i, o: [
            ParallelTask(cached_code(i, o), (*i, *o), -(-g.tiles // g.block_tiles), 1, local_bytes, shared_bytes)
        ]
    count = len(epilogue.input_dtypes) + len(epilogue.output_dtypes)
    first_step, second_step = (
        kernel_code(transform_block_inputs, g, where, count),
        kernel_code(multiply_block, g, where, count),
    )
    third_step = choose_nontemporal(
        lambda nontemporal: kernel_code(transform_block_outputs, g, epilogue, nontemporal), outs, g.filters
    )
    shared_bytes = 4 * (g.shared_elements + g.elements_of_tiles(g.block_tiles))

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        tasks: list[ParallelTask] = []
        for first in range(0, g.tiles, g.block_tiles):
            tile_count = min(g.block_tiles, g.tiles - first)
            args = (*i, *o, first)
            tasks += [
                ParallelTask(
                    first_step.address, args, tile_count, max(tile_count // 32, 1), 4 * g.channels, shared_bytes
                ),
                ParallelTask(
                    second_step.address, args, TILE_ELEMENTS * g.groups * len(g.panels.vectors), 1, 0, shared_bytes
                ),
                ParallelTask(
                    third_step(i, o),
                    args,
                    tile_count,
                    max(tile_count // 32, 1),
                    4 * g.side**2 * g.filters,
                    shared_bytes,
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
def measured_winograd(ins: Specs, outs: Specs, request: ConvRequest) -> TaskList | None:
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
