"""The gradient of long short-term memory.

The gates of all steps are made again by one product, and wait where the gradient of x will be. The walk back is one
task a step: the gradient of the states before from that of the next step's gates, and then the gates' own. What needs
no order, the gradient of the weights, is one product at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.gemm.matmul import matmul
from prototorch.backends.cpu.native.kernels.move.strided_copy import StridedAxis, strided_copy
from prototorch.backends.cpu.native.kernels.rnn.sequence import (
    ACTIVATION_DERIVATIVES,
    ACTIVATIONS,
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
    unit_mask,
)
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

#: vectors of units of a piece of the walk back
_UNIT_VECTORS = 2


def _recompute_gates(k: KernelBuilder, p: SequenceShape) -> None:
    """The gates of all steps: arguments are x, the states before each step and where the gates go, [n * t, ...] all."""
    n, rows = p.units, tile_rows(p.n * p.t, 4)
    x, h, gates = (k.pointer(i) for i in range(3))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            for g in range(4):
                at = row * (4 * n) + column + g * n
                made = sums(g) + x.load(at, k.lanes, mask)
                gates.store(ACTIVATIONS[p.activation if g == 2 else p.gate](k, made), at, mask)

        multiply_rows(k, rows, group, h, n, k.shared + block * (n * 4 * k.lanes), n, use)


def _backward_step(k: KernelBuilder, p: SequenceShape, last: bool, first: bool, end: bool) -> None:
    """One step back. Arguments: the gates at this time; where their gradient goes, which may be the same place; that
    gradient at the time after in the walk; the states c after and before; the gradient of h; that of the last h; dh and
    dc, which are kept from step to step; the mask at this time and at the time after.

    ``last`` is the step the walk ended with, ``first`` the one it began with; ``end``: only the gradient of the first h
    is left to make.
    """
    n, rows = p.units, tile_rows(p.n, _UNIT_VECTORS)
    gates, slopes, after, c, c_old, g, g_last, dh, dc = (k.pointer(i) for i in range(9))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups

        def each(row: Int64, passed: Any) -> None:
            for v in range(_UNIT_VECTORS):
                unit(row, block * (_UNIT_VECTORS * k.lanes) + v * k.lanes, passed, v)

        def unit(row: Int64, column: Int64, passed: Any, v: int) -> None:
            mask = unit_mask(k, column, n, _UNIT_VECTORS)
            here, there = row * n + column, row * (p.t * n) + column
            if last:
                d = g_last.load(here, k.lanes, mask)
            else:
                d = passed(v)
                if p.is_masked:
                    kept = k.pointer(10, "bool").load(row * p.t)
                    d = d + k.select(kept, k.num(0.0), dh.load(here, k.lanes, mask))
            if end:
                dh.store(d, here, mask)
                return
            d = d + g.load(there, k.lanes, mask)
            place = row * (p.t * 4 * n) + column
            i, f, new, o = (gates.load(place + j * n, k.lanes, mask) for j in range(4))
            old = c_old.load(here if first else there, k.lanes, mask)
            made = _gate_gradients(
                k, p, d, dc.load(here, k.lanes, mask), i, f, new, o, c.load(there, k.lanes, mask), old
            )
            if p.is_masked:
                keep = k.pointer(9, "bool").load(row * p.t)
                zero = k.zero(k.lanes)
                made = [*(k.select(keep, m, zero) for m in made[:4]),
                        k.select(keep, made[4], dc.load(here, k.lanes, mask))]  # fmt: skip
                dh.store(d, here, mask)
            for j, m in enumerate(made[:4]):
                slopes.store(m, place + j * n, mask)
            dc.store(made[4], here, mask)

        if last:
            begin = group * rows.group_rows
            with k.range(begin, (begin + rows.group_rows).minimum(rows.total)) as row:
                each(row, None)
        else:
            multiply_rows(k, rows, group, after, p.t * 4 * n, _transposed_weights(k, p, block), 4 * n, each)


def _transposed_weights(k: KernelBuilder, p: SequenceShape, block: Int64) -> Any:
    return k.shared + (block * (4 * p.units * _UNIT_VECTORS * k.lanes) + p.packed_elements)


def _gate_gradients(
    k: KernelBuilder, p: SequenceShape, d: Num, dc: Num, i: Num, f: Num, new: Num, o: Num, c: Num, old: Num
) -> list[Num]:
    """The gradients of the four gates before their activations, and of c before the step."""
    slope, rise = ACTIVATION_DERIVATIVES[p.gate], ACTIVATION_DERIVATIVES[p.activation]
    out = ACTIVATIONS[p.activation](k, c)
    dc = dc + d * o * rise(k, out)
    return [dc * new * slope(k, i), dc * old * slope(k, f), dc * i * rise(k, new), d * out * slope(k, o), dc * f]


@native_kernel("lstm_sequence_grad")
def lstm_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Gradients of x, the weights and the first states."""
    return _prepare(ins, attrs, False)


@native_kernel("lstm_sequence_with_gates_grad")
def lstm_sequence_grad_with_gates(
    ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]
) -> TaskList | None:
    """The same, from gates that were kept."""
    return _prepare(ins, attrs, True)


def _recompute_tasks(p: SequenceShape, shared: int) -> Any:
    """A function from x, the weights, the states before each step and where the gates go to tasks that make them."""
    packing, again, rows, blocks = (
        kernel_code(pack_weights, p.units, 4, 0),
        kernel_code(_recompute_gates, p),
        tile_rows(p.n * p.t, 4),
        unit_blocks(p.units),
    )
    items = blocks * rows.num_groups
    grain = grain_size(items, p.n * p.t * p.units * p.units * 4)
    return lambda x, u, h, gates: [
        ParallelTask(packing.address, (u,), blocks, grain_size(blocks, p.units * p.units), 0, shared),
        ParallelTask(again.address, (x, h, gates), items, grain, scratch_bytes(rows), shared),
    ]


def _prepare(ins: tuple[Spec, ...], attrs: dict[str, Any], kept: bool) -> TaskList | None:
    p = sequence_shape(ins, attrs, 4)
    if p is None:
        return None
    n, t, units = p.n, p.t, p.units
    before = np.empty(n * t * units, np.float32)  # h before each step, by time
    h = before.ctypes.data
    wide, rows = unit_blocks(units, _UNIT_VECTORS), tile_rows(n, _UNIT_VECTORS)
    shared = 4 * (p.packed_elements + wide * 4 * units * _UNIT_VECTORS * vector_lanes("float32"))
    turning = kernel_code(pack_transposed_weights, units, 4 * units, _UNIT_VECTORS, p.packed_elements)
    kinds = {(a, b, c): kernel_code(_backward_step, p, a, b, c) for a, b, c in
             ((False, False, False), (True, False, False), (False, True, False), (True, True, False),
              (False, False, True))}  # fmt: skip
    product = matmul((Spec((n * t, units)), Spec((n * t, 4 * units))), (Spec((units, 4 * units)),),
                     {"transpose_a": True})  # fmt: skip
    again, earlier = _recompute_tasks(p, shared), shift_states(p)
    same = strided_copy([StridedAxis(n * units, 1, 1)], "float32", 0, 0)
    grain = grain_size(wide * rows.num_groups, n * units * 4 * units)
    if product is None:
        return None

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        x, u, h0, c0 = i[:4]
        mask = i[4] if p.is_masked else 0
        hs, cs, g, g_h, g_c = i[4 + p.is_masked :]
        dx, du, dh, dc = o
        found = earlier(h0, hs, h) + ([] if kept else again(x, u, h, dx))
        gates = x if kept else dx
        found.append(ParallelTask(turning.address, (u,), wide, grain_size(wide, units * units), 0, shared))
        found.append(same(g_c, dc))
        for place in range(t - 1, -2, -1):
            last, begun, end = place == t - 1, place == 0, place < 0
            time, later = p.time_of(place), p.time_of(place + 1)
            now, past = 4 * place * units, 4 * (place - 1) * units
            arguments = (gates + 16 * time * units, dx + 16 * time * units, dx + 16 * later * units, cs + now,
                         c0 if begun else cs + past, g + now, g_h, dh, dc, mask + time, mask + later)  # fmt: skip
            found.append(
                ParallelTask(
                    kinds[last and not end, begun, end].address,
                    arguments,
                    wide * rows.num_groups,
                    grain,
                    scratch_bytes(rows),
                    shared,
                )
            )
        return [*found, *product.bind((h, dx), (du,))]

    return TaskList(bind, keep_alive=before)
