"""Long short-term memory over whole sequences.

Each step is one task: a piece makes the four gates of a block of units for some samples as one product, and then the
new states while the sums are at hand. The recurrent weights are packed once, so that a block's gates lie side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.gates import (
    FUNCTIONS,
    Rows,
    blocks_of,
    pack,
    products,
    rows_of,
    scratch,
    unit_mask,
)
from prototorch.backends.cpu.native.kernels.slices import Axis, copies
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: multiplications of a step below which one thread is enough
SERIAL = 1 << 17


class Walk(NamedTuple):
    """``n`` samples, ``t`` steps, the units, and the activations of the new content and of the gates."""

    n: int
    t: int
    units: int
    masked: bool
    activation: str
    gate: str
    rows: Rows

    @property
    def packed(self) -> int:
        """Bytes of the packed weights."""
        return 4 * blocks_of(self.units) * self.units * 4 * lanes_of("float32")


def walk_of(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> Walk | None:
    """The walk that the specs say; None where it is not one of float32 with activations known here."""
    n, t, wide = ins[0].shape
    activation, gate = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
    if any(s.dtype not in ("float32", "bool") for s in ins) or {activation, gate} - FUNCTIONS.keys():
        return None
    return Walk(n, t, wide // 4, bool(attrs.get("masked")), activation, gate, rows_of(n, 4))


def _step(k: Kernel, p: Walk, first: bool, keep_gates: bool) -> None:
    """Arguments: x at this time, the states before (of the step before, or the first ones), the states after, the
    mask at this time, and where the gates are kept. An item is a block of units of a group of samples."""
    n = p.units
    x, h, c, h_new, c_new = (k.pointer(i) for i in range(5))
    before, after = n if first else p.t * n, p.t * n
    squash, gate = FUNCTIONS[p.activation], FUNCTIONS[p.gate]
    with k.range(k.first, k.last) as item:
        block, group = item // p.rows.groups, item % p.rows.groups
        column = block * k.lanes
        mask = unit_mask(k, column, n)

        def use(row: Int, sums: Any) -> None:
            def at(g: int) -> Num:
                return sums(g) + x.load(row * (p.t * 4 * n) + column + g * n, k.lanes, mask)

            old = c.load(row * before + column, k.lanes, mask)
            gates = [(squash if g == 2 else gate)(k, at(g)) for g in range(4)]
            if keep_gates:
                kept = k.pointer(5 + p.masked)
                for g, value in enumerate(gates):
                    kept.store(value, row * (p.t * 4 * n) + column + g * n, mask)
            made = gates[1] * old + gates[0] * gates[2]
            out = gates[3] * squash(k, made)
            if p.masked:
                keep = k.pointer(5, "bool").load(row * p.t)
                made = k.select(keep, made, old)
                out = k.select(keep, out, h.load(row * before + column, k.lanes, mask))
            c_new.store(made, row * after + column, mask)
            h_new.store(out, row * after + column, mask)

        products(k, p.rows, group, h, before, k.shared + block * (n * 4 * k.lanes), n, use)


def grain_of(items: int, work: int) -> int:
    """Items of a piece: all of them where there is little to do."""
    return items if work <= SERIAL else 1


@native("lstm_sequence", "lstm_sequence_kept")
def lstm_sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """All steps in turn."""
    p = walk_of(ins, attrs)
    if p is None:
        return None
    n, t, units, reverse = p.n, p.t, p.units, bool(attrs.get("reverse"))
    keep = len(outs) == 5
    packing, begin, go = code(pack, units, 4, 0), code(_step, p, True, keep), code(_step, p, False, keep)
    blocks = blocks_of(units)
    items = blocks * p.rows.groups
    grain, local = grain_of(items, n * units * 4 * units), scratch(p.rows)
    last = copies([Axis(n, t * units, units), Axis(units, 1, 1)], "float32", (t - 1) * units, 0)

    def bind(i: Any, o: Any) -> list[Task]:
        x, u, h, c = i[:4]
        found = [Task(packing.address, (u,), blocks, blocks if grain > 1 else 1, 0, p.packed)]
        for place in range(t):
            time = t - 1 - place if reverse else place
            now, before = 4 * place * units, 4 * (place - 1) * units
            old = (o[0] + before, o[3] + before) if place else (h, c)
            mask = (i[4] + time,) if p.masked else ()
            kept = (o[4] + 16 * time * units,) if keep else ()
            arguments = (x + 16 * time * units, *old, o[0] + now, o[3] + now, *mask, *kept)
            found.append(Task((go if place else begin).address, arguments, items, grain, local, p.packed))
        return [*found, last(o[0], o[1]), last(o[3], o[2])]

    return Tasks(bind)
