"""The weights of attention where they are wanted themselves: dropped out, or given back."""

from __future__ import annotations

from typing import Any

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Kernel
from prototorch.backends.cpu.native.kernels.attention import Scores, Shape, rows_of, shape_of
from prototorch.backends.cpu.native.kernels.products import Matrix, turned
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec


def _weights(k: Kernel, p: Shape) -> None:
    """An item is a block of queries of one head: q [n, h, t, d], keys [n, h, s, d], out [n, h, t, s]."""
    q, key, out = k.pointer(0), k.pointer(1), k.pointer(2 + len(p.masks))
    masks = [k.pointer(2 + i, "bool") for i in range(len(p.masks))]
    keys, weights = k.local, k.local + p.d * p.width
    scores = Scores(k, p, masks, keys, weights)
    blocks = -(-p.t // p.block)
    with k.range(k.first, k.last) as item:
        one, first = item // blocks, (item % blocks) * p.block
        turned(k, key + one * (p.s * p.d), p.s, p.d, p.d, keys, p.width)
        rows = rows_of(p, first)
        seen = scores.keys_of(first, rows)
        scores.products(Matrix(q + (one * p.t + first) * p.d, p.d, 1), keys, p.d, rows, seen, weights)
        with k.range(rows) as row:
            factor = k.num(1.0) / scores.softmax(row, first + row, one // p.h, one % p.h, seen)
            line, there = weights + row * p.width, out + (one * p.t + first + row) * p.s
            k.vectors(seen, lambda i, mask: there.store(line.load(i, k.lanes) * factor, i, mask))
            if p.short:  # keys that no query of the block sees
                rest = there + seen
                k.vectors(p.s - seen, lambda i, mask: rest.store(k.zero(k.lanes), i, mask))


@native("attention_weights")
def attention_weights(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """softmax(q k^T scale)."""
    q, k, *masks = ins
    turned_ = [Spec((s.shape[0], s.shape[2], s.shape[1], s.shape[3]), s.dtype) for s in (q, k)]
    p = shape_of((*turned_, turned_[1], *masks), attrs, False)
    if p is None:
        return None
    made, items = code(_weights, p), p.n * p.h * -(-p.t // p.block)
    local = 4 * (p.d + p.block) * p.width
    grain = items if p.n * p.h * p.t * p.s * p.d < 1 << 16 else 1
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain, local)])
