"""The gradients of batch normalisation, alone or with the elementwise ops that make the gradient it begins with (that
of an activation), which then need not be written: two passes over memory, the second backwards.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from prototorch.backends.cpu.native.kernels.elementwise import formula
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

NAME = "batch_norm_grad"
Ref = tuple[Any, ...]


@dataclass(frozen=True)
class Gradient:
    """Where the gradient of y comes from: the lines before the anchor, and what of them is kept as a full-size output
    beside that of x. ``own`` are the refs of the anchor's g, x, gamma, mean and variance."""

    lines: tuple[Any, ...]
    own: tuple[Ref, ...]
    kept: tuple[Ref, ...]
    inputs: tuple[str, ...]
    results: tuple[str, ...]

    def made(self, k: Kernel, inputs: list[Pointer], at: Int, lanes: int, mask: Num | None) -> dict[Ref, Num]:
        """All numbers of a vector by their refs: what is read, and what the lines make."""
        found: dict[Ref, Num] = {}

        def read(ref: Ref) -> Num:
            if ref not in found:
                found[ref] = k.num(ref[1], ref[2]) if ref[0] == "const" else inputs[ref[1]].load(at, lanes, mask)
            return found[ref]

        for j, (op, refs, attrs) in enumerate(self.lines):
            for i, value in enumerate(formula(op, attrs)(k, [read(r) for r in refs])):
                found["node", j, i] = value
        for ref in (*self.own[:2], *self.kept):
            read(ref)
        return found

    def pointers(self, k: Kernel, streams: bool = False) -> tuple[list[Pointer], list[Pointer]]:
        """The inputs, and the full-size outputs after them: that of x, then what is kept."""
        inputs = [k.pointer(i, d) for i, d in enumerate(self.inputs)]
        return inputs, [k.pointer(len(inputs) + i, d, streams) for i, d in enumerate(self.results)]

    def vector(self, inputs: list[Pointer], place: int) -> Pointer:
        """One of the anchor's vectors over the channels."""
        return inputs[self.own[place][1]]

    def store(self, outputs: list[Pointer], found: dict[Ref, Num], dx: Num, at: Int, mask: Num | None) -> None:
        """Store a vector of the gradient of x, and what is kept."""
        outputs[0].store(dx, at, mask)
        for pointer, ref in zip(outputs[1:], self.kept, strict=True):
            pointer.store(found[ref].cast(pointer.dtype).splat(dx.lanes), at, mask)


_GAMMA, _MEAN, _VARIANCE = 2, 3, 4


def _parts(k: Kernel, c: Channels, piece: Any) -> tuple[Pointer, Pointer]:
    """Where a piece's sums lie: of the gradient, and of the gradient times the distance from the mean."""
    held = k.shared.as_type("float32") + piece * (2 * c.channels)
    return held, held + c.channels


def _coefficients(k: Kernel, c: Channels) -> list[Pointer]:
    """Per channel: the factor of all, what is subtracted from the gradient, the factor of the distance, and the mean
    (which an output may be written over)."""
    held = k.shared.as_type("float32") + c.pieces * 2 * c.channels
    return [held + i * c.channels for i in range(4)]


def _sums(k: Kernel, c: Channels, g: Gradient) -> None:
    inputs, _ = g.pointers(k)
    mean = g.vector(inputs, _MEAN)

    def terms(at: Int, i: Int, lanes: int, mask: Num | None) -> list[Num]:
        found = g.made(k, inputs, at, lanes, mask)
        grad, x = found[g.own[0]], found[g.own[1]]
        return [grad, grad * (x - mean.load(i, lanes, mask))]

    pieces(k, c, lambda p, start, count: summed_rows(k, c, start, count, _parts(k, c, p), terms))


def _joined(k: Kernel, c: Channels, eps: float) -> None:
    gamma, mean, variance, dgamma, dbeta = (k.pointer(i) for i in range(5))
    factor, shift, slope, kept = _coefficients(k, c)

    def vector(i: Int, lanes: int, mask: Num | None) -> None:
        total, product = k.variable(k.zero(lanes)), k.variable(k.zero(lanes))
        with k.range(c.pieces) as p:
            a, b = (part.load(i, lanes, mask) for part in _parts(k, c, p))
            total.value = total.value + a
            product.value = product.value + b
        inverse = inverse_root(k, variance.load(i, lanes, mask), eps)
        along = product.value * inverse
        kept.store(mean.load(i, lanes, mask), i, mask)
        factor.store(inverse * gamma.load(i, lanes, mask), i, mask)
        dgamma.store(along, i, mask)
        dbeta.store(total.value, i, mask)
        shift.store(total.value * (1.0 / c.each), i, mask)
        slope.store(along * inverse * (1.0 / c.each), i, mask)

    channel_blocks(k, c, vector)


def _spread(k: Kernel, c: Channels, g: Gradient, streams: bool) -> None:
    inputs, outputs = g.pointers(k, streams)
    factor, shift, slope, mean = _coefficients(k, c)

    def place(at: Int, i: Int, lanes: int, mask: Num | None) -> None:
        found = g.made(k, inputs, at, lanes, mask)
        away = found[g.own[1]] - mean.load(i, lanes, mask)
        rest = found[g.own[0]] - shift.load(i, lanes, mask) - away * slope.load(i, lanes, mask)
        g.store(outputs, found, rest * factor.load(i, lanes, mask), at, mask)

    pieces(k, c, lambda _, start, count: every_row(k, c, start, count, place), backwards=True)


def _planes(k: Kernel, c: Channels, g: Gradient, eps: float) -> None:
    inputs, outputs = g.pointers(k)
    first = len(inputs) + len(outputs)
    dgamma, dbeta = k.pointer(first), k.pointer(first + 1)
    with k.range(k.first, k.last) as channel:
        gamma, mean, variance = (g.vector(inputs, n).load(channel) for n in (_GAMMA, _MEAN, _VARIANCE))

        def terms(at: Int, mask: Num | None) -> list[Num]:
            found = g.made(k, inputs, at, k.lanes, mask)
            return [found[g.own[0]], found[g.own[0]] * (found[g.own[1]] - mean)]

        total, product = summed_plane(k, c, channel, terms, 2)
        inverse = inverse_root(k, variance, eps)
        along = product.cast("float32") * inverse
        dgamma.store(along, channel)
        dbeta.store(total.cast("float32"), channel)
        factor, slope = inverse * gamma, along * inverse * (1.0 / c.each)
        shift = (total * (1.0 / c.each)).cast("float32")

        def place(at: Int, mask: Num | None) -> None:
            found = g.made(k, inputs, at, k.lanes, mask)
            rest = found[g.own[0]] - shift - (found[g.own[1]] - mean) * slope
            g.store(outputs, found, rest * factor, at, mask)

        every_place(k, c, channel, place)


def _tasks(outs: tuple[Spec, ...], c: Channels, g: Gradient, eps: float, wide: list[int],
           vectors: list[int]) -> Tasks:  # fmt: skip
    """``wide`` are the full-size outputs, ``vectors`` the gradients of gamma and beta."""
    if not c.rows:
        made = code(_planes, c, g, eps)
        made.check()
        return Tasks(lambda i, o: [Task(made.address, (*i, *(o[w] for w in (*wide, *vectors))), c.channels, c.grain)])
    sums, joined = code(_sums, c, g), code(_joined, c, eps)
    code(_spread, c, g, False).check()
    spread = streamed(lambda past: code(_spread, c, g, past), [outs[w] for w in wide], c.channels)
    shared = 4 * c.channels * (2 * c.pieces + 4)
    given = [g.own[n][1] for n in (_GAMMA, _MEAN, _VARIANCE)]

    def bind(i: Any, o: Any) -> list[Task]:
        results = [o[w] for w in wide]
        return [
            Task(sums.address, tuple(i), c.pieces, 1, 0, shared),
            Task(joined.address, (*(i[n] for n in given), *(o[v] for v in vectors)), c.blocks, 1, 0, shared),
            Task(spread(i, results), (*i, *results), c.pieces, 1, 0, shared),
        ]

    return Tasks(bind)


@native(NAME)
def batch_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The gradients of x, gamma and beta."""
    c = channels_of(ins[1], attrs.get("axis", 1), (ins[0], outs[0]))
    g = Gradient((), tuple(("in", i) for i in range(5)), (), ("float32",) * 5, ("float32",))
    return _tasks(outs, c, g, attrs["eps"], [0], [1, 2])


@native("fused")
def fused(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The same after elementwise ops that make the gradient of y, all of whose operands are full-size."""
    *lines, (anchor, own, items) = attrs["program"]
    if anchor != NAME or any(ref[0] != "in" for ref in own[1:]):
        return None
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in lines):
        return None
    last = len(lines)
    where = {ref: i for i, ref in enumerate(attrs["outputs"])}
    if any(("node", last, i) not in where for i in range(3)):
        return None
    results = [where["node", last, i] for i in range(3)]
    kept = [i for i in range(len(outs)) if i not in results]
    shape = ins[own[1][1]].shape
    read = {ref for line in lines for ref in line[1] if ref[0] == "in"}
    full = [ins[ref[1]] for ref in (*read, own[1])] + [outs[i] for i in (results[0], *kept)]
    if any(s.shape != shape for s in full):
        raise Unsupported("an operand that is not full-size")
    c = channels_of(ins[own[1][1]], dict(items).get("axis", 1), full)
    g = Gradient(tuple(lines), own, tuple(attrs["outputs"][i] for i in kept), tuple(s.dtype for s in ins),
                 tuple(outs[i].dtype for i in (results[0], *kept)))  # fmt: skip
    return _tasks(outs, c, g, dict(items)["eps"], [results[0], *kept], results[1:])


channels_last("native", "follows", NAME, ins=(0, 1), outs=(0,))
fusable("native", "tail", NAME)
