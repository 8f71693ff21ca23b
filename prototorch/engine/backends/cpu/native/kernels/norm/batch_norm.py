"""Batch normalization, alone or with an elementwise epilogue.

Mean and variance are computed in two passes over each piece of rows while it is in the cache, and combined by the
formula of Chan, Golub and LeVeque (1979): memory is read once for both. The mean of the first pass is rounded, so the
second one also computes the mean of the remainders, which keeps large means harmless. The last pass goes through memory
backwards, since its end is still in the cache.
"""

from __future__ import annotations

from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last, register_fusion_role
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import (
    VECTOR,
    FusedEpilogue,
    fused_epilogue,
    no_epilogue,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import for_each_channel_vector
from prototorch.engine.backends.cpu.native.kernels.norm.channel_stats import (
    ChannelShape,
    channel_shape,
    for_each_channel_block,
    for_each_piece,
    for_each_position,
    for_each_row,
    rsqrt,
    sum_plane,
    sum_rows,
)
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.operators import OPS

TRAINING, INFERENCE = "batch_norm", "batch_norm_inference"
#: positions of the anchor's inputs among its operands
_X, _GAMMA, _BETA, _MEAN, _VARIANCE = range(5)


def _partial_moments(k: KernelBuilder, c: ChannelShape, piece: Index) -> list[Pointer]:
    """Return the addresses of a piece's results: its rounded mean, the mean deviation from it, and the sum of
    squares of the deviations."""
    address = k.shared.as_type("float32") + piece * (3 * c.channels)
    return [address + i * c.channels for i in range(3)]


def _coefficients(k: KernelBuilder, c: ChannelShape) -> list[Pointer]:
    """Return the addresses of each channel's rounded mean, scale and shift."""
    return _partial_moments(k, c, c.num_pieces)


def _compute_moments(k: KernelBuilder, c: ChannelShape) -> None:
    x = k.pointer(_X)

    def piece(number: Int64, start: Int64, count: Int64) -> None:
        means, deviations, squares = _partial_moments(k, c, number)
        sum_rows(k, c, start, count, [means], lambda at, i, lanes, mask: [x.load(at, lanes, mask)])
        share = k.num(1.0) / k.num(count)

        def scale(of: Pointer) -> None:
            for_each_channel_vector(
                k, c.channels, lambda i, lanes, mask: of.store(of.load(i, lanes, mask) * share, i, mask)
            )

        def distance(at: Int64, i: Int64, lanes: int, mask: Mask) -> list[Num]:
            deviation = x.load(at, lanes, mask) - means.load(i, lanes, mask)
            return [deviation, deviation * deviation]

        scale(means)
        sum_rows(k, c, start, count, [deviations, squares], distance)
        scale(deviations)

    for_each_piece(k, c, piece)


def _combine_moments(k: KernelBuilder, c: ChannelShape, eps: float) -> None:
    """Combine the moments of all pieces, and compute the coefficients."""
    gamma, beta, mean, variance = (k.pointer(i) for i in range(4))
    last = float(c.outer - (c.num_pieces - 1) * c.piece_rows)  # rows of the last piece

    def vector(i: Int64, lanes: int, mask: Mask) -> None:
        def sum_pieces(term: Any) -> Num:
            """Return the sum over pieces of a term (a piece's results, its rows)."""
            total = k.variable(k.zero(lanes))
            with k.range(c.num_pieces - 1) as p:
                partials = [part.load(i, lanes, mask) for part in _partial_moments(k, c, p)]
                total.value = total.value + term(*partials, float(c.piece_rows))
            final = [part.load(i, lanes, mask) for part in _partial_moments(k, c, c.num_pieces - 1)]
            return total.value + term(*final, last)

        high = sum_pieces(lambda m, a, s, n: m * n) * (1.0 / c.outer)
        low = sum_pieces(lambda m, a, s, n: ((m - high) + a) * n) * (1.0 / c.outer)

        def square(m: Num, a: Num, s: Num, n: float) -> Num:
            deviation = ((m - high) + a) - low
            return s + (deviation * deviation - a * a) * n

        var = sum_pieces(square) * (1.0 / c.outer)
        mean.store(high + low, i, mask)
        variance.store(var, i, mask)
        scale = rsqrt(k, var, eps) * gamma.load(i, lanes, mask)
        for pointer, value in zip(
            _coefficients(k, c), (high, scale, beta.load(i, lanes, mask) - low * scale), strict=True
        ):
            pointer.store(value, i, mask)

    for_each_channel_block(k, c, vector)


def _load_statistics(k: KernelBuilder, c: ChannelShape, eps: float) -> None:
    """Compute the coefficients from stored statistics."""
    gamma, beta, mean, variance = (k.pointer(i) for i in range(4))

    def vector(i: Int64, lanes: int, mask: Mask) -> None:
        scale = rsqrt(k, variance.load(i, lanes, mask), eps) * gamma.load(i, lanes, mask)
        for pointer, value in zip(
            _coefficients(k, c), (mean.load(i, lanes, mask), scale, beta.load(i, lanes, mask)), strict=True
        ):
            pointer.store(value, i, mask)

    for_each_channel_block(k, c, vector)


def _operand_pointers(
    k: KernelBuilder, epilogue: FusedEpilogue, streams: bool = False
) -> tuple[list[Pointer], list[Pointer]]:
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    return inputs, [k.pointer(len(inputs) + i, d, streams) for i, d in enumerate(epilogue.output_dtypes)]


def _normalize_rows(
    k: KernelBuilder, c: ChannelShape, epilogue: FusedEpilogue, operands: tuple[int, ...], streams: bool
) -> None:
    inputs, outputs = _operand_pointers(k, epilogue, streams)
    x = inputs[operands[_X]]
    mean, scale, shift = _coefficients(k, c)

    def normalize(at: Int64, i: Int64, lanes: int, mask: Mask) -> None:
        deviation = x.load(at, lanes, mask) - mean.load(i, lanes, mask)
        value = k.fma(deviation, scale.load(i, lanes, mask), shift.load(i, lanes, mask))
        epilogue.store(k, inputs, outputs, value, at, i, mask)

    for_each_piece(k, c, lambda _, start, count: for_each_row(k, c, start, count, normalize), backwards=True)


def _normalize_planes(
    k: KernelBuilder, c: ChannelShape, epilogue: FusedEpilogue, operands: tuple[int, ...], eps: float, training: bool
) -> None:
    inputs, outputs = _operand_pointers(k, epilogue)
    x, gamma, beta = (inputs[operands[i]] for i in (_X, _GAMMA, _BETA))
    first = len(inputs) + len(outputs)
    with k.range(k.first, k.last) as channel:
        if training:
            (total,) = sum_plane(k, c, channel, lambda at, mask: [x.load(at, k.lanes, mask)], 1)
            mean = (total * (1.0 / c.elements_per_channel)).cast("float32")

            def distance(at: Int64, mask: Mask) -> list[Num]:
                deviation = x.load(at, k.lanes, mask) - mean
                return [deviation, deviation * deviation]

            low, squares = (s * (1.0 / c.elements_per_channel) for s in sum_plane(k, c, channel, distance, 2))
            variance = (squares - low * low).cast("float32")
            k.pointer(first).store(mean, channel)
            k.pointer(first + 1).store(variance, channel)
        else:
            low = k.num(0.0, "float64")
            mean, variance = inputs[operands[_MEAN]].load(channel), inputs[operands[_VARIANCE]].load(channel)
        scale = rsqrt(k, variance, eps) * gamma.load(channel)
        shift = (beta.load(channel) - low.cast("float32") * scale).splat(k.lanes)

        def normalize(at: Int64, mask: Mask) -> None:
            value = k.fma(x.load(at, k.lanes, mask) - mean, scale, shift)
            epilogue.store(k, inputs, outputs, value, at, channel, mask)

        for_each_position(k, c, channel, normalize)


def _tasks(
    outs: Specs,
    c: ChannelShape,
    epilogue: FusedEpilogue,
    operands: tuple[int, ...],
    eps: float,
    training: bool,
    full_outputs: list[int],
    stats: list[int],
) -> TaskList:
    """``operands`` are the indices of the anchor's inputs, ``full_outputs`` those of the full-size outputs,
    ``stats`` those of mean and variance (-1: not an output)."""
    if not c.is_channels_last:
        if VECTOR in epilogue.kinds:
            raise UnsupportedError("a vector over channels that are not contiguous")
        if training and -1 in stats:
            raise UnsupportedError("statistics that are not outputs")
        kernel = kernel_code(_normalize_planes, c, epilogue, operands, eps, training)
        kernel.check_supported()
        return TaskList(
            lambda i, o: [
                ParallelTask(
                    kernel.address,
                    (*i, *(o[w] for w in full_outputs), *(o[s] for s in stats)),
                    c.channels,
                    c.grain_size,
                )
            ]
        )
    moments, combine, load_statistics = (
        kernel_code(_compute_moments, c),
        kernel_code(_combine_moments, c, eps),
        kernel_code(_load_statistics, c, eps),
    )
    kernel_code(_normalize_rows, c, epilogue, operands, False).check_supported()
    apply = choose_nontemporal(
        lambda nontemporal: kernel_code(_normalize_rows, c, epilogue, operands, nontemporal),
        [outs[w] for w in full_outputs],
        c.channels,
    )
    if training and -1 in stats:
        raise UnsupportedError("statistics that are not outputs")
    shared_bytes = 4 * 3 * c.channels * (c.num_pieces + 1)

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        if training:
            first = [
                ParallelTask(moments.address, (i[operands[_X]],), c.num_pieces, 1, 0, shared_bytes),
                ParallelTask(
                    combine.address,
                    (i[operands[_GAMMA]], i[operands[_BETA]], *(o[s] for s in stats)),
                    c.num_blocks,
                    1,
                    0,
                    shared_bytes,
                ),
            ]
        else:
            vectors = tuple(i[operands[n]] for n in (_GAMMA, _BETA, _MEAN, _VARIANCE))
            first = [ParallelTask(load_statistics.address, vectors, c.num_blocks, 1, 0, shared_bytes)]
        results = [o[w] for w in full_outputs]
        return [*first, ParallelTask(apply(i, results), (*i, *results), c.num_pieces, 1, 0, shared_bytes)]

    return TaskList(bind)


@native_kernel(TRAINING)
def batch_norm(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """With the statistics of the batch."""
    c = channel_shape(ins[0], attrs.get("axis", 1), outs)
    return _tasks(outs, c, no_epilogue(3), (0, 1, 2), attrs["eps"], True, [0], [1, 2])


@native_kernel(INFERENCE)
def batch_norm_inference(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """With stored statistics."""
    c = channel_shape(ins[0], attrs.get("axis", 1), outs)
    return _tasks(outs, c, no_epilogue(5), (0, 1, 2, 3, 4), attrs["eps"], False, [0], [])


@native_kernel("fused")
def fused_batch_norm(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Batch normalization with elementwise ops after it."""
    program = attrs["program"]
    anchor, refs, items = program[0]
    if anchor not in (TRAINING, INFERENCE) or any(ref[0] != "in" for ref in refs):
        return None
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in program[1:]):
        return None
    statistics = [("node", 0, 1), ("node", 0, 2)]
    if any(ref in statistics for line in program[1:] for ref in line[1]):
        return None
    operands, norm_attrs = tuple(ref[1] for ref in refs), dict(items)
    full_outputs = [i for i, ref in enumerate(attrs["outputs"]) if ref not in statistics]
    stats = [next((i for i, ref in enumerate(attrs["outputs"]) if ref == s), -1) for s in statistics]
    if not full_outputs:
        return None
    axis = norm_attrs.get("axis", 1)
    c = channel_shape(ins[operands[_X]], axis, (*ins, *outs))
    epilogue = fused_epilogue(
        ins,
        tuple(outs[i] for i in full_outputs),
        {"program": program, "outputs": tuple(attrs["outputs"][i] for i in full_outputs)},
        axis,
    )
    if outs[full_outputs[0]].shape != ins[operands[_X]].shape:
        return None
    return _tasks(
        outs,
        c,
        epilogue,
        operands,
        norm_attrs["eps"],
        anchor == TRAINING,
        full_outputs,
        stats if anchor == TRAINING else [],
    )


register_channels_last("native", "follows", TRAINING, INFERENCE, ins=(0,), outs=(0,))
register_fusion_role("native", "anchor", TRAINING, INFERENCE)
