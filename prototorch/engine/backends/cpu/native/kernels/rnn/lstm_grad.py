"""The gradients of LSTM, by backpropagation through time.

The gates of all steps are recomputed by one product (unless they were saved), in the memory of the gradient of x. The
backward pass is one task a step: the gradient of the previous states from that of the next step's gates, and then the
gates' own. The gradient of the weights, which needs no order, is one product at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import StridedAxis, strided_copy
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import unit_mask
from prototorch.engine.backends.cpu.native.kernels.gemm.matmul import matmul
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

#: vectors of units of a piece of the backward pass
_UNIT_VECTORS = 2


def _recompute_gates(k: KernelBuilder, p: SequenceShape) -> None:
    """Compute the gates of all steps. Arguments: x, the states before each step and the gates, [n * t, ...] all."""
    n, rows = p.units, tile_rows(p.n * p.t, 4)
    x, h, gates = (k.pointer(i) for i in range(3))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            for g in range(4):
                at = row * (4 * n) + column + g * n
                gate_input = sums(g) + x.load(at, k.lanes, mask)
                gates.store(ACTIVATIONS[p.activation if g == 2 else p.gate](k, gate_input), at, mask)

        multiply_rows(k, rows, group, h, n, k.shared + block * (n * 4 * k.lanes), n, use)


def _backward_step(k: KernelBuilder, p: SequenceShape, last: bool, first: bool, end: bool) -> None:
    """One step of the backward pass. Arguments: the gates of this step; their gradient, which may have the same
    address; that gradient at the later step; the states c after and before; the gradient of h; that of the last h; dh
    and dc, which are carried from step to step; the mask of this and of the later step.

    ``last`` is the last step forward, ``first`` the first one; ``end``: only the gradient of the initial h remains.
    """
    n, rows = p.units, tile_rows(p.n, _UNIT_VECTORS)
    gates, gate_grads, later_grads, c, c_old, g, g_last, dh, dc = (k.pointer(i) for i in range(9))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups

        def each(row: Int64, from_product: Any) -> None:
            for v in range(_UNIT_VECTORS):
                unit(row, block * (_UNIT_VECTORS * k.lanes) + v * k.lanes, from_product, v)

        def unit(row: Int64, column: Int64, from_product: Any, v: int) -> None:
            mask = unit_mask(k, column, n, _UNIT_VECTORS)
            offset, step_offset = row * n + column, row * (p.t * n) + column
            if last:
                d = g_last.load(offset, k.lanes, mask)
            else:
                d = from_product(v)
                if p.is_masked:
                    later_mask = k.pointer(10, "bool").load(row * p.t)
                    d = d + k.select(later_mask, k.num(0.0), dh.load(offset, k.lanes, mask))
            if end:
                dh.store(d, offset, mask)
                return
            d = d + g.load(step_offset, k.lanes, mask)
            step_index = row * (p.t * 4 * n) + column
            i, f, new, o = (gates.load(step_index + j * n, k.lanes, mask) for j in range(4))
            old = c_old.load(offset if first else step_offset, k.lanes, mask)
            grads = _gate_gradients(
                k, p, d, dc.load(offset, k.lanes, mask), i, f, new, o, c.load(step_offset, k.lanes, mask), old
            )
            if p.is_masked:
                keep = k.pointer(9, "bool").load(row * p.t)
                zero = k.zero(k.lanes)
                grads = [
                    *(k.select(keep, m, zero) for m in grads[:4]),
                    k.select(keep, grads[4], dc.load(offset, k.lanes, mask)),
                ]
                dh.store(d, offset, mask)
            for j, m in enumerate(grads[:4]):
                gate_grads.store(m, step_index + j * n, mask)
            dc.store(grads[4], offset, mask)

        if last:
            begin = group * rows.group_rows
            with k.range(begin, (begin + rows.group_rows).minimum(rows.total)) as row:
                each(row, None)
        else:
            multiply_rows(k, rows, group, later_grads, p.t * 4 * n, _transposed_weights(k, p, block), 4 * n, each)


def _transposed_weights(k: KernelBuilder, p: SequenceShape, block: Int64) -> Any:
    return k.shared + (block * (4 * p.units * _UNIT_VECTORS * k.lanes) + p.packed_elements)


def _gate_gradients(
    k: KernelBuilder, p: SequenceShape, d: Num, dc: Num, i: Num, f: Num, new: Num, o: Num, c: Num, old: Num
) -> list[Num]:
    """Return the gradients of the four gates before their activations, and of the previous c."""
    gate_derivative, derivative = ACTIVATION_DERIVATIVES[p.gate], ACTIVATION_DERIVATIVES[p.activation]
    out = ACTIVATIONS[p.activation](k, c)
    dc = dc + d * o * derivative(k, out)
    return [
        dc * new * gate_derivative(k, i),
        dc * old * gate_derivative(k, f),
        dc * i * derivative(k, new),
        d * out * gate_derivative(k, o),
        dc * f,
    ]


@native_kernel("lstm_sequence_grad")
def lstm_sequence_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of x, the weights and the initial states."""
    return _prepare(ins, attrs, False)


@native_kernel("lstm_sequence_with_gates_grad")
def lstm_sequence_with_gates_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The same from saved gates."""
    return _prepare(ins, attrs, True)


def _recompute_tasks(p: SequenceShape, shared_bytes: int) -> Any:
    """Return a function from x, the weights, the states before each step and the gates to the tasks that compute the
    gates."""
    packing, recompute, rows, blocks = (
        kernel_code(pack_weights, p.units, 4, 0),
        kernel_code(_recompute_gates, p),
        tile_rows(p.n * p.t, 4),
        unit_blocks(p.units),
    )
    items = blocks * rows.num_groups
    grain = grain_size(items, p.n * p.t * p.units * p.units * 4)
    return lambda x, u, h, gates: [
        ParallelTask(packing.address, (u,), blocks, grain_size(blocks, p.units * p.units), 0, shared_bytes),
        ParallelTask(recompute.address, (x, h, gates), items, grain, scratch_bytes(rows), shared_bytes),
    ]


def _prepare(ins: Specs, attrs: Attrs, has_gates: bool) -> TaskList | None:
    p = sequence_shape(ins, attrs, 4)
    if p is None:
        return None
    n, t, units = p.n, p.t, p.units
    scratch = np.empty(n * t * units, np.float32)  # h before each step, by time
    h = scratch.ctypes.data
    blocks, rows = unit_blocks(units, _UNIT_VECTORS), tile_rows(n, _UNIT_VECTORS)
    shared_bytes = 4 * (p.packed_elements + blocks * 4 * units * _UNIT_VECTORS * vector_lanes("float32"))
    transposing = kernel_code(pack_transposed_weights, units, 4 * units, _UNIT_VECTORS, p.packed_elements)
    kinds = {(a, b, c): kernel_code(_backward_step, p, a, b, c) for a, b, c in
             ((False, False, False), (True, False, False), (False, True, False), (True, True, False),
              (False, False, True))}  # fmt: skip
    product = matmul(
        (Spec((n * t, units)), Spec((n * t, 4 * units))), (Spec((units, 4 * units)),), {"transpose_a": True}
    )
    recompute, copy_states = _recompute_tasks(p, shared_bytes), shift_states(p)
    copy_state = strided_copy([StridedAxis(n * units, 1, 1)], "float32", 0, 0)
    grain = grain_size(blocks * rows.num_groups, n * units * 4 * units)
    if product is None:
        return None

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        x, u, h0, c0 = i[:4]
        mask = i[4] if p.is_masked else 0
        hs, cs, g, g_h, g_c = i[4 + p.is_masked :]
        dx, du, dh, dc = o
        tasks = copy_states(h0, hs, h) + ([] if has_gates else recompute(x, u, h, dx))
        gates = x if has_gates else dx
        tasks.append(
            ParallelTask(transposing.address, (u,), blocks, grain_size(blocks, units * units), 0, shared_bytes)
        )
        tasks.append(copy_state(g_c, dc))
        for step_index in range(t - 1, -2, -1):
            last, is_first, end = step_index == t - 1, step_index == 0, step_index < 0
            time, later = p.time_of(step_index), p.time_of(step_index + 1)
            now, previous = 4 * step_index * units, 4 * (step_index - 1) * units
            arguments = (
                gates + 16 * time * units,
                dx + 16 * time * units,
                dx + 16 * later * units,
                cs + now,
                c0 if is_first else cs + previous,
                g + now,
                g_h,
                dh,
                dc,
                mask + time,
                mask + later,
            )
            tasks.append(
                ParallelTask(
                    kinds[last and not end, is_first, end].address,
                    arguments,
                    blocks * rows.num_groups,
                    grain,
                    scratch_bytes(rows),
                    shared_bytes,
                )
            )
        return [*tasks, *product.bind((h, dx), (du,))]

    return TaskList(bind, keep_alive=scratch)
