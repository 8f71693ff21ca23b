"""The gradients of simple recurrent layers and of GRU (reset after), by backpropagation through time as in
`lstm_grad`."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import unit_mask
from prototorch.engine.backends.cpu.native.kernels.gemm.matmul import matmul
from prototorch.engine.backends.cpu.native.kernels.reduce.reduce import reduction_tasks as reduction
from prototorch.engine.backends.cpu.native.kernels.reduce.reduction_tiling import merge_axes, tile_reduction
from prototorch.engine.backends.cpu.native.kernels.rnn.activations import ACTIVATION_DERIVATIVES, ACTIVATIONS
from prototorch.engine.backends.cpu.native.kernels.rnn.sequence import (
    SequenceShape,
    grain_size,
    multiply_rows,
    pack_transposed_weights,
    pack_weights,
    scratch_bytes,
    sequence_shape,
    shift_states,
    tile_rows,
    unit_blocks,
)
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_UNIT_VECTORS = 2  # vectors of units of a piece of the backward pass


def _backward_step(k: KernelBuilder, p: SequenceShape, last: bool, end: bool) -> None:
    """One step of the backward pass. Arguments: dz of this and of the later step, the gradient of h, that of the last
    h, dh, which is carried from step to step, the mask of this step, and then for the simple layer h after this step,
    for GRU the states before each step, the gates with the inner part, and dx, all of this step.

    ``last`` is the last step forward; ``end``: only the gradient of the initial h remains.
    """
    n, rows = p.units, tile_rows(p.n, _UNIT_VECTORS)
    dz, later_grads, g, g_last, dh = (k.pointer(i) for i in range(5))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups

        def each(row: Int64, from_product: Any) -> None:
            for v in range(_UNIT_VECTORS):
                unit(row, block * (_UNIT_VECTORS * k.lanes) + v * k.lanes, from_product, v)

        def unit(row: Int64, column: Int64, from_product: Any, v: int) -> None:
            mask = unit_mask(k, column, n, _UNIT_VECTORS)
            offset = row * n + column
            if last:
                d = g_last.load(offset, k.lanes, mask)
            else:
                d = from_product(v) + dh.load(offset, k.lanes, mask)  # what bypassed the product
            if end:
                dh.store(d, offset, mask)
                return
            d = d + g.load(row * p.row_stride(1) + column, k.lanes, mask)
            grads, direct_grad = (_simple_grad if p.gates == 1 else _gru_grad)(k, p, d, row, column, mask)
            if p.is_masked:
                keep = k.pointer(5, "bool").load(row * p.t)
                grads = [k.select(keep, m, k.zero(k.lanes)) for m in grads]
                direct_grad = k.select(keep, direct_grad, d)
            for j, m in enumerate(grads[: p.gates]):
                dz.store(m, row * p.row_stride(p.gates) + column + j * n, mask)
            if p.gates == 3:
                for j, m in enumerate((grads[0], grads[1], grads[3])):
                    k.pointer(8).store(m, row * p.row_stride(3) + column + j * n, mask)
            dh.store(direct_grad, offset, mask)

        if last:
            begin = group * rows.group_rows
            with k.range(begin, (begin + rows.group_rows).minimum(rows.total)) as row:
                each(row, None)
        else:
            w = k.shared + (block * (p.gates * n * _UNIT_VECTORS * k.lanes) + p.packed_elements)
            multiply_rows(k, rows, group, later_grads, p.row_stride(p.gates), w, p.gates * n, each)


def _simple_grad(
    k: KernelBuilder, p: SequenceShape, d: Num, row: Int64, column: Int64, mask: Mask
) -> tuple[list[Num], Num]:
    h = k.pointer(6).load(row * p.row_stride(1) + column, k.lanes, mask)
    return [d * ACTIVATION_DERIVATIVES[p.activation](k, h)], k.zero(k.lanes)


def _gru_grad(
    k: KernelBuilder, p: SequenceShape, d: Num, row: Int64, column: Int64, mask: Mask
) -> tuple[list[Num], Num]:
    """Return the gradients of z, r, the inner part and the candidate, and the part of dh that bypasses the product."""
    n = p.units
    h = k.pointer(6).load(row * p.row_stride(1) + column, k.lanes, mask)
    z, r, new, inner = (k.pointer(7).load(row * p.row_stride(4) + column + j * n, k.lanes, mask) for j in range(4))
    gate_derivative = ACTIVATION_DERIVATIVES[p.gate]
    by_new = d * (k.num(1.0) - z) * ACTIVATION_DERIVATIVES[p.activation](k, new)
    return [d * (h - new) * gate_derivative(k, z), by_new * inner * gate_derivative(k, r), by_new * r, by_new], d * z


def _recompute_gates(k: KernelBuilder, p: SequenceShape) -> None:
    """Compute the gates of all steps and the inner part, [n * t, 4 * units]. Arguments: x, the states before each
    step, the bias and the target."""
    n, rows = p.units, tile_rows(p.n * p.t, 3)
    x, h, bias, out = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            inputs = [x.load(row * (3 * n) + column + g * n, k.lanes, mask) for g in range(3)]
            inner = [sums(g) + bias.load(column + g * n, k.lanes, mask) for g in range(3)]
            z, r = (ACTIVATIONS[p.gate](k, inputs[g] + inner[g]) for g in range(2))
            gates = z, r, ACTIVATIONS[p.activation](k, inputs[2] + r * inner[2]), inner[2]
            for j, value in enumerate(gates):
                out.store(value, row * (4 * n) + column + j * n, mask)

        multiply_rows(k, rows, group, h, n, k.shared + block * (n * 3 * k.lanes), n, use)


def _prepare(ins: Specs, attrs: Attrs, gates: int) -> TaskList | None:
    p = sequence_shape(ins, attrs, gates)
    if p is None:
        return None
    n, t, units, is_gru = p.n, p.t, p.units, gates == 3
    scratch = np.empty(n * t * units * (1 + 7 * is_gru), np.float32)  # h before each step; the gates; dz
    states_before = scratch.ctypes.data
    gate_values, gate_grads = states_before + 4 * n * t * units, states_before + 20 * n * t * units
    unit_block_count, rows = unit_blocks(units, _UNIT_VECTORS), tile_rows(n, _UNIT_VECTORS)
    shared_bytes = 4 * (p.packed_elements + unit_block_count * gates * units * _UNIT_VECTORS * vector_lanes("float32"))
    transposing = kernel_code(pack_transposed_weights, units, gates * units, _UNIT_VECTORS, p.packed_elements)
    kinds = {(a, b): kernel_code(_backward_step, p, a, b) for a, b in ((False, False), (True, False), (False, True))}
    product = matmul(
        (Spec((n * t, units)), Spec((n * t, gates * units))), (Spec((units, gates * units)),), {"transpose_a": True}
    )
    if product is None:
        return None
    copy_states = shift_states(p)
    total = reduction(tile_reduction(merge_axes((n * t, gates * units), (0,))), "sum", "float32", n * t)
    packing, recompute, step_rows = (
        kernel_code(pack_weights, units, gates, 0),
        kernel_code(_recompute_gates, p),
        tile_rows(n * t, 3),
    )
    blocks, grain = unit_blocks(units), grain_size(unit_block_count * rows.num_groups, n * units * gates * units)

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        x, u, bias, h0 = i[0], i[1], i[2] if is_gru else 0, i[2 + is_gru]
        mask = i[3 + is_gru] if p.is_masked else 0
        hs, g, g_h = i[-3:]
        dx, du, dh = o[0], o[1], o[-1]
        dz = gate_grads if is_gru else dx
        tasks = copy_states(h0, hs, states_before)
        if is_gru:
            items = blocks * step_rows.num_groups
            tasks.append(
                ParallelTask(packing.address, (u,), blocks, grain_size(blocks, units * units), 0, shared_bytes)
            )
            tasks.append(
                ParallelTask(
                    recompute.address,
                    (x, states_before, bias, gate_values),
                    items,
                    grain_size(items, n * t * units * units * 3),
                    scratch_bytes(step_rows),
                    shared_bytes,
                )
            )
        tasks.append(
            ParallelTask(
                transposing.address,
                (u,),
                unit_block_count,
                grain_size(unit_block_count, units * units),
                0,
                shared_bytes,
            )
        )
        for step_index in range(t - 1, -2, -1):
            last, end = step_index == t - 1, step_index < 0
            time, later = p.time_of(step_index), p.time_of(step_index + 1)
            step_args = (
                (states_before + 4 * time * units, gate_values + 16 * time * units)
                if is_gru
                else (hs + 4 * step_index * units, 0)
            )
            gate_offset = 4 * time * gates * units
            arguments = (
                dz + gate_offset,
                dz + 4 * later * gates * units,
                g + 4 * step_index * units,
                g_h,
                dh,
                mask + time,
                *step_args,
                dx + gate_offset,
            )
            tasks.append(
                ParallelTask(
                    kinds[last and not end, end].address,
                    arguments,
                    unit_block_count * rows.num_groups,
                    grain,
                    scratch_bytes(rows),
                    shared_bytes,
                )
            )
        tasks += product.bind((states_before, dz), (du,))
        return tasks + (total.bind((dz,), (o[2],)) if is_gru else [])

    return TaskList(bind, keep_alive=scratch)


@native_kernel("simple_rnn_sequence_grad")
def simple_rnn_sequence_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of x, the weights and the initial state."""
    return _prepare(ins, attrs, 1)


@native_kernel("gru_sequence_grad")
def gru_sequence_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of x, the weights, the bias and the initial state."""
    return _prepare(ins, attrs, 3) if attrs.get("reset_after", True) else None
