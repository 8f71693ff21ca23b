"""Recurrent nets over whole sequences.

Each step is one task: a piece makes the gates of a block of units for some samples as one product, and then the new
states while the sums are at hand. The recurrent weights are packed once, so that a block's gates lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.gates import (
    FUNCTIONS,
    Walk,
    blocks_of,
    grain_of,
    pack,
    products,
    scratch,
    unit_mask,
    walk_of,
)
from prototorch.backends.cpu.native.kernels.slices import Axis, copies
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: from x's part of each gate, the states' part, and the states before: the new states, and the gates after activation
Cell = Callable[[Kernel, Walk, list[Num], list[Num], list[Num]], tuple[list[Num], list[Num]]]


def _simple(k: Kernel, p: Walk, x: list[Num], h: list[Num], old: list[Num]) -> tuple[list[Num], list[Num]]:
    return [FUNCTIONS[p.activation](k, x[0] + h[0])], []


def _lstm(k: Kernel, p: Walk, x: list[Num], h: list[Num], old: list[Num]) -> tuple[list[Num], list[Num]]:
    gate, squash = FUNCTIONS[p.gate], FUNCTIONS[p.activation]
    i, f, new, o = gates = [(squash if g == 2 else gate)(k, a + b) for g, (a, b) in enumerate(zip(x, h, strict=True))]
    c = f * old[1] + i * new
    return [o * squash(k, c), c], gates


def _gru(k: Kernel, p: Walk, x: list[Num], h: list[Num], old: list[Num]) -> tuple[list[Num], list[Num]]:
    z, r = (FUNCTIONS[p.gate](k, x[g] + h[g]) for g in range(2))
    new = FUNCTIONS[p.activation](k, x[2] + r * h[2])
    return [k.fma(z, old[0] - new, new)], [z, r, new]


CELLS: dict[str, tuple[Cell, int, int]] = {"simple": (_simple, 1, 1), "lstm": (_lstm, 4, 2), "gru": (_gru, 3, 1)}


def _step(k: Kernel, p: Walk, kind: str, first: bool, keep_gates: bool) -> None:
    """Arguments: x at this time, the states before (of the step before, or the first ones), the states after, then, as
    far as there are any, a bias of the states' part, the mask at this time, and where the gates are kept. An item is a
    block of units of a group of samples."""
    cell, gates, states = CELLS[kind]
    n, own = p.units, gates * p.units
    x = k.pointer(0)
    olds, news = ([k.pointer(1 + j * states + i) for i in range(states)] for j in range(2))
    more = 1 + 2 * states
    bias = k.pointer(more) if kind == "gru" else None
    seen = k.pointer(more + (bias is not None), "bool")
    kept = k.pointer(more + (bias is not None) + p.masked)
    before, after, rows = n if first else p.row(1), p.row(1), p.rows
    with k.range(k.first, k.last) as item:
        block, group = item // rows.groups, item % rows.groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int, sums: Any) -> None:
            places = [column + g * n for g in range(gates)]
            given = [x.load(row * (p.t * own) + at, k.lanes, mask) for at in places]
            inner = [sums(g) for g in range(gates)]
            if bias is not None:
                inner = [a + bias.load(at, k.lanes, mask) for a, at in zip(inner, places, strict=True)]
            old = [s.load(row * before + column, k.lanes, mask) for s in olds]
            made, opened = cell(k, p, given, inner, old)
            if p.masked:
                keep = seen.load(row * p.t)
                made = [k.select(keep, a, b) for a, b in zip(made, old, strict=True)]
            for s, value in zip(news, made, strict=True):
                s.store(value, row * after + column, mask)
            if keep_gates:
                for at, value in zip(places, opened, strict=True):
                    kept.store(value, row * (p.t * own) + at, mask)

        products(k, rows, group, olds[0], before, k.shared + block * (n * gates * k.lanes), n, use)


def _walked(kind: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """All steps in turn."""
    _, gates, states = CELLS[kind]
    p = walk_of(ins, attrs, gates)
    if p is None:
        return None
    n, t, units = p.n, p.t, p.units
    keep = len(outs) == 2 * states + 1
    packing, blocks = code(pack, units, gates, 0), blocks_of(units)
    begin, go = (code(_step, p, kind, first, keep) for first in (True, False))
    items, shared = blocks * p.rows.groups, 4 * p.packed
    grain, local = grain_of(items, n * units * gates * units), scratch(p.rows)
    last = copies([Axis(n, t * units, units), Axis(units, 1, 1)], "float32", (t - 1) * units, 0)
    weights = 1 + (kind == "gru")

    def bind(i: Any, o: Any) -> list[Task]:
        first, bias = i[1 + weights : 1 + weights + states], tuple(i[2 : 1 + weights])
        whole = (o[0], *o[1 + states : 2 * states])
        found = [Task(packing.address, (i[1],), blocks, blocks if grain > 1 else 1, 0, shared)]
        for place in range(t):
            now, before = 4 * place * units, 4 * (place - 1) * units
            old = [w + before for w in whole] if place else first
            mask = (i[-1] + p.at(place),) if p.masked else ()
            away = 4 * p.at(place) * gates * units
            kept = (o[-1] + away,) if keep else ()
            arguments = (i[0] + away, *old, *(w + now for w in whole), *bias, *mask, *kept)
            found.append(Task((go if place else begin).address, arguments, items, grain, local, shared))
        return found + [last(w, to) for w, to in zip(whole, o[1 : 1 + states], strict=True)]

    return Tasks(bind)


@native("simple_rnn_sequence")
def simple_rnn_sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """h = activation(x + h u)."""
    return _walked("simple", ins, outs, attrs)


@native("lstm_sequence", "lstm_sequence_kept")
def lstm_sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Long short-term memory."""
    return _walked("lstm", ins, outs, attrs)


@native("gru_sequence")
def gru_sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Gated recurrent units, the reset gate after the product."""
    return _walked("gru", ins, outs, attrs) if attrs.get("reset_after", True) else None
