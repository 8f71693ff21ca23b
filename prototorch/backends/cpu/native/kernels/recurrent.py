"""Recurrent nets over whole sequences.

Each step is one task: a piece makes the gates of a block of units for some samples as one product, and then the new
states while the sums are at hand. The recurrent weights are packed before, so that a block's gates lie side by side: in
each run, or where no run changes them, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.backends.cpu.native.arranged import Parts, arranged_once
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


_PIECE = 1 << 14  # cycles, roughly, of a piece
_READ = 2.2  # cycles in which a vector of weights comes from the second cache


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


def _step(k: Kernel, p: Walk, kind: str, first: bool, keep_gates: bool, apart: bool) -> None:
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
    kept = packed = k.pointer(more + (bias is not None) + p.masked)
    packed = packed if apart else k.shared
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

        products(k, rows, group, olds[0], before, packed + block * (n * gates * k.lanes), n, use)


def _together(p: Walk, items: int) -> int:
    """Items of a piece, so that few samples' pieces take some microseconds; there are four pieces at least."""
    cycles = p.units * p.gates * max(p.rows.many, _READ)
    return max(min(round(_PIECE / cycles), items // 4), 1)


def _walked(kind: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any],
            apart: bool = False) -> Parts | None:  # fmt: skip
    """Packing the weights, and all steps in turn; ``apart``: the weights are packed to a place of their own."""
    _, gates, states = CELLS[kind]
    p = walk_of(ins, attrs, gates)
    keep = len(outs) == 2 * states + 1
    if p is None or (apart and keep):
        return None
    n, t, units = p.n, p.t, p.units
    packing, blocks = code(pack, units, gates, None if apart else 0), blocks_of(units)
    begin, go = (code(_step, p, kind, first, keep, apart) for first in (True, False))
    items, shared = blocks * p.rows.groups, 0 if apart else 4 * p.packed
    grain, local = max(grain_of(items, n * units * gates * units), _together(p, items)), scratch(p.rows)
    last = copies([Axis(n, t * units, units), Axis(units, 1, 1)], "float32", (t - 1) * units, 0)
    weights = 1 + (kind == "gru")

    def arrange(i: Any, o: Any) -> list[Task]:
        return [Task(packing.address, (*i, *o), blocks, blocks if grain == items else 1, 0, shared)]

    def walk(i: Any, o: Any) -> list[Task]:
        first, bias = i[1 + weights : 1 + weights + states], tuple(i[2 : 1 + weights])
        whole = (o[0], *o[1 + states : 2 * states])
        found = []
        for place in range(t):
            now, before = 4 * place * units, 4 * (place - 1) * units
            old = [w + before for w in whole] if place else first
            mask = (i[-1] + p.at(place),) if p.masked else ()
            away = 4 * p.at(place) * gates * units
            more = (o[-1] + away,) if keep else (i[1],) if apart else ()
            arguments = (i[0] + away, *old, *(w + now for w in whole), *bias, *mask, *more)
            found.append(Task((go if place else begin).address, arguments, items, grain, local, shared))
        return found + [last(w, to) for w, to in zip(whole, o[1 : 1 + states], strict=True)]

    return Parts(1, p.packed, arrange, walk, "recurrent", (units, gates))


def _kind(name: str, attrs: dict[str, Any]) -> str | None:
    """The kind of cell; None for gated recurrent units whose reset gate comes before the product."""
    kind = next(kind for kind in CELLS if name.startswith(kind))
    return kind if kind != "gru" or attrs.get("reset_after", True) else None


def _enter(name: str) -> None:
    @native(name)
    def sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
        kind = _kind(name, attrs)
        found = None if kind is None else _walked(kind, ins, outs, attrs)
        return None if found is None else Tasks(lambda i, o: [*found.arrange((i[1],), ()), *found.work(i, o)])

    @arranged_once(name)
    def sequence_of_packed(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Parts | None:
        kind = _kind(name, attrs)
        return None if kind is None else _walked(kind, ins, outs, attrs, True)


for _name in ("simple_rnn_sequence", "lstm_sequence", "lstm_sequence_kept", "gru_sequence"):
    _enter(_name)
