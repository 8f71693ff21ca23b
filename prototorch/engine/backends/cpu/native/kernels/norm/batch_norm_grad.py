"""The gradients of batch normalization, alone or with the elementwise ops that make the gradient it begins with
(that of an activation), which then need not be written: two passes over memory, the second backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last, register_fusion_role
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import trace_op
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
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

OP_NAME = "batch_norm_grad"
Ref = tuple[Any, ...]


@dataclass(frozen=True)
class FusedGradient:
    """How the gradient of y is computed: the ops before the anchor, and which of their results are also outputs.
    ``operands`` are the refs of the anchor's g, x, gamma, mean and variance."""

    program: tuple[Any, ...]
    operands: tuple[Ref, ...]
    extra_outputs: tuple[Ref, ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]

    def trace(self, k: KernelBuilder, inputs: list[Pointer], at: Int64, lanes: int, mask: Mask) -> dict[Ref, Num]:
        """Return all values of a vector by their refs: what is read, and what the ops make of it."""
        values: dict[Ref, Num] = {}

        def read(ref: Ref) -> Num:
            if ref not in values:
                values[ref] = k.num(ref[1], ref[2]) if ref[0] == "const" else inputs[ref[1]].load(at, lanes, mask)
            return values[ref]

        for j, (op, refs, attrs) in enumerate(self.program):
            for i, value in enumerate(trace_op(op, attrs)(k, [read(r) for r in refs])):
                values["node", j, i] = value
        for ref in (*self.operands[:2], *self.extra_outputs):
            read(ref)
        return values

    def pointers(self, k: KernelBuilder, streams: bool = False) -> tuple[list[Pointer], list[Pointer]]:
        """Return the inputs, and the full-size outputs after them: that of x, then the extra ones."""
        inputs = [k.pointer(i, d) for i, d in enumerate(self.input_dtypes)]
        return inputs, [k.pointer(len(inputs) + i, d, streams) for i, d in enumerate(self.output_dtypes)]

    def vector(self, inputs: list[Pointer], operand: int) -> Pointer:
        """Return the address of one of the anchor's vectors over the channels."""
        return inputs[self.operands[operand][1]]

    def store(self, outputs: list[Pointer], values: dict[Ref, Num], dx: Num, at: Int64, mask: Mask) -> None:
        """Store a vector of the gradient of x, and the extra outputs."""
        outputs[0].store(dx, at, mask)
        for pointer, ref in zip(outputs[1:], self.extra_outputs, strict=True):
            pointer.store(values[ref].cast(pointer.dtype).splat(dx.lanes), at, mask)


_GAMMA, _MEAN, _VARIANCE = 2, 3, 4


def _partial_sums(k: KernelBuilder, c: ChannelShape, piece: Index) -> tuple[Pointer, Pointer]:
    """Return the addresses of a piece's sums: of the gradient, and of the gradient times the deviation from the
    mean."""
    address = k.shared.as_type("float32") + piece * (2 * c.channels)
    return address, address + c.channels


def _coefficients(k: KernelBuilder, c: ChannelShape) -> list[Pointer]:
    """Return the addresses of each channel's scale, mean gradient, factor of the deviation, and mean (whose array an
    output may overwrite)."""
    address = k.shared.as_type("float32") + c.num_pieces * 2 * c.channels
    return [address + i * c.channels for i in range(4)]


def _compute_sums(k: KernelBuilder, c: ChannelShape, g: FusedGradient) -> None:
    inputs, _ = g.pointers(k)
    mean = g.vector(inputs, _MEAN)

    def terms(at: Int64, i: Int64, lanes: int, mask: Mask) -> list[Num]:
        values = g.trace(k, inputs, at, lanes, mask)
        grad, x = values[g.operands[0]], values[g.operands[1]]
        return [grad, grad * (x - mean.load(i, lanes, mask))]

    for_each_piece(k, c, lambda p, start, count: sum_rows(k, c, start, count, _partial_sums(k, c, p), terms))


def _combine_sums(k: KernelBuilder, c: ChannelShape, eps: float) -> None:
    gamma, mean, variance, dgamma, dbeta = (k.pointer(i) for i in range(5))
    factor, shift, deviation_factor, saved_mean = _coefficients(k, c)

    def vector(i: Int64, lanes: int, mask: Mask) -> None:
        total, product = k.variable(k.zero(lanes)), k.variable(k.zero(lanes))
        with k.range(c.num_pieces) as p:
            a, b = (part.load(i, lanes, mask) for part in _partial_sums(k, c, p))
            total.value = total.value + a
            product.value = product.value + b
        inverse = rsqrt(k, variance.load(i, lanes, mask), eps)
        scaled_product = product.value * inverse
        saved_mean.store(mean.load(i, lanes, mask), i, mask)
        factor.store(inverse * gamma.load(i, lanes, mask), i, mask)
        dgamma.store(scaled_product, i, mask)
        dbeta.store(total.value, i, mask)
        shift.store(total.value * (1.0 / c.elements_per_channel), i, mask)
        deviation_factor.store(scaled_product * inverse * (1.0 / c.elements_per_channel), i, mask)

    for_each_channel_block(k, c, vector)


def _store_input_grad(k: KernelBuilder, c: ChannelShape, g: FusedGradient, streams: bool) -> None:
    inputs, outputs = g.pointers(k, streams)
    factor, shift, deviation_factor, mean = _coefficients(k, c)

    def store_grad(at: Int64, i: Int64, lanes: int, mask: Mask) -> None:
        values = g.trace(k, inputs, at, lanes, mask)
        deviation = values[g.operands[1]] - mean.load(i, lanes, mask)
        rest = values[g.operands[0]] - shift.load(i, lanes, mask) - deviation * deviation_factor.load(i, lanes, mask)
        g.store(outputs, values, rest * factor.load(i, lanes, mask), at, mask)

    for_each_piece(k, c, lambda _, start, count: for_each_row(k, c, start, count, store_grad), backwards=True)


def _input_grad_planes(k: KernelBuilder, c: ChannelShape, g: FusedGradient, eps: float) -> None:
    inputs, outputs = g.pointers(k)
    first = len(inputs) + len(outputs)
    dgamma, dbeta = k.pointer(first), k.pointer(first + 1)
    with k.range(k.first, k.last) as channel:
        gamma, mean, variance = (g.vector(inputs, n).load(channel) for n in (_GAMMA, _MEAN, _VARIANCE))

        def terms(at: Int64, mask: Mask) -> list[Num]:
            values = g.trace(k, inputs, at, k.lanes, mask)
            return [values[g.operands[0]], values[g.operands[0]] * (values[g.operands[1]] - mean)]

        total, product = sum_plane(k, c, channel, terms, 2)
        inverse = rsqrt(k, variance, eps)
        scaled_product = product.cast("float32") * inverse
        dgamma.store(scaled_product, channel)
        dbeta.store(total.cast("float32"), channel)
        factor, deviation_factor = inverse * gamma, scaled_product * inverse * (1.0 / c.elements_per_channel)
        shift = (total * (1.0 / c.elements_per_channel)).cast("float32")

        def store_grad(at: Int64, mask: Mask) -> None:
            values = g.trace(k, inputs, at, k.lanes, mask)
            rest = values[g.operands[0]] - shift - (values[g.operands[1]] - mean) * deviation_factor
            g.store(outputs, values, rest * factor, at, mask)

        for_each_position(k, c, channel, store_grad)


def _tasks(
    outs: Specs, c: ChannelShape, g: FusedGradient, eps: float, full_outputs: list[int], vectors: list[int]
) -> TaskList:
    """``full_outputs`` are the indices of the full-size outputs, ``vectors`` those of the gradients of gamma and
    beta."""
    if not c.is_channels_last:
        kernel = kernel_code(_input_grad_planes, c, g, eps)
        kernel.check_supported()
        return TaskList(
            lambda i, o: [
                ParallelTask(kernel.address, (*i, *(o[w] for w in (*full_outputs, *vectors))), c.channels, c.grain_size)
            ]
        )
    sums, combine = kernel_code(_compute_sums, c, g), kernel_code(_combine_sums, c, eps)
    kernel_code(_store_input_grad, c, g, False).check_supported()
    store_grad = choose_nontemporal(
        lambda nontemporal: kernel_code(_store_input_grad, c, g, nontemporal),
        [outs[w] for w in full_outputs],
        c.channels,
    )
    shared_bytes = 4 * c.channels * (2 * c.num_pieces + 4)
    operands = [g.operands[n][1] for n in (_GAMMA, _MEAN, _VARIANCE)]

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        results = [o[w] for w in full_outputs]
        return [
            ParallelTask(sums.address, tuple(i), c.num_pieces, 1, 0, shared_bytes),
            ParallelTask(
                combine.address, (*(i[n] for n in operands), *(o[v] for v in vectors)), c.num_blocks, 1, 0, shared_bytes
            ),
            ParallelTask(store_grad(i, results), (*i, *results), c.num_pieces, 1, 0, shared_bytes),
        ]

    return TaskList(bind)


@native_kernel(OP_NAME)
def batch_norm_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The gradients of x, gamma and beta."""
    c = channel_shape(ins[1], attrs.get("axis", 1), (ins[0], outs[0]))
    g = FusedGradient((), tuple(("in", i) for i in range(5)), (), ("float32",) * 5, ("float32",))
    return _tasks(outs, c, g, attrs["eps"], [0], [1, 2])


@native_kernel("fused")
def fused_batch_norm_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The same after elementwise ops that make the gradient of y, all of whose operands are full-size."""
    *lines, (anchor, operands, items) = attrs["program"]
    if anchor != OP_NAME or any(ref[0] != "in" for ref in operands[1:]):
        return None
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in lines):
        return None
    last = len(lines)
    where = {ref: i for i, ref in enumerate(attrs["outputs"])}
    if any(("node", last, i) not in where for i in range(3)):
        return None
    results = [where["node", last, i] for i in range(3)]
    extra_outputs = [i for i in range(len(outs)) if i not in results]
    shape = ins[operands[1][1]].shape
    read = {ref for line in lines for ref in line[1] if ref[0] == "in"}
    full = [ins[ref[1]] for ref in (*read, operands[1])] + [outs[i] for i in (results[0], *extra_outputs)]
    if any(s.shape != shape for s in full):
        raise UnsupportedError("an operand that is not full-size")
    c = channel_shape(ins[operands[1][1]], dict(items).get("axis", 1), full)
    g = FusedGradient(
        tuple(lines),
        operands,
        tuple(attrs["outputs"][i] for i in extra_outputs),
        tuple(s.dtype for s in ins),
        tuple(outs[i].dtype for i in (results[0], *extra_outputs)),
    )
    return _tasks(outs, c, g, dict(items)["eps"], [results[0], *extra_outputs], results[1:])


register_channels_last("native", "follows", OP_NAME, ins=(0, 1), outs=(0,))
register_fusion_role("native", "tail", OP_NAME)
