"""Batch normalisation, alone or with an elementwise epilogue.

Mean and variance are taken in two passes over each piece of rows while it is in the cache, and put together by Chan,
Golub and LeVeque's formula: memory is read once for both. The first pass' mean has been rounded, so the second takes
the mean of what is left, too, and large means do no harm. The last pass goes through memory backwards, for its end is
still in the cache.
"""

from __future__ import annotations

from typing import Any

from prototorch.backends.core import channels_last, fusable
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer, Unsupported
from prototorch.backends.cpu.native.kernels.channel_rows import (
    Channels,
    channel_blocks,
    channels_of,
    every_place,
    every_row,
    inverse_root,
    pieces,
    summed_plane,
    summed_rows,
)
from prototorch.backends.cpu.native.kernels.epilogue import VECTOR, Epilogue, bare, epilogue_of
from prototorch.backends.cpu.native.kernels.windows import channel_vectors
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

TRAINING, INFERENCE = "batch_norm", "batch_norm_inference"
#: where an anchor's own inputs lie among the arguments of its kernels
_X, _GAMMA, _BETA, _MEAN, _VARIANCE = range(5)


def _parts(k: Kernel, c: Channels, piece: Any) -> list[Pointer]:
    """Where a piece's results lie: its mean as rounded, the mean distance from that, and the sum of their squares."""
    held = k.shared.as_type("float32") + piece * (3 * c.channels)
    return [held + i * c.channels for i in range(3)]


def _coefficients(k: Kernel, c: Channels) -> list[Pointer]:
    """Where each channel's mean as rounded, scale and shift lie."""
    return _parts(k, c, c.pieces)


def _moments(k: Kernel, c: Channels) -> None:
    x = k.pointer(_X)

    def piece(number: Int, start: Int, count: Int) -> None:
        means, aways, squares = _parts(k, c, number)
        summed_rows(k, c, start, count, [means], lambda at, i, lanes, mask: [x.load(at, lanes, mask)])
        share = k.num(1.0) / k.num(count)

        def scale(of: Pointer) -> None:
            channel_vectors(k, c.channels, lambda i, lanes, mask: of.store(of.load(i, lanes, mask) * share, i, mask))

        def distance(at: Int, i: Int, lanes: int, mask: Num | None) -> list[Num]:
            away = x.load(at, lanes, mask) - means.load(i, lanes, mask)
            return [away, away * away]

        scale(means)
        summed_rows(k, c, start, count, [aways, squares], distance)
        scale(aways)

    pieces(k, c, piece)


def _joined(k: Kernel, c: Channels, eps: float) -> None:
    """One mean and variance of those of the pieces, and the coefficients."""
    gamma, beta, mean, variance = (k.pointer(i) for i in range(4))
    last = float(c.before - (c.pieces - 1) * c.piece)  # rows of the last piece

    def vector(i: Int, lanes: int, mask: Num | None) -> None:
        def added(term: Any) -> Num:
            """The sum over pieces of a term (a piece's results, its rows)."""
            total = k.variable(k.zero(lanes))
            with k.range(c.pieces - 1) as p:
                held = [part.load(i, lanes, mask) for part in _parts(k, c, p)]
                total.value = total.value + term(*held, float(c.piece))
            final = [part.load(i, lanes, mask) for part in _parts(k, c, c.pieces - 1)]
            return total.value + term(*final, last)

        high = added(lambda m, a, s, n: m * n) * (1.0 / c.before)
        low = added(lambda m, a, s, n: ((m - high) + a) * n) * (1.0 / c.before)

        def square(m: Num, a: Num, s: Num, n: float) -> Num:
            away = ((m - high) + a) - low
            return s + (away * away - a * a) * n

        var = added(square) * (1.0 / c.before)
        mean.store(high + low, i, mask)
        variance.store(var, i, mask)
        scale = inverse_root(k, var, eps) * gamma.load(i, lanes, mask)
        for pointer, value in zip(
            _coefficients(k, c), (high, scale, beta.load(i, lanes, mask) - low * scale), strict=True
        ):
            pointer.store(value, i, mask)

    channel_blocks(k, c, vector)


def _known(k: Kernel, c: Channels, eps: float) -> None:
    """The coefficients of given statistics."""
    gamma, beta, mean, variance = (k.pointer(i) for i in range(4))

    def vector(i: Int, lanes: int, mask: Num | None) -> None:
        scale = inverse_root(k, variance.load(i, lanes, mask), eps) * gamma.load(i, lanes, mask)
        for pointer, value in zip(
            _coefficients(k, c), (mean.load(i, lanes, mask), scale, beta.load(i, lanes, mask)), strict=True
        ):
            pointer.store(value, i, mask)

    channel_blocks(k, c, vector)


def _pointers(k: Kernel, after: Epilogue, streams: bool = False) -> tuple[list[Pointer], list[Pointer]]:
    inputs = [k.pointer(i, d) for i, d in enumerate(after.dtypes)]
    return inputs, [k.pointer(len(inputs) + i, d, streams) for i, d in enumerate(after.results)]


def _normalised(k: Kernel, c: Channels, after: Epilogue, own: tuple[int, ...], streams: bool) -> None:
    inputs, outputs = _pointers(k, after, streams)
    x = inputs[own[_X]]
    mean, scale, shift = _coefficients(k, c)

    def place(at: Int, i: Int, lanes: int, mask: Num | None) -> None:
        away = x.load(at, lanes, mask) - mean.load(i, lanes, mask)
        made = k.fma(away, scale.load(i, lanes, mask), shift.load(i, lanes, mask))
        after.store(k, inputs, outputs, made, at, i, mask)

    pieces(k, c, lambda _, start, count: every_row(k, c, start, count, place), backwards=True)


def _planes(k: Kernel, c: Channels, after: Epilogue, own: tuple[int, ...], eps: float, training: bool) -> None:
    inputs, outputs = _pointers(k, after)
    x, gamma, beta = (inputs[own[i]] for i in (_X, _GAMMA, _BETA))
    first = len(inputs) + len(outputs)
    with k.range(k.first, k.last) as channel:
        if training:
            (total,) = summed_plane(k, c, channel, lambda at, mask: [x.load(at, k.lanes, mask)], 1)
            mean = (total * (1.0 / c.each)).cast("float32")

            def distance(at: Int, mask: Num | None) -> list[Num]:
                away = x.load(at, k.lanes, mask) - mean
                return [away, away * away]

            low, squares = (s * (1.0 / c.each) for s in summed_plane(k, c, channel, distance, 2))
            variance = (squares - low * low).cast("float32")
            k.pointer(first).store(mean, channel)
            k.pointer(first + 1).store(variance, channel)
        else:
            low = k.num(0.0, "float64")
            mean, variance = inputs[own[_MEAN]].load(channel), inputs[own[_VARIANCE]].load(channel)
        scale = inverse_root(k, variance, eps) * gamma.load(channel)
        shift = (beta.load(channel) - low.cast("float32") * scale).splat(k.lanes)

        def place(at: Int, mask: Num | None) -> None:
            made = k.fma(x.load(at, k.lanes, mask) - mean, scale, shift)
            after.store(k, inputs, outputs, made, at, channel, mask)

        every_place(k, c, channel, place)


def _tasks(outs: tuple[Spec, ...], c: Channels, after: Epilogue, own: tuple[int, ...], eps: float, training: bool,
           wide: list[int], stats: list[int]) -> Tasks:  # fmt: skip
    """``own`` are the anchor's inputs among the inputs; ``wide`` the full-size outputs, ``stats`` those that are the
    mean and the variance (-1 where not wanted: they go to scratch memory that nobody reads)."""
    if not c.rows:
        if VECTOR in after.kinds:
            raise Unsupported("a vector over channels that do not lie side by side")
        if training and -1 in stats:
            raise Unsupported("statistics that nobody wants")
        made = code(_planes, c, after, own, eps, training)
        made.check()
        return Tasks(
            lambda i, o: [Task(made.address, (*i, *(o[w] for w in wide), *(o[s] for s in stats)), c.channels, c.grain)]
        )
    moments, joined, known = code(_moments, c), code(_joined, c, eps), code(_known, c, eps)
    code(_normalised, c, after, own, False).check()
    apply = streamed(lambda past: code(_normalised, c, after, own, past), [outs[w] for w in wide], c.channels)
    if training and -1 in stats:
        raise Unsupported("statistics that nobody wants")
    shared = 4 * 3 * c.channels * (c.pieces + 1)

    def bind(i: Any, o: Any) -> list[Task]:
        if training:
            first = [
                Task(moments.address, (i[own[_X]],), c.pieces, 1, 0, shared),
                Task(joined.address, (i[own[_GAMMA]], i[own[_BETA]], *(o[s] for s in stats)), c.blocks, 1, 0, shared),
            ]
        else:
            vectors = tuple(i[own[n]] for n in (_GAMMA, _BETA, _MEAN, _VARIANCE))
            first = [Task(known.address, vectors, c.blocks, 1, 0, shared)]
        results = [o[w] for w in wide]
        return [*first, Task(apply(i, results), (*i, *results), c.pieces, 1, 0, shared)]

    return Tasks(bind)


@native(TRAINING)
def batch_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """By the batch's own statistics."""
    c = channels_of(ins[0], attrs.get("axis", 1), outs)
    return _tasks(outs, c, bare(3), (0, 1, 2), attrs["eps"], True, [0], [1, 2])


@native(INFERENCE)
def batch_norm_inference(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """By given statistics."""
    c = channels_of(ins[0], attrs.get("axis", 1), outs)
    return _tasks(outs, c, bare(5), (0, 1, 2, 3, 4), attrs["eps"], False, [0], [])


@native("fused")
def fused(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Batch normalisation with elementwise ops after it."""
    program = attrs["program"]
    anchor, refs, items = program[0]
    if anchor not in (TRAINING, INFERENCE) or any(ref[0] != "in" for ref in refs):
        return None
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in program[1:]):
        return None
    statistics = [("node", 0, 1), ("node", 0, 2)]
    if any(ref in statistics for line in program[1:] for ref in line[1]):
        return None
    own, kept = tuple(ref[1] for ref in refs), dict(items)
    wide = [i for i, ref in enumerate(attrs["outputs"]) if ref not in statistics]
    stats = [next((i for i, ref in enumerate(attrs["outputs"]) if ref == s), -1) for s in statistics]
    if not wide:
        return None
    axis = kept.get("axis", 1)
    c = channels_of(ins[own[_X]], axis, (*ins, *outs))
    after = epilogue_of(ins, tuple(outs[i] for i in wide),
                        {"program": program, "outputs": tuple(attrs["outputs"][i] for i in wide)}, axis)  # fmt: skip
    if outs[wide[0]].shape != ins[own[_X]].shape:
        return None
    return _tasks(outs, c, after, own, kept["eps"], anchor == TRAINING, wide, stats if anchor == TRAINING else [])


channels_last("native", "follows", TRAINING, INFERENCE, ins=(0,), outs=(0,))
fusable("native", "anchor", TRAINING, INFERENCE)
