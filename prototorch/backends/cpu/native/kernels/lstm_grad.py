"""The gradient of long short-term memory.

The gates of all steps are made again by one product, and wait where the gradient of x will be. The walk back is one
task a step: the gradient of the states before from that of the next step's gates, and then the gates' own. What needs
no order, the gradient of the weights, is one product at the end.
"""

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
from prototorch.backends.cpu.native.kernels.slices import Axis, copies
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: vectors of units of a piece of the walk back
_WIDE = 2


def _again(k: Kernel, p: Walk) -> None:
    """The gates of all steps: arguments are x, the states before each step and where the gates go, [n * t, ...] all."""
    n, rows = p.units, rows_of(p.n * p.t, 4)
    x, h, gates = (k.pointer(i) for i in range(3))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.groups, item % rows.groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int, sums: Any) -> None:
            for g in range(4):
                at = row * (4 * n) + column + g * n
                made = sums(g) + x.load(at, k.lanes, mask)
                gates.store(FUNCTIONS[p.activation if g == 2 else p.gate](k, made), at, mask)

        products(k, rows, group, h, n, k.shared + block * (n * 4 * k.lanes), n, use)


def _back(k: Kernel, p: Walk, last: bool, first: bool, end: bool) -> None:
    """One step back. Arguments: the gates at this time; where their gradient goes, which may be the same place; that
    gradient at the time after in the walk; the states c after and before; the gradient of h; that of the last h; dh and
    dc, which are kept from step to step; the mask at this time and at the time after.

    ``last`` is the step the walk ended with, ``first`` the one it began with; ``end``: only the gradient of the first h
    is left to make.
    """
    n, rows = p.units, rows_of(p.n, _WIDE)
    gates, slopes, after, c, c_old, g, g_last, dh, dc = (k.pointer(i) for i in range(9))
    with k.range(k.first, k.last) as item:
        block, group = item // rows.groups, item % rows.groups

        def each(row: Int, passed: Any) -> None:
            for v in range(_WIDE):
                unit(row, block * (_WIDE * k.lanes) + v * k.lanes, passed, v)

        def unit(row: Int, column: Int, passed: Any, v: int) -> None:
            mask = unit_mask(k, column, n, _WIDE)
            here, there = row * n + column, row * (p.t * n) + column
            if last:
                d = g_last.load(here, k.lanes, mask)
            else:
                d = passed(v)
                if p.masked:
                    kept = k.pointer(10, "bool").load(row * p.t)
                    d = d + k.select(kept, k.num(0.0), dh.load(here, k.lanes, mask))
            if end:
                dh.store(d, here, mask)
                return
            d = d + g.load(there, k.lanes, mask)
            place = row * (p.t * 4 * n) + column
            i, f, new, o = (gates.load(place + j * n, k.lanes, mask) for j in range(4))
            old = c_old.load(here if first else there, k.lanes, mask)
            made = _gradients(k, p, d, dc.load(here, k.lanes, mask), i, f, new, o, c.load(there, k.lanes, mask), old)
            if p.masked:
                keep = k.pointer(9, "bool").load(row * p.t)
                zero = k.zero(k.lanes)
                made = [*(k.select(keep, m, zero) for m in made[:4]),
                        k.select(keep, made[4], dc.load(here, k.lanes, mask))]  # fmt: skip
                dh.store(d, here, mask)
            for j, m in enumerate(made[:4]):
                slopes.store(m, place + j * n, mask)
            dc.store(made[4], here, mask)

        if last:
            begin = group * rows.many
            with k.range(begin, (begin + rows.many).minimum(rows.total)) as row:
                each(row, None)
        else:
            products(k, rows, group, after, p.t * 4 * n, _turned_weights(k, p, block), 4 * n, each)


def _turned_weights(k: Kernel, p: Walk, block: Int) -> Any:
    return k.shared + (block * (4 * p.units * _WIDE * k.lanes) + p.packed)


def _gradients(k: Kernel, p: Walk, d: Num, dc: Num, i: Num, f: Num, new: Num, o: Num, c: Num, old: Num) -> list[Num]:
    """The gradients of the four gates before their activations, and of c before the step."""
    slope, rise = SLOPES[p.gate], SLOPES[p.activation]
    out = FUNCTIONS[p.activation](k, c)
    dc = dc + d * o * rise(k, out)
    return [dc * new * slope(k, i), dc * old * slope(k, f), dc * i * rise(k, new), d * out * slope(k, o), dc * f]


@native("lstm_sequence_grad")
def lstm_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Gradients of x, the weights and the first states."""
    return _prepared(ins, attrs, False)


@native("lstm_sequence_kept_grad")
def lstm_sequence_kept_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The same, from gates that were kept."""
    return _prepared(ins, attrs, True)


def _gates_again(p: Walk, shared: int) -> Any:
    """A function from x, the weights, the states before each step and where the gates go to tasks that make them."""
    packing, again, rows, blocks = code(pack, p.units, 4, 0), code(_again, p), rows_of(p.n * p.t, 4), blocks_of(p.units)
    items = blocks * rows.groups
    grain = grain_of(items, p.n * p.t * p.units * p.units * 4)
    return lambda x, u, h, gates: [
        Task(packing.address, (u,), blocks, grain_of(blocks, p.units * p.units), 0, shared),
        Task(again.address, (x, h, gates), items, grain, scratch(rows), shared),
    ]


def _prepared(ins: tuple[Spec, ...], attrs: dict[str, Any], kept: bool) -> Tasks | None:
    p = walk_of(ins, attrs, 4)
    if p is None:
        return None
    n, t, units = p.n, p.t, p.units
    before = np.empty(n * t * units, np.float32)  # h before each step, by time
    h = before.ctypes.data
    wide, rows = blocks_of(units, _WIDE), rows_of(n, _WIDE)
    shared = 4 * (p.packed + wide * 4 * units * _WIDE * lanes_of("float32"))
    turning = code(pack_turned, units, 4 * units, _WIDE, p.packed)
    kinds = {(a, b, c): code(_back, p, a, b, c) for a, b, c in
             ((False, False, False), (True, False, False), (False, True, False), (True, True, False),
              (False, False, True))}  # fmt: skip
    product = matmul((Spec((n * t, units)), Spec((n * t, 4 * units))), (Spec((units, 4 * units)),),
                     {"transpose_a": True})  # fmt: skip
    again, earlier = _gates_again(p, shared), states_before(p)
    same = copies([Axis(n * units, 1, 1)], "float32", 0, 0)
    grain = grain_of(wide * rows.groups, n * units * 4 * units)
    if product is None:
        return None

    def bind(i: Any, o: Any) -> list[Task]:
        x, u, h0, c0 = i[:4]
        mask = i[4] if p.masked else 0
        hs, cs, g, g_h, g_c = i[4 + p.masked :]
        dx, du, dh, dc = o
        found = earlier(h0, hs, h) + ([] if kept else again(x, u, h, dx))
        gates = x if kept else dx
        found.append(Task(turning.address, (u,), wide, grain_of(wide, units * units), 0, shared))
        found.append(same(g_c, dc))
        for place in range(t - 1, -2, -1):
            last, begun, end = place == t - 1, place == 0, place < 0
            time, later = p.at(place), p.at(place + 1)
            now, past = 4 * place * units, 4 * (place - 1) * units
            arguments = (gates + 16 * time * units, dx + 16 * time * units, dx + 16 * later * units, cs + now,
                         c0 if begun else cs + past, g + now, g_h, dh, dc, mask + time, mask + later)  # fmt: skip
            found.append(Task(kinds[last and not end, begun, end].address, arguments, wide * rows.groups, grain,
                              scratch(rows), shared))  # fmt: skip
        return [*found, *product.bind((h, dx), (du,))]

    return Tasks(bind, keep=before)
