"""The gradients of the simple recurrent net and of gated recurrent units; `lstm_grad` tells how the walk back goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.gates import (
    FUNCTIONS,
    SLOPES,
    Walk,
    blocks_of,
    grain_of,
    pack,
    pack_turned,
    products,
    rows_of,
    scratch,
    states_before,
    unit_mask,
    walk_of,
)
from prototorch.backends.cpu.native.kernels.matmul import matmul
from prototorch.backends.cpu.native.kernels.reduce import tasks as reduction
from prototorch.backends.cpu.native.kernels.reduce_plan import merged, planned
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_WIDE = 2  # vectors of units of a piece of the walk back


def _back(k: Kernel, p: Walk, last: bool, end: bool) -> None:
    """One step back. Arguments: dz at this time and at the time after in the walk, the gradient of h, that of the last
    h, dh as it is kept from step to step, the mask at this time, and then for the simple net h after this step, for
    gated units h before each step, the gates with the inner part, and dx, all at this time.

    ``last`` is the step the walk ended with; ``end``: only the gradient of the first h is left to make.
    """
    n, rows = p.units, rows_of(p.n, _WIDE)
    dz, later, g, g_last, dh = (k.pointer(i) for i in range(5))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.groups, item % rows.groups

        def each(row: Int, passed: Any) -> None:
            for v in range(_WIDE):
                unit(row, block * (_WIDE * k.lanes) + v * k.lanes, passed, v)

        def unit(row: Int, column: Int, passed: Any, v: int) -> None:
            mask = unit_mask(k, column, n, _WIDE)
            here = row * n + column
            if last:
                d = g_last.load(here, k.lanes, mask)
            else:
                d = passed(v) + dh.load(here, k.lanes, mask)  # what went past the product
            if end:
                dh.store(d, here, mask)
                return
            d = d + g.load(row * p.row(1) + column, k.lanes, mask)
            made, past = (_simple if p.gates == 1 else _gru)(k, p, d, row, column, mask)
            if p.masked:
                keep = k.pointer(5, "bool").load(row * p.t)
                made = [k.select(keep, m, k.zero(k.lanes)) for m in made]
                past = k.select(keep, past, d)
            for j, m in enumerate(made[: p.gates]):
                dz.store(m, row * p.row(p.gates) + column + j * n, mask)
            if p.gates == 3:
                for j, m in enumerate((made[0], made[1], made[3])):
                    k.pointer(8).store(m, row * p.row(3) + column + j * n, mask)
            dh.store(past, here, mask)

        if last:
            begin = group * rows.many
            with k.range(begin, (begin + rows.many).minimum(rows.total)) as row:
                each(row, None)
        else:
            w = k.shared + (block * (p.gates * n * _WIDE * k.lanes) + p.packed)
            products(k, rows, group, later, p.row(p.gates), w, p.gates * n, each)


def _simple(k: Kernel, p: Walk, d: Num, row: Int, column: Int, mask: Num | None) -> tuple[list[Num], Num]:
    h = k.pointer(6).load(row * p.row(1) + column, k.lanes, mask)
    return [d * SLOPES[p.activation](k, h)], k.zero(k.lanes)


def _gru(k: Kernel, p: Walk, d: Num, row: Int, column: Int, mask: Num | None) -> tuple[list[Num], Num]:
    """The gradients of z, r and the inner part, then of the new content; and what goes past the product."""
    n = p.units
    h = k.pointer(6).load(row * p.row(1) + column, k.lanes, mask)
    z, r, new, inner = (k.pointer(7).load(row * p.row(4) + column + j * n, k.lanes, mask) for j in range(4))
    slope = SLOPES[p.gate]
    by_new = d * (k.num(1.0) - z) * SLOPES[p.activation](k, new)
    return [d * (h - new) * slope(k, z), by_new * inner * slope(k, r), by_new * r, by_new], d * z


def _again(k: Kernel, p: Walk) -> None:
    """The gates of all steps and the inner part, [n * t, 4 * units]: arguments are x, the states before each step, the
    bias and where they go."""
    n, rows = p.units, rows_of(p.n * p.t, 3)
    x, h, bias, out = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.groups, item % rows.groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int, sums: Any) -> None:
            given = [x.load(row * (3 * n) + column + g * n, k.lanes, mask) for g in range(3)]
            inner = [sums(g) + bias.load(column + g * n, k.lanes, mask) for g in range(3)]
            z, r = (FUNCTIONS[p.gate](k, given[g] + inner[g]) for g in range(2))
            made = z, r, FUNCTIONS[p.activation](k, given[2] + r * inner[2]), inner[2]
            for j, value in enumerate(made):
                out.store(value, row * (4 * n) + column + j * n, mask)

        products(k, rows, group, h, n, k.shared + block * (n * 3 * k.lanes), n, use)


def _prepared(ins: tuple[Spec, ...], attrs: dict[str, Any], gates: int) -> Tasks | None:
    p = walk_of(ins, attrs, gates)
    if p is None:
        return None
    n, t, units, gated = p.n, p.t, p.units, gates == 3
    held = np.empty(n * t * units * (1 + 7 * gated), np.float32)  # h before each step; the gates; dz
    before = held.ctypes.data
    opened, slopes = before + 4 * n * t * units, before + 20 * n * t * units
    wide, rows = blocks_of(units, _WIDE), rows_of(n, _WIDE)
    shared = 4 * (p.packed + wide * gates * units * _WIDE * lanes_of("float32"))
    turning = code(pack_turned, units, gates * units, _WIDE, p.packed)
    kinds = {(a, b): code(_back, p, a, b) for a, b in ((False, False), (True, False), (False, True))}
    product = matmul((Spec((n * t, units)), Spec((n * t, gates * units))), (Spec((units, gates * units)),),
                     {"transpose_a": True})  # fmt: skip
    if product is None:
        return None
    earlier = states_before(p)
    total = reduction(planned(merged((n * t, gates * units), (0,))), "sum", "float32", n * t)
    packing, again, many = code(pack, units, gates, 0), code(_again, p), rows_of(n * t, 3)
    blocks, grain = blocks_of(units), grain_of(wide * rows.groups, n * units * gates * units)

    def bind(i: Any, o: Any) -> list[Task]:
        x, u, bias, h0 = i[0], i[1], i[2] if gated else 0, i[2 + gated]
        mask = i[3 + gated] if p.masked else 0
        hs, g, g_h = i[-3:]
        dx, du, dh = o[0], o[1], o[-1]
        dz = slopes if gated else dx
        found = earlier(h0, hs, before)
        if gated:
            items = blocks * many.groups
            found.append(Task(packing.address, (u,), blocks, grain_of(blocks, units * units), 0, shared))
            found.append(Task(again.address, (x, before, bias, opened), items,
                              grain_of(items, n * t * units * units * 3), scratch(many), shared))  # fmt: skip
        found.append(Task(turning.address, (u,), wide, grain_of(wide, units * units), 0, shared))
        for place in range(t - 1, -2, -1):
            last, end = place == t - 1, place < 0
            time, later = p.at(place), p.at(place + 1)
            own = (before + 4 * time * units, opened + 16 * time * units) if gated else (hs + 4 * place * units, 0)
            away = 4 * time * gates * units
            arguments = (dz + away, dz + 4 * later * gates * units, g + 4 * place * units, g_h, dh, mask + time, *own,
                         dx + away)  # fmt: skip
            found.append(Task(kinds[last and not end, end].address, arguments, wide * rows.groups, grain,
                              scratch(rows), shared))  # fmt: skip
        found += product.bind((before, dz), (du,))
        return found + (total.bind((dz,), (o[2],)) if gated else [])

    return Tasks(bind, keep=held)


@native("simple_rnn_sequence_grad")
def simple_rnn_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Gradients of x, the weights and the first state."""
    return _prepared(ins, attrs, 1)


@native("gru_sequence_grad")
def gru_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Gradients of x, the weights, the bias and the first state."""
    return _prepared(ins, attrs, 3) if attrs.get("reset_after", True) else None
