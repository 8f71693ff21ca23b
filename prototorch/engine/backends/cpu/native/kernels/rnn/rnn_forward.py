"""Simple recurrent layers, LSTM and GRU (reset after) over whole sequences, forward.

Each step is one task: a piece computes the gates of a block of units for some samples as one product, and then the new
states while the sums are in registers. The recurrent weights are packed first, so that a block's gates are contiguous:
in each run, or once if they are constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
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
    unit_blocks,
)
from prototorch.engine.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

#: (x's part of each gate, the recurrent part, the old states) -> the new states, and the gates after activation
CellFn = Callable[[KernelBuilder, SequenceShape, list[Num], list[Num], list[Num]], tuple[list[Num], list[Num]]]


_PIECE_CYCLES = 1 << 14  # estimated cycles of a piece
_LOAD_CYCLES = 2.2  # cycles to load a vector of weights from L2


def _simple_cell(
    k: KernelBuilder, p: SequenceShape, x: list[Num], h: list[Num], old: list[Num]
) -> tuple[list[Num], list[Num]]:
    return [ACTIVATIONS[p.activation](k, x[0] + h[0])], []


def _lstm_cell(
    k: KernelBuilder, p: SequenceShape, x: list[Num], h: list[Num], old: list[Num]
) -> tuple[list[Num], list[Num]]:
    gate, squash = ACTIVATIONS[p.gate], ACTIVATIONS[p.activation]
    i, f, new, o = gates = [(squash if g == 2 else gate)(k, a + b) for g, (a, b) in enumerate(zip(x, h, strict=True))]
    c = f * old[1] + i * new
    return [o * squash(k, c), c], gates


def _gru_cell(
    k: KernelBuilder, p: SequenceShape, x: list[Num], h: list[Num], old: list[Num]
) -> tuple[list[Num], list[Num]]:
    z, r = (ACTIVATIONS[p.gate](k, x[g] + h[g]) for g in range(2))
    new = ACTIVATIONS[p.activation](k, x[2] + r * h[2])
    return [k.fma(z, old[0] - new, new)], [z, r, new]


CELLS: dict[str, tuple[CellFn, int, int]] = {
    "simple": (_simple_cell, 1, 1),
    "lstm": (_lstm_cell, 4, 2),
    "gru": (_gru_cell, 3, 1),
}


def _step(k: KernelBuilder, p: SequenceShape, kind: str, first: bool, keep_gates: bool, is_prepacked: bool) -> None:
    """Arguments: x of this step, the old states (of the previous step, or the initial ones), the new states, then,
    as far as they exist, a bias of the recurrent part, the mask of this step, and the saved gates or
    (``is_prepacked``) the packed weights, which otherwise are in shared memory. Work items are blocks of units of a
    group of samples."""
    cell, gates, states = CELLS[kind]
    n, gate_units = p.units, gates * p.units
    x = k.pointer(0)
    olds, news = ([k.pointer(1 + j * states + i) for i in range(states)] for j in range(2))
    next_argument = 1 + 2 * states
    bias = k.pointer(next_argument) if kind == "gru" else None
    step_mask = k.pointer(next_argument + (bias is not None), "bool")
    saved_gates = weights = k.pointer(next_argument + (bias is not None) + p.is_masked)
    weights = weights if is_prepacked else k.shared
    old_stride, new_stride, rows = n if first else p.row_stride(1), p.row_stride(1), p.row_tiling
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            columns = [column + g * n for g in range(gates)]
            inputs = [x.load(row * (p.t * gate_units) + at, k.lanes, mask) for at in columns]
            inner = [sums(g) for g in range(gates)]
            if bias is not None:
                inner = [a + bias.load(at, k.lanes, mask) for a, at in zip(inner, columns, strict=True)]
            old = [s.load(row * old_stride + column, k.lanes, mask) for s in olds]
            new_states, gate_values = cell(k, p, inputs, inner, old)
            if p.is_masked:
                keep = step_mask.load(row * p.t)
                new_states = [k.select(keep, a, b) for a, b in zip(new_states, old, strict=True)]
            for s, value in zip(news, new_states, strict=True):
                s.store(value, row * new_stride + column, mask)
            if keep_gates:
                for at, value in zip(columns, gate_values, strict=True):
                    saved_gates.store(value, row * (p.t * gate_units) + at, mask)

        multiply_rows(k, rows, group, olds[0], old_stride, weights + block * (n * gates * k.lanes), n, use)


def _items_together(p: SequenceShape, items: int) -> int:
    """Return the work items of a piece, so that pieces of few samples take some microseconds; there are four pieces
    at least."""
    cycles = p.units * p.gates * max(p.row_tiling.group_rows, _LOAD_CYCLES)
    return max(min(round(_PIECE_CYCLES / cycles), items // 4), 1)


def _prepare(kind: str, ins: Specs, outs: Specs, attrs: Attrs, is_prepacked: bool = False) -> PrepackedKernel | None:
    """Return the packing of the weights and all steps; ``is_prepacked``: the weights are packed to an output."""
    _, gates, states = CELLS[kind]
    p = sequence_shape(ins, attrs, gates)
    keep = len(outs) == 2 * states + 1
    if p is None or (is_prepacked and keep):
        return None
    n, t, units = p.n, p.t, p.units
    packing, blocks = kernel_code(pack_weights, units, gates, None if is_prepacked else 0), unit_blocks(units)
    first_step, later_step = (kernel_code(_step, p, kind, first, keep, is_prepacked) for first in (True, False))
    items, shared_bytes = blocks * p.row_tiling.num_groups, 0 if is_prepacked else 4 * p.packed_elements
    grain, local_bytes = (
        max(grain_size(items, n * units * gates * units), _items_together(p, items)),
        scratch_bytes(p.row_tiling),
    )
    last = strided_copy([StridedAxis(n, t * units, units), StridedAxis(units, 1, 1)], "float32", (t - 1) * units, 0)
    weights = 1 + (kind == "gru")

    def arrange(i: Addresses, o: Addresses) -> list[ParallelTask]:
        return [ParallelTask(packing.address, (*i, *o), blocks, blocks if grain == items else 1, 0, shared_bytes)]

    def walk(i: Addresses, o: Addresses) -> list[ParallelTask]:
        first, bias = i[1 + weights : 1 + weights + states], tuple(i[2 : 1 + weights])
        all_states = (o[0], *o[1 + states : 2 * states])
        tasks = []
        for step_index in range(t):
            now, previous = 4 * step_index * units, 4 * (step_index - 1) * units
            old = [w + previous for w in all_states] if step_index else first
            mask = (i[-1] + p.time_of(step_index),) if p.is_masked else ()
            input_offset = 4 * p.time_of(step_index) * gates * units
            extra_args = (o[-1] + input_offset,) if keep else (i[1],) if is_prepacked else ()
            arguments = (i[0] + input_offset, *old, *(w + now for w in all_states), *bias, *mask, *extra_args)
            tasks.append(
                ParallelTask(
                    (later_step if step_index else first_step).address,
                    arguments,
                    items,
                    grain,
                    local_bytes,
                    shared_bytes,
                )
            )
        return tasks + [last(w, to) for w, to in zip(all_states, o[1 : 1 + states], strict=True)]

    return PrepackedKernel(1, p.packed_elements, arrange, walk, "rnn_forward", (units, gates))


def _cell_kind(name: str, attrs: Attrs) -> str | None:
    """Return the kind of cell, or None for a GRU whose reset gate is applied before the product."""
    kind = next(kind for kind in CELLS if name.startswith(kind))
    return kind if kind != "gru" or attrs.get("reset_after", True) else None


def _register(name: str) -> None:
    @native_kernel(name)
    def sequence(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
        kind = _cell_kind(name, attrs)
        kernel = None if kind is None else _prepare(kind, ins, outs, attrs)
        return None if kernel is None else TaskList(lambda i, o: [*kernel.pack((i[1],), ()), *kernel.compute(i, o)])

    @prepacked_kernel(name)
    def sequence_of_packed(ins: Specs, outs: Specs, attrs: Attrs) -> PrepackedKernel | None:
        kind = _cell_kind(name, attrs)
        return None if kind is None else _prepare(kind, ins, outs, attrs, True)


for _name in ("simple_rnn_sequence", "lstm_sequence", "lstm_sequence_with_gates", "gru_sequence"):
    _register(_name)
