"""Recurrent nets over whole sequences.

Each step is one task: a piece makes the gates of a block of units for some samples as one product, and then the new
states while the sums are at hand. The recurrent weights are packed before, so that a block's gates lie side by side: in
each run, or where no run changes them, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.move.strided_copy import StridedAxis, strided_copy
from prototorch.backends.cpu.native.kernels.rnn.sequence import (
    ACTIVATIONS,
    SequenceShape,
    grain_size,
    multiply_rows,
    pack_weights,
    scratch_bytes,
    sequence_shape,
    unit_blocks,
    unit_mask,
)
from prototorch.backends.cpu.native.prepack import PrepackedKernel, prepacked_kernel
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

#: from x's part of each gate, the states' part, and the states before: the new states, and the gates after activation
CellFn = Callable[[KernelBuilder, SequenceShape, list[Num], list[Num], list[Num]], tuple[list[Num], list[Num]]]


_PIECE_CYCLES = 1 << 14  # cycles, roughly, of a piece
_LOAD_CYCLES = 2.2  # cycles in which a vector of weights comes from the second cache


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


def _step(k: KernelBuilder, p: SequenceShape, kind: str, first: bool, keep_gates: bool, apart: bool) -> None:
    """Arguments: x at this time, the states before (of the step before, or the first ones), the states after, then, as
    far as there are any, a bias of the states' part, the mask at this time, and where the gates are kept or (``apart``)
    the packed weights, which otherwise are in shared memory. An item is a block of units of a group of samples."""
    cell, gates, states = CELLS[kind]
    n, own = p.units, gates * p.units
    x = k.pointer(0)
    olds, news = ([k.pointer(1 + j * states + i) for i in range(states)] for j in range(2))
    more = 1 + 2 * states
    bias = k.pointer(more) if kind == "gru" else None
    seen = k.pointer(more + (bias is not None), "bool")
    kept = packed = k.pointer(more + (bias is not None) + p.is_masked)
    packed = packed if apart else k.shared
    before, after, rows = n if first else p.row_stride(1), p.row_stride(1), p.row_tiling
    with k.range(k.first, k.last) as item:
        block, group = item // rows.num_groups, item % rows.num_groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int64, sums: Any) -> None:
            places = [column + g * n for g in range(gates)]
            given = [x.load(row * (p.t * own) + at, k.lanes, mask) for at in places]
            inner = [sums(g) for g in range(gates)]
            if bias is not None:
                inner = [a + bias.load(at, k.lanes, mask) for a, at in zip(inner, places, strict=True)]
            old = [s.load(row * before + column, k.lanes, mask) for s in olds]
            made, opened = cell(k, p, given, inner, old)
            if p.is_masked:
                keep = seen.load(row * p.t)
                made = [k.select(keep, a, b) for a, b in zip(made, old, strict=True)]
            for s, value in zip(news, made, strict=True):
                s.store(value, row * after + column, mask)
            if keep_gates:
                for at, value in zip(places, opened, strict=True):
                    kept.store(value, row * (p.t * own) + at, mask)

        multiply_rows(k, rows, group, olds[0], before, packed + block * (n * gates * k.lanes), n, use)


def _items_together(p: SequenceShape, items: int) -> int:
    """Items of a piece, so that few samples' pieces take some microseconds; there are four pieces at least."""
    cycles = p.units * p.gates * max(p.row_tiling.group_rows, _LOAD_CYCLES)
    return max(min(round(_PIECE_CYCLES / cycles), items // 4), 1)


def _prepare(kind: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any],
            apart: bool = False) -> PrepackedKernel | None:  # fmt: skip
    """Packing the weights, and all steps in turn; ``apart``: the weights are packed to a place of their own."""
    _, gates, states = CELLS[kind]
    p = sequence_shape(ins, attrs, gates)
    keep = len(outs) == 2 * states + 1
    if p is None or (apart and keep):
        return None
    n, t, units = p.n, p.t, p.units
    packing, blocks = kernel_code(pack_weights, units, gates, None if apart else 0), unit_blocks(units)
    begin, go = (kernel_code(_step, p, kind, first, keep, apart) for first in (True, False))
    items, shared = blocks * p.row_tiling.num_groups, 0 if apart else 4 * p.packed_elements
    grain, local = (
        max(grain_size(items, n * units * gates * units), _items_together(p, items)),
        scratch_bytes(p.row_tiling),
    )
    last = strided_copy([StridedAxis(n, t * units, units), StridedAxis(units, 1, 1)], "float32", (t - 1) * units, 0)
    weights = 1 + (kind == "gru")

    def arrange(i: Any, o: Any) -> list[ParallelTask]:
        return [ParallelTask(packing.address, (*i, *o), blocks, blocks if grain == items else 1, 0, shared)]

    def walk(i: Any, o: Any) -> list[ParallelTask]:
        first, bias = i[1 + weights : 1 + weights + states], tuple(i[2 : 1 + weights])
        whole = (o[0], *o[1 + states : 2 * states])
        found = []
        for place in range(t):
            now, before = 4 * place * units, 4 * (place - 1) * units
            old = [w + before for w in whole] if place else first
            mask = (i[-1] + p.time_of(place),) if p.is_masked else ()
            away = 4 * p.time_of(place) * gates * units
            more = (o[-1] + away,) if keep else (i[1],) if apart else ()
            arguments = (i[0] + away, *old, *(w + now for w in whole), *bias, *mask, *more)
            found.append(ParallelTask((go if place else begin).address, arguments, items, grain, local, shared))
        return found + [last(w, to) for w, to in zip(whole, o[1 : 1 + states], strict=True)]

    return PrepackedKernel(1, p.packed_elements, arrange, walk, "rnn_forward", (units, gates))


def _cell_kind(name: str, attrs: dict[str, Any]) -> str | None:
    """The kind of cell; None for gated recurrent units whose reset gate comes before the product."""
    kind = next(kind for kind in CELLS if name.startswith(kind))
    return kind if kind != "gru" or attrs.get("reset_after", True) else None


def _register(name: str) -> None:
    @native_kernel(name)
    def sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
        kind = _cell_kind(name, attrs)
        found = None if kind is None else _prepare(kind, ins, outs, attrs)
        return None if found is None else TaskList(lambda i, o: [*found.pack((i[1],), ()), *found.compute(i, o)])

    @prepacked_kernel(name)
    def sequence_of_packed(
        ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]
    ) -> PrepackedKernel | None:
        kind = _cell_kind(name, attrs)
        return None if kind is None else _prepare(kind, ins, outs, attrs, True)


for _name in ("simple_rnn_sequence", "lstm_sequence", "lstm_sequence_with_gates", "gru_sequence"):
    _register(_name)
