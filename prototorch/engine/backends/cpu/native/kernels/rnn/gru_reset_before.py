"""GRU whose reset gate is applied before the product (``reset_after: false``; Cho et al., 2014), and its gradients.

A step is two tasks over the units: the gates z and r with r h, then the candidate from (r h) u with the new state. A
step of the backward pass is two tasks as well: the gradients of r h and of the reset gate, then that of the previous
state with the elementwise part of the previous step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import StridedAxis, strided_copy
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import unit_mask
from prototorch.engine.backends.cpu.native.kernels.rnn.activations import ACTIVATIONS
from prototorch.engine.backends.cpu.native.kernels.rnn.sequence import (
    SequenceShape,
    grain_size,
    multiply_rows,
    pack_weights,
    scratch_bytes,
    sequence_shape,
    tile_rows,
    unit_blocks,
)
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["pack_gru_weights", "step_tasks"]


def _compute_gates(k: KernelBuilder, p: SequenceShape, rows: int, x_row: int, h_row: int) -> None:
    """Compute the gates. Arguments: x, h, the bias, and the targets of z, r and r h, [rows, units] each."""
    n, tiling = p.units, tile_rows(rows, 2)
    x, h, bias, *targets = (k.pointer(i) for i in range(6))
    with k.range(k.first, k.last) as item:
        block, group = item // tiling.num_groups, item % tiling.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            z, r = (
                ACTIVATIONS[p.gate](
                    k,
                    x.load(row * x_row + column + g * n, k.lanes, mask)
                    + (sums(g) + bias.load(column + g * n, k.lanes, mask)),
                )
                for g in range(2)
            )
            values = z, r, r * h.load(row * h_row + column, k.lanes, mask)
            for to, value in zip(targets, values, strict=True):
                to.store(value, row * n + column, mask)

        multiply_rows(k, tiling, group, h, h_row, k.shared + block * (n * 2 * k.lanes), n, use)


def _compute_candidate(k: KernelBuilder, p: SequenceShape, rows: int, x_row: int, h_row: int, step: bool) -> None:
    """Compute the candidate. Arguments: x, r h, the bias and the target; for a ``step``, in place of the target, z,
    the old and the new states, and the mask."""
    n, tiling = p.units, tile_rows(rows, 1)
    x, rh, bias, out = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as item:
        block, group = item // tiling.num_groups, item % tiling.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            inner = sums(0) + bias.load(column + 2 * n, k.lanes, mask)
            new = ACTIVATIONS[p.activation](k, x.load(row * x_row + column + 2 * n, k.lanes, mask) + inner)
            if not step:
                out.store(new, row * n + column, mask)
                return
            z, old, new_state = k.pointer(3), k.pointer(4), k.pointer(5)
            old_value = old.load(row * h_row + column, k.lanes, mask)
            value = k.fma(z.load(row * n + column, k.lanes, mask), old_value - new, new)
            if p.is_masked:
                value = k.select(k.pointer(6, "bool").load(row * p.t), value, old_value)
            new_state.store(value, row * p.row_stride(1) + column, mask)

        multiply_rows(k, tiling, group, rh, n, k.shared + (block * (n * k.lanes) + gate_weight_elements(p)), n, use)


def gate_weight_elements(p: SequenceShape) -> int:
    """Return the elements of the packed gate weights, which precede those of the candidate."""
    return unit_blocks(p.units) * p.units * 2 * vector_lanes("float32")


def pack_gru_weights(p: SequenceShape) -> Any:
    """Return a function from the weights' address to the tasks that pack them, and the bytes of shared memory they
    take."""
    n, blocks = p.units, unit_blocks(p.units)
    shared_bytes = 4 * (gate_weight_elements(p) + blocks * n * vector_lanes("float32"))
    first, second = (
        kernel_code(pack_weights, n, 2, 0, 3 * n),
        kernel_code(pack_weights, n, 1, gate_weight_elements(p), 3 * n),
    )
    grain = grain_size(blocks, n * n)
    return lambda u: [
        ParallelTask(first.address, (u,), blocks, grain, 0, shared_bytes),
        ParallelTask(second.address, (u + 8 * n,), blocks, grain, 0, shared_bytes),
    ], shared_bytes


def step_tasks(p: SequenceShape, rows: int, x_row: int, h_row: int, first_h: int, step: bool) -> Any:
    """Return a function from (x, h, bias, z, r, r h, further arguments of `_compute_candidate`) to the two tasks of
    a step."""
    _, shared_bytes = pack_gru_weights(p)
    gates, new = (
        kernel_code(_compute_gates, p, rows, x_row, first_h),
        kernel_code(_compute_candidate, p, rows, x_row, h_row, step),
    )
    blocks, work = unit_blocks(p.units), rows * p.units * p.units

    def bind(x: int, h: int, bias: int, z: int, r: int, rh: int, *more: int) -> list[ParallelTask]:
        tasks = []
        for one, vectors, args in ((gates, 2, (x, h, bias, z, r, rh)), (new, 1, (x, rh, bias, *more))):
            tiling = tile_rows(rows, vectors)
            items = blocks * tiling.num_groups
            tasks.append(
                ParallelTask(
                    one.address, args, items, grain_size(items, vectors * work), scratch_bytes(tiling), shared_bytes
                )
            )
        return tasks

    return bind


@native_kernel("gru_sequence")
def gru_sequence(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """All steps, forward."""
    p = sequence_shape(ins, attrs, 3)
    if p is None or attrs.get("reset_after", True):
        return None
    n, t, units = p.n, p.t, p.units
    scratch = np.empty((3, n, units), np.float32)
    z, r, rh = (part.ctypes.data for part in scratch)
    first_step = step_tasks(p, n, p.row_stride(3), units, units, True)
    later_step = step_tasks(p, n, p.row_stride(3), p.row_stride(1), p.row_stride(1), True)
    packing, _ = pack_gru_weights(p)
    last = strided_copy([StridedAxis(n, t * units, units), StridedAxis(units, 1, 1)], "float32", (t - 1) * units, 0)

    def bind(i: Addresses, o: Addresses) -> list[ParallelTask]:
        tasks = packing(i[1])
        for step_index in range(t):
            x, new_state = i[0] + 12 * p.time_of(step_index) * units, o[0] + 4 * step_index * units
            old_state = new_state - 4 * units if step_index else i[3]
            mask = (i[4] + p.time_of(step_index),) if p.is_masked else ()
            tasks += (later_step if step_index else first_step)(
                x, old_state, i[2], z, r, rh, z, old_state, new_state, *mask
            )
        return [*tasks, last(o[0], o[1])]

    return TaskList(bind, keep_alive=scratch)
