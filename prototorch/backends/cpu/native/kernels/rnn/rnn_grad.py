"""The gradients of the simple recurrent net and of gated recurrent units; `lstm_grad` tells how the walk back goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.gemm.matmul import matmul
from prototorch.backends.cpu.native.kernels.reduce.reduce import reduction_tasks as reduction
from prototorch.backends.cpu.native.kernels.reduce.reduction_tiling import merge_axes, tile_reduction
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

_UNIT_VECTORS = 2  # vectors of units of a piece of the walk back


def _backward_step(k: KernelBuilder, p: SequenceShape, last: bool, end: bool) -> None:
    """One step back. Arguments: dz at this time and at the time after in the walk, the gradient of h, that of the last
    h, dh as it is kept from step to step, the mask at this time, and then for the simple net h after this step, for
    gated units h before each step, the gates with the inner part, and dx, all at this time.

    ``last`` is the step the walk ended with; ``end``: only the gradient of the first h is left to make.
    """
    n, rows = p.units, tile_rows(p.n, _UNIT_VECTORS)
    dz, later, g, g_last, dh = (k.pointer(i) for i in range(5))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups

        def each(row: Int64, passed: Any) -> None:
            for v in range(_UNIT_VECTORS):
                unit(row, block * (_UNIT_VECTORS * k.lanes) + v * k.lanes, passed, v)

        def unit(row: Int64, column: Int64, passed: Any, v: int) -> None:
            mask = unit_mask(k, column, n, _UNIT_VECTORS)
            here = row * n + column
            if last:
                d = g_last.load(here, k.lanes, mask)
            else:
                d = passed(v) + dh.load(here, k.lanes, mask)  # what went past the product
            if end:
                dh.store(d, here, mask)
                return
            d = d + g.load(row * p.row_stride(1) + column, k.lanes, mask)
            made, past = (_simple_grad if p.gates == 1 else _gru_grad)(k, p, d, row, column, mask)
            if p.is_masked:
                keep = k.pointer(5, "bool").load(row * p.t)
                made = [k.select(keep, m, k.zero(k.lanes)) for m in made]
                past = k.select(keep, past, d)
            for j, m in enumerate(made[: p.gates]):
                dz.store(m, row * p.row_stride(p.gates) + column + j * n, mask)
            if p.gates == 3:
                for j, m in enumerate((made[0], made[1], made[3])):
                    k.pointer(8).store(m, row * p.row_stride(3) + column + j * n, mask)
            dh.store(past, here, mask)

        if last:
            begin = group * rows.group_rows
            with k.range(begin, (begin + rows.group_rows).minimum(rows.total)) as row:
                each(row, None)
        else:
            w = k.shared + (block * (p.gates * n * _UNIT_VECTORS * k.lanes) + p.packed_elements)
            multiply_rows(k, rows, group, later, p.row_stride(p.gates), w, p.gates * n, each)


def _simple_grad(
    k: KernelBuilder, p: SequenceShape, d: Num, row: Int64, column: Int64, mask: Num | None
) -> tuple[list[Num], Num]:
    h = k.pointer(6).load(row * p.row_stride(1) + column, k.lanes, mask)
    return [d * ACTIVATION_DERIVATIVES[p.activation](k, h)], k.zero(k.lanes)


def _gru_grad(
    k: KernelBuilder, p: SequenceShape, d: Num, row: Int64, column: Int64, mask: Num | None
) -> tuple[list[Num], Num]:
    """The gradients of z, r and the inner part, then of the new content; and what goes past the product."""
    n = p.units
    h = k.pointer(6).load(row * p.row_stride(1) + column, k.lanes, mask)
    z, r, new, inner = (k.pointer(7).load(row * p.row_stride(4) + column + j * n, k.lanes, mask) for j in range(4))
    slope = ACTIVATION_DERIVATIVES[p.gate]
    by_new = d * (k.num(1.0) - z) * ACTIVATION_DERIVATIVES[p.activation](k, new)
    return [d * (h - new) * slope(k, z), by_new * inner * slope(k, r), by_new * r, by_new], d * z


def _recompute_gates(k: KernelBuilder, p: SequenceShape) -> None:
    """The gates of all steps and the inner part, [n * t, 4 * units]: arguments are x, the states before each step, the
    bias and where they go."""
    n, rows = p.units, tile_rows(p.n * p.t, 3)
    x, h, bias, out = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            given = [x.load(row * (3 * n) + column + g * n, k.lanes, mask) for g in range(3)]
            inner = [sums(g) + bias.load(column + g * n, k.lanes, mask) for g in range(3)]
            z, r = (ACTIVATIONS[p.gate](k, given[g] + inner[g]) for g in range(2))
            made = z, r, ACTIVATIONS[p.activation](k, given[2] + r * inner[2]), inner[2]
            for j, value in enumerate(made):
                out.store(value, row * (4 * n) + column + j * n, mask)

        multiply_rows(k, rows, group, h, n, k.shared + block * (n * 3 * k.lanes), n, use)


def _prepare(ins: tuple[Spec, ...], attrs: dict[str, Any], gates: int) -> TaskList | None:
    p = sequence_shape(ins, attrs, gates)
    if p is None:
        return None
    n, t, units, gated = p.n, p.t, p.units, gates == 3
    held = np.empty(n * t * units * (1 + 7 * gated), np.float32)  # h before each step; the gates; dz
    before = held.ctypes.data
    opened, slopes = before + 4 * n * t * units, before + 20 * n * t * units
    wide, rows = unit_blocks(units, _UNIT_VECTORS), tile_rows(n, _UNIT_VECTORS)
    shared = 4 * (p.packed_elements + wide * gates * units * _UNIT_VECTORS * vector_lanes("float32"))
    turning = kernel_code(pack_transposed_weights, units, gates * units, _UNIT_VECTORS, p.packed_elements)
    kinds = {(a, b): kernel_code(_backward_step, p, a, b) for a, b in ((False, False), (True, False), (False, True))}
    product = matmul((Spec((n * t, units)), Spec((n * t, gates * units))), (Spec((units, gates * units)),),
                     {"transpose_a": True})  # fmt: skip
    if product is None:
        return None
    earlier = shift_states(p)
    total = reduction(tile_reduction(merge_axes((n * t, gates * units), (0,))), "sum", "float32", n * t)
    packing, again, many = (
        kernel_code(pack_weights, units, gates, 0),
        kernel_code(_recompute_gates, p),
        tile_rows(n * t, 3),
    )
    blocks, grain = unit_blocks(units), grain_size(wide * rows.num_groups, n * units * gates * units)

    def bind(i: Any, o: Any) -> list[ParallelTask]:
        x, u, bias, h0 = i[0], i[1], i[2] if gated else 0, i[2 + gated]
        mask = i[3 + gated] if p.is_masked else 0
        hs, g, g_h = i[-3:]
        dx, du, dh = o[0], o[1], o[-1]
        dz = slopes if gated else dx
        found = earlier(h0, hs, before)
        if gated:
            items = blocks * many.num_groups
            found.append(ParallelTask(packing.address, (u,), blocks, grain_size(blocks, units * units), 0, shared))
            found.append(ParallelTask(again.address, (x, before, bias, opened), items,
                              grain_size(items, n * t * units * units * 3), scratch_bytes(many), shared))  # fmt: skip
        found.append(ParallelTask(turning.address, (u,), wide, grain_size(wide, units * units), 0, shared))
        for place in range(t - 1, -2, -1):
            last, end = place == t - 1, place < 0
            time, later = p.time_of(place), p.time_of(place + 1)
            own = (before + 4 * time * units, opened + 16 * time * units) if gated else (hs + 4 * place * units, 0)
            away = 4 * time * gates * units
            arguments = (dz + away, dz + 4 * later * gates * units, g + 4 * place * units, g_h, dh, mask + time, *own,
                         dx + away)  # fmt: skip
            found.append(ParallelTask(kinds[last and not end, end].address, arguments, wide * rows.num_groups, grain,
                              scratch_bytes(rows), shared))  # fmt: skip
        found += product.bind((before, dz), (du,))
        return found + (total.bind((dz,), (o[2],)) if gated else [])

    return TaskList(bind, keep_alive=held)


@native_kernel("simple_rnn_sequence_grad")
def simple_rnn_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Gradients of x, the weights and the first state."""
    return _prepare(ins, attrs, 1)


@native_kernel("gru_sequence_grad")
def gru_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Gradients of x, the weights, the bias and the first state."""
    return _prepare(ins, attrs, 3) if attrs.get("reset_after", True) else None
