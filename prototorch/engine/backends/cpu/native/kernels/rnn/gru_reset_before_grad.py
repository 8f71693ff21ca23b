"""The gradients of GRU whose reset gate is applied before the product; see `gru_reset_before.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import StridedAxis, strided_copy
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import unit_mask
from prototorch.engine.backends.cpu.native.kernels.gemm.matmul import matmul
from prototorch.engine.backends.cpu.native.kernels.reduce.reduce import reduction_tasks as reduction
from prototorch.engine.backends.cpu.native.kernels.reduce.reduction_tiling import merge_axes, tile_reduction
from prototorch.engine.backends.cpu.native.kernels.rnn.activations import ACTIVATION_DERIVATIVES
from prototorch.engine.backends.cpu.native.kernels.rnn.gru_reset_before import pack_gru_weights, step_tasks
from prototorch.engine.backends.cpu.native.kernels.rnn.sequence import (
    SequenceShape,
    grain_size,
    multiply_rows,
    pack_transposed_weights,
    scratch_bytes,
    sequence_shape,
    shift_states,
    tile_rows,
    unit_blocks,
)
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_UNIT_VECTORS = 2  # vectors of units of a piece of the backward pass


def _reset_gate_grad(k: KernelBuilder, p: SequenceShape) -> None:
    """Compute the gradient of the reset gate. Arguments: that of the candidate, the previous h, r, dh, and the
    targets in dx and in the gates' gradients."""
    n, tiling = p.units, tile_rows(p.n, _UNIT_VECTORS)
    d_new, h, r, dh, dx, d_gates = (k.pointer(i) for i in range(6))
    with k.range(k.first, k.last) as item:
        block, group = item // tiling.num_groups, item % tiling.num_groups

        def use(row: Int64, sums: Any) -> None:
            for v in range(_UNIT_VECTORS):
                column = block * (_UNIT_VECTORS * k.lanes) + v * k.lanes
                mask = unit_mask(k, column, n, _UNIT_VECTORS)
                offset = row * p.row_stride(1) + column
                reset, grad = r.load(offset, k.lanes, mask), sums(v)
                reset_grad = grad * h.load(offset, k.lanes, mask) * ACTIVATION_DERIVATIVES[p.gate](k, reset)
                dx.store(reset_grad, row * p.row_stride(3) + column + n, mask)
                d_gates.store(reset_grad, row * p.row_stride(2) + column + n, mask)
                at = row * n + column
                dh.store(k.fma(grad, reset, dh.load(at, k.lanes, mask)), at, mask)

        w = k.shared + (block * (n * _UNIT_VECTORS * k.lanes) + _transposed_gate_elements(p))
        multiply_rows(k, tiling, group, d_new, p.row_stride(1), w, n, use)


def _transposed_gate_elements(p: SequenceShape) -> int:
    """Return the elements of the transposed gate weights, which precede those of the candidate."""
    return unit_blocks(p.units, _UNIT_VECTORS) * _UNIT_VECTORS * vector_lanes("float32") * 2 * p.units


def _state_grad(k: KernelBuilder, p: SequenceShape, last: bool, end: bool) -> None:
    """Compute the gradient of the previous state, and the elementwise part of the previous step. Arguments: the gates'
    gradients of the step, dh, that of the last h; and of the previous step: g, the h before it, z, the candidate, dx,
    the gradients of the gates and of the candidate, the mask.

    ``last``: the first step of the backward pass; ``end``: only the gradient of the initial state remains.
    """
    n, tiling = p.units, tile_rows(p.n, _UNIT_VECTORS)
    later, dh, g_last, g, h, z, new, dx, d_gates, d_new = (k.pointer(i) for i in range(10))
    with k.range(k.first, k.last) as item:
        block, group = item // tiling.num_groups, item % tiling.num_groups

        def use(row: Int64, sums: Any) -> None:
            for v in range(_UNIT_VECTORS):
                column = block * (_UNIT_VECTORS * k.lanes) + v * k.lanes
                unit(row, column, unit_mask(k, column, n, _UNIT_VECTORS), None if sums is None else sums(v))

        def unit(row: Int64, column: Int64, mask: Mask, from_product: Num | None) -> None:
            at, step_offset = row * n + column, row * p.row_stride(1) + column
            d = g_last.load(at, k.lanes, mask) if from_product is None else from_product + dh.load(at, k.lanes, mask)
            if end:
                dh.store(d, at, mask)
                return
            d = d + g.load(step_offset, k.lanes, mask)
            update, candidate = z.load(step_offset, k.lanes, mask), new.load(step_offset, k.lanes, mask)
            of_z = d * (h.load(step_offset, k.lanes, mask) - candidate) * ACTIVATION_DERIVATIVES[p.gate](k, update)
            of_new, direct_grad = (
                d * (k.num(1.0) - update) * ACTIVATION_DERIVATIVES[p.activation](k, candidate),
                d * update,
            )
            if p.is_masked:
                keep, zero = k.pointer(10, "bool").load(row * p.t), k.zero(k.lanes)
                of_z, of_new, direct_grad = (
                    k.select(keep, of_z, zero),
                    k.select(keep, of_new, zero),
                    k.select(keep, direct_grad, d),
                )
            for to, value, step_index in (
                (dx, of_z, row * p.row_stride(3)),
                (dx, of_new, row * p.row_stride(3) + 2 * n),
                (d_gates, of_z, row * p.row_stride(2)),
                (d_new, of_new, row * p.row_stride(1)),
            ):
                to.store(value, step_index + column, mask)
            dh.store(direct_grad, at, mask)

        if last:
            begin = group * tiling.group_rows
            with k.range(begin, (begin + tiling.group_rows).minimum(tiling.total)) as row:
                use(row, None)
        else:
            w = k.shared + block * (2 * n * _UNIT_VECTORS * k.lanes)
            multiply_rows(k, tiling, group, later, p.row_stride(2), w, 2 * n, use)


@native_kernel("gru_sequence_grad")
def gru_sequence_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of x, the weights, the bias and the initial state."""
    p = sequence_shape(ins, attrs, 3)
    if p is None or attrs.get("reset_after", True):
        return None
    n, t, units = p.n, p.t, p.units
    num_steps, blocks, tiling = n * t, unit_blocks(units, _UNIT_VECTORS), tile_rows(n, _UNIT_VECTORS)
    scratch = np.empty(num_steps * units * 8 + 3 * units * units, np.float32)
    # h before each step, z, r, r h, the candidate, and the gradients of the candidate and of the gates
    states_before, z, r, rh, new, d_new, d_gates = (scratch.ctypes.data + 4 * num_steps * units * j for j in range(7))
    du_gates = scratch.ctypes.data + 32 * num_steps * units
    du_new = du_gates + 8 * units * units
    packing, shared_bytes = pack_gru_weights(p)
    gates = step_tasks(p, num_steps, 3 * units, units, units, False)
    shared_bytes = max(shared_bytes, 4 * (_transposed_gate_elements(p) * 3 // 2))
    turn_gates = kernel_code(pack_transposed_weights, units, 2 * units, _UNIT_VECTORS, 0, 3 * units)
    turn_new = kernel_code(
        pack_transposed_weights, units, units, _UNIT_VECTORS, _transposed_gate_elements(p), 3 * units
    )
    reset = kernel_code(_reset_gate_grad, p)
    kinds = {(a, b): kernel_code(_state_grad, p, a, b) for a, b in ((False, False), (True, False), (False, True))}
    copy_states = shift_states(p)
    of_gates, of_new = (
        matmul(
            (Spec((num_steps, units)), Spec((num_steps, w * units))), (Spec((units, w * units)),), {"transpose_a": True}
        )
        for w in (2, 1)
    )
    total = reduction(tile_reduction(merge_axes((num_steps, 3 * units), (0,))), "sum", "float32", num_steps)
    if of_gates is None or of_new is None:
        return None
    put = [
        strided_copy([StridedAxis(units, w * units, 3 * units), StridedAxis(w * units, 1, 1)], "float32", 0, at * units)
        for w, at in ((2, 0), (1, 2))
    ]
    items, grain = blocks * tiling.num_groups, grain_size(blocks * tiling.num_groups, n * units * 2 * units)

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        x, u, bias, h0 = i[:4]
        hs, g, g_h = i[-3:]
        dx, du, db, dh = o
        tasks = [*copy_states(h0, hs, states_before), *packing(u), *gates(x, states_before, bias, z, r, rh, new)]
        tasks += [
            ParallelTask(one.address, (at,), blocks, grain_size(blocks, units * units), 0, shared_bytes)
            for one, at in ((turn_gates, u), (turn_new, u + 8 * units))
        ]
        for step_index in range(t - 1, -2, -1):
            last, end = step_index == t - 1, step_index < 0
            later, time = p.time_of(step_index + 1), p.time_of(max(step_index, 0))
            offset, gate_offset = 4 * time * units, 12 * time * units
            mask = (i[4] + time,) if p.is_masked else ()
            args = (
                d_gates + 8 * later * units,
                dh,
                g_h,
                g + 4 * max(step_index, 0) * units,
                states_before + offset,
                z + offset,
                new + offset,
                dx + gate_offset,
                d_gates + 2 * offset,
                d_new + offset,
                *mask,
            )
            tasks.append(
                ParallelTask(kinds[last, end].address, args, items, grain, scratch_bytes(tiling), shared_bytes)
            )
            if not end:
                args = (d_new + offset, states_before + offset, r + offset, dh, dx + gate_offset, d_gates + 2 * offset)
                tasks.append(ParallelTask(reset.address, args, items, grain, scratch_bytes(tiling), shared_bytes))
        tasks += [*of_gates.bind((states_before, d_gates), (du_gates,)), *of_new.bind((rh, d_new), (du_new,))]
        return [*tasks, put[0](du_gates, du), put[1](du_new, du), *total.bind((dx,), (db,))]

    return TaskList(bind, keep_alive=scratch)
