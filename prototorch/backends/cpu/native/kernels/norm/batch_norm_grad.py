"""The gradients of batch normalisation, alone or with the elementwise ops that make the gradient it begins with (that
of an activation), which then need not be written: two passes over memory, the second backwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prototorch.backends.core import register_channels_last, register_fusion_role
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.elementwise import trace_op
from prototorch.backends.cpu.native.kernels.norm.channel_stats import (
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
from prototorch.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

OP_NAME = "batch_norm_grad"
Ref = tuple[Any, ...]


@dataclass(frozen=True)
class FusedGradient:
    """Where the gradient of y comes from: the lines before the anchor, and what of them is kept as a full-size output
    beside that of x. ``own`` are the refs of the anchor's g, x, gamma, mean and variance."""

    program: tuple[Any, ...]
    operands: tuple[Ref, ...]
    extra_outputs: tuple[Ref, ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]

    def trace(self, k: KernelBuilder, inputs: list[Pointer], at: Int64, lanes: int, mask: Num | None) -> dict[Ref, Num]:
        """All numbers of a vector by their refs: what is read, and what the lines make."""
        found: dict[Ref, Num] = {}

        def read(ref: Ref) -> Num:
            if ref not in found:
                found[ref] = k.num(ref[1], ref[2]) if ref[0] == "const" else inputs[ref[1]].load(at, lanes, mask)
            return found[ref]

        for j, (op, refs, attrs) in enumerate(self.program):
            for i, value in enumerate(trace_op(op, attrs)(k, [read(r) for r in refs])):
                found["node", j, i] = value
        for ref in (*self.operands[:2], *self.extra_outputs):
            read(ref)
        return found

    def pointers(self, k: KernelBuilder, streams: bool = False) -> tuple[list[Pointer], list[Pointer]]:
        """The inputs, and the full-size outputs after them: that of x, then what is kept."""
        inputs = [k.pointer(i, d) for i, d in enumerate(self.input_dtypes)]
        return inputs, [k.pointer(len(inputs) + i, d, streams) for i, d in enumerate(self.output_dtypes)]

    def vector(self, inputs: list[Pointer], place: int) -> Pointer:
        """One of the anchor's vectors over the channels."""
        return inputs[self.operands[place][1]]

    def store(self, outputs: list[Pointer], found: dict[Ref, Num], dx: Num, at: Int64, mask: Num | None) -> None:
        """Store a vector of the gradient of x, and what is kept."""
        outputs[0].store(dx, at, mask)
        for pointer, ref in zip(outputs[1:], self.extra_outputs, strict=True):
            pointer.store(found[ref].cast(pointer.dtype).splat(dx.lanes), at, mask)


_GAMMA, _MEAN, _VARIANCE = 2, 3, 4


def _partial_sums(k: KernelBuilder, c: ChannelShape, piece: Any) -> tuple[Pointer, Pointer]:
    """Where a piece's sums lie: of the gradient, and of the gradient times the distance from the mean."""
    held = k.shared.as_type("float32") + piece * (2 * c.channels)
    return held, held + c.channels


def _coefficients(k: KernelBuilder, c: ChannelShape) -> list[Pointer]:
    """Per channel: the factor of all, what is subtracted from the gradient, the factor of the distance, and the mean
    (which an output may be written over)."""
    held = k.shared.as_type("float32") + c.num_pieces * 2 * c.channels
    return [held + i * c.channels for i in range(4)]


def _compute_sums(k: KernelBuilder, c: ChannelShape, g: FusedGradient) -> None:
    inputs, _ = g.pointers(k)
    mean = g.vector(inputs, _MEAN)

    def terms(at: Int64, i: Int64, lanes: int, mask: Num | None) -> list[Num]:
        found = g.trace(k, inputs, at, lanes, mask)
        grad, x = found[g.operands[0]], found[g.operands[1]]
        return [grad, grad * (x - mean.load(i, lanes, mask))]

    for_each_piece(k, c, lambda p, start, count: sum_rows(k, c, start, count, _partial_sums(k, c, p), terms))


def _combine_sums(k: KernelBuilder, c: ChannelShape, eps: float) -> None:
    gamma, mean, variance, dgamma, dbeta = (k.pointer(i) for i in range(5))
    factor, shift, slope, kept = _coefficients(k, c)

    def vector(i: Int64, lanes: int, mask: Num | None) -> None:
        total, product = k.variable(k.zero(lanes)), k.variable(k.zero(lanes))
        with k.range(c.num_pieces) as p:
            a, b = (part.load(i, lanes, mask) for part in _partial_sums(k, c, p))
            total.value = total.value + a
            product.value = product.value + b
        inverse = rsqrt(k, variance.load(i, lanes, mask), eps)
        along = product.value * inverse
        kept.store(mean.load(i, lanes, mask), i, mask)
        factor.store(inverse * gamma.load(i, lanes, mask), i, mask)
        dgamma.store(along, i, mask)
        dbeta.store(total.value, i, mask)
        shift.store(total.value * (1.0 / c.elements_per_channel), i, mask)
        slope.store(along * inverse * (1.0 / c.elements_per_channel), i, mask)

    for_each_channel_block(k, c, vector)


def _store_input_grad(k: KernelBuilder, c: ChannelShape, g: FusedGradient, streams: bool) -> None:
    inputs, outputs = g.pointers(k, streams)
    factor, shift, slope, mean = _coefficients(k, c)

    def place(at: Int64, i: Int64, lanes: int, mask: Num | None) -> None:
        found = g.trace(k, inputs, at, lanes, mask)
        away = found[g.operands[1]] - mean.load(i, lanes, mask)
        rest = found[g.operands[0]] - shift.load(i, lanes, mask) - away * slope.load(i, lanes, mask)
        g.store(outputs, found, rest * factor.load(i, lanes, mask), at, mask)

    for_each_piece(k, c, lambda _, start, count: for_each_row(k, c, start, count, place), backwards=True)


def _input_grad_planes(k: KernelBuilder, c: ChannelShape, g: FusedGradient, eps: float) -> None:
    inputs, outputs = g.pointers(k)
    first = len(inputs) + len(outputs)
    dgamma, dbeta = k.pointer(first), k.pointer(first + 1)
    with k.range(k.first, k.last) as channel:
        gamma, mean, variance = (g.vector(inputs, n).load(channel) for n in (_GAMMA, _MEAN, _VARIANCE))

        def terms(at: Int64, mask: Num | None) -> list[Num]:
            found = g.trace(k, inputs, at, k.lanes, mask)
            return [found[g.operands[0]], found[g.operands[0]] * (found[g.operands[1]] - mean)]

        total, product = sum_plane(k, c, channel, terms, 2)
        inverse = rsqrt(k, variance, eps)
        along = product.cast("float32") * inverse
        dgamma.store(along, channel)
        dbeta.store(total.cast("float32"), channel)
        factor, slope = inverse * gamma, along * inverse * (1.0 / c.elements_per_channel)
        shift = (total * (1.0 / c.elements_per_channel)).cast("float32")

        def place(at: Int64, mask: Num | None) -> None:
            found = g.trace(k, inputs, at, k.lanes, mask)
            rest = found[g.operands[0]] - shift - (found[g.operands[1]] - mean) * slope
            g.store(outputs, found, rest * factor, at, mask)

        for_each_position(k, c, channel, place)


def _tasks(outs: tuple[Spec, ...], c: ChannelShape, g: FusedGradient, eps: float, wide: list[int],
           vectors: list[int]) -> TaskList:  # fmt: skip
    """``wide`` are the full-size outputs, ``vectors`` the gradients of gamma and beta."""
    if not c.is_channels_last:
        made = kernel_code(_input_grad_planes, c, g, eps)
        made.check_supported()
        return TaskList(
            lambda i, o: [
                ParallelTask(made.address, (*i, *(o[w] for w in (*wide, *vectors))), c.channels, c.grain_size)
            ]
        )
    sums, joined = kernel_code(_compute_sums, c, g), kernel_code(_combine_sums, c, eps)
    kernel_code(_store_input_grad, c, g, False).check_supported()
    spread = choose_nontemporal(
        lambda past: kernel_code(_store_input_grad, c, g, past), [outs[w] for w in wide], c.channels
    )
    shared = 4 * c.channels * (2 * c.num_pieces + 4)
    given = [g.operands[n][1] for n in (_GAMMA, _MEAN, _VARIANCE)]

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        results = [o[w] for w in wide]
        return [
            ParallelTask(sums.address, tuple(i), c.num_pieces, 1, 0, shared),
            ParallelTask(
                joined.address, (*(i[n] for n in given), *(o[v] for v in vectors)), c.num_blocks, 1, 0, shared
            ),
            ParallelTask(spread(i, results), (*i, *results), c.num_pieces, 1, 0, shared),
        ]

    return TaskList(bind)


@native_kernel(OP_NAME)
def batch_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList:
    """The gradients of x, gamma and beta."""
    c = channel_shape(ins[1], attrs.get("axis", 1), (ins[0], outs[0]))
    g = FusedGradient((), tuple(("in", i) for i in range(5)), (), ("float32",) * 5, ("float32",))
    return _tasks(outs, c, g, attrs["eps"], [0], [1, 2])


@native_kernel("fused")
def fused_batch_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The same after elementwise ops that make the gradient of y, all of whose operands are full-size."""
    *lines, (anchor, own, items) = attrs["program"]
    if anchor != OP_NAME or any(ref[0] != "in" for ref in own[1:]):
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
        raise UnsupportedError("an operand that is not full-size")
    c = channel_shape(ins[own[1][1]], dict(items).get("axis", 1), full)
    g = FusedGradient(tuple(lines), own, tuple(attrs["outputs"][i] for i in kept), tuple(s.dtype for s in ins),
                 tuple(outs[i].dtype for i in (results[0], *kept)))  # fmt: skip
    return _tasks(outs, c, g, dict(items)["eps"], [results[0], *kept], results[1:])


register_channels_last("native", "follows", OP_NAME, ins=(0, 1), outs=(0,))
register_fusion_role("native", "tail", OP_NAME)
