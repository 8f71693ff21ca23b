"""Softmax along an axis that is not the last in memory: each lane is a softmax of its own, some vectors at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from prototorch.backends.cpu.native import special
from prototorch.backends.cpu.native.call import Tasks, code
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.elementwise import memory_order
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

#: elements of a piece, columns of an item, and vectors that are done together
PIECE, COLUMNS, TOGETHER = 1 << 14, 256, 4

#: what becomes of the sums of some vectors when one step of the axis is added: (sums, step's numbers) -> sums
Step = Callable[[Num, list[Num]], Num]


def around(x: Spec, axis: int) -> tuple[int, int, int]:
    """The size of an axis, between those of all that lies around it and within it in memory."""
    (axis,) = axes(axis, x.ndim)
    shape = memory_order(x.shape, x.layout)
    where = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    return prod(shape[:where]), shape[where], prod(shape[where + 1 :])


class _Columns:
    """Some vectors side by side, with all numbers of the axis below each other."""

    def __init__(self, k: Kernel, n: int, inner: int, at: Any, vectors: int, mask: Num | None):
        self.k, self.n, self.inner, self.at, self.vectors, self.mask = k, n, inner, at, vectors, mask

    def load(self, p: Pointer, step: Any, v: int) -> Num:
        """A vector of one step of the axis."""
        return p.load(step * self.inner + self.at + v * self.k.lanes, self.k.lanes, self.mask)

    def store(self, p: Pointer, value: Num, step: Any, v: int) -> None:
        """Write a vector of one step of the axis."""
        p.store(value, step * self.inner + self.at + v * self.k.lanes, self.mask)

    def taken(self, start: float, work: Callable[[Any, int, Num], Num]) -> list[Num]:
        """For each vector what ``work(step, vector, so far)`` has come to after all steps."""
        held = [self.k.variable(self.k.num(start).splat(self.k.lanes)) for _ in range(self.vectors)]
        with self.k.range(self.n) as step:
            for v, one in enumerate(held):
                one.value = work(step, v, one.value)
        return [one.value for one in held]

    def highest(self, x: Pointer) -> list[Num]:
        """The largest of each column; a NaN may be passed over, as what is made of the column is NaN all the same."""

        def larger(step: Any, v: int, best: Num) -> Num:
            here = self.load(x, step, v)
            return self.k.select(here > best, here, best)

        return self.taken(float("-inf"), larger)

    def made(self, y: Pointer, work: Callable[[Any, int], Num]) -> None:
        """Write ``work(step, vector)`` everywhere."""
        with self.k.range(self.n) as step:
            for v in range(self.vectors):
                self.store(y, work(step, v), step, v)


def _softmax(k: Kernel, c: _Columns) -> None:
    x, y = k.pointer(0), k.pointer(1)
    high = c.highest(x)

    def power(step: Any, v: int, total: Num) -> Num:
        e = special.exp(k, c.load(x, step, v) - high[v])
        c.store(y, e, step, v)
        return total + e

    share = [k.num(1.0) / total for total in c.taken(0.0, power)]
    c.made(y, lambda step, v: c.load(y, step, v) * share[v])


def _log_softmax(k: Kernel, c: _Columns) -> None:
    x, y = k.pointer(0), k.pointer(1)
    high = c.highest(x)
    total = c.taken(0.0, lambda step, v, so_far: so_far + special.exp(k, c.load(x, step, v) - high[v]))
    rest = [special.log(k, t) for t in total]
    c.made(y, lambda step, v: (c.load(x, step, v) - high[v]) - rest[v])


def _softmax_grad(k: Kernel, c: _Columns) -> None:
    g, y, dx = (k.pointer(i) for i in range(3))
    dot = c.taken(0.0, lambda step, v, total: k.fma(c.load(g, step, v), c.load(y, step, v), total))
    c.made(dx, lambda step, v: (c.load(g, step, v) - dot[v]) * c.load(y, step, v))


_BODIES = {"softmax": _softmax, "log_softmax": _log_softmax, "softmax_grad": _softmax_grad}


def _columns(k: Kernel, name: str, n: int, inner: int) -> None:
    """An item is an index of the axes around and a block of columns."""
    blocks = -(-inner // COLUMNS)
    with k.range(k.first, k.last) as item:
        column: Int = item % blocks * COLUMNS
        at = item // blocks * (n * inner) + column
        wide: Any = (inner - column).minimum(COLUMNS) if blocks > 1 else inner
        whole = wide - wide % (TOGETHER * k.lanes)
        with k.range(0, whole, TOGETHER * k.lanes) as i:
            _BODIES[name](k, _Columns(k, n, inner, at + i, TOGETHER, None))
        k.vectors(wide - whole, lambda i, mask: _BODIES[name](k, _Columns(k, n, inner, at + whole + i, 1, mask)))


def column_tasks(name: str, outer: int, n: int, inner: int) -> Tasks:
    """The tasks of ``softmax``, ``log_softmax`` or ``softmax_grad`` of [outer, n, inner] along the middle axis."""
    made, items = code(_columns, name, n, inner), outer * -(-inner // COLUMNS)
    grain = items if outer * n * inner <= PIECE else max(PIECE // (n * min(inner, COLUMNS)), 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain)])
