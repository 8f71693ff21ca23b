"""Softmax and the losses built on it, along the last axis of memory: row by row, while the row is in the cache.

Sums of a row are taken lane by lane and then across the lanes: their error grows with n / lanes, not with n.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native import special
from prototorch.backends.cpu.native.call import Code, Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer, Unsupported
from prototorch.backends.cpu.native.kernels.softmax_columns import around, column_tasks
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

#: elements of a piece of rows
PIECE = 1 << 14
_LABELS = ("int32", "int64", "uint8", "uint32")


def rows_of(shape: tuple[int, ...], axis: int = -1) -> tuple[int, int]:
    """Rows and their length. Raises Unsupported where the axis is not the last of memory."""
    if not shape or prod(shape[axes(axis, len(shape))[0] + 1 :]) != 1:
        raise Unsupported("an axis that is not the last")
    n = shape[axes(axis, len(shape))[0]]
    return prod(shape) // n, n


def row_tasks(made: Code, rows: int, n: int) -> Tasks:
    """Rows in pieces; the arguments are the addresses alone."""
    grain = rows if rows * n <= PIECE else max(PIECE // n, 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), rows, grain)])


def top(k: Kernel, x: Pointer, n: int) -> Num:
    """The largest of a row, in one lane. A NaN may be passed over: what is made of the row is NaN all the same."""
    best = k.variable(k.num(float("-inf")).splat(k.lanes))

    def body(i: Int, mask: Num | None) -> None:
        here, best_now = x.load(i, k.lanes, mask), best.value
        larger = here > best_now
        best.value = k.select(larger if mask is None else larger & mask, here, best_now)

    k.vectors(n, body)
    return k.largest(best.value)


def summed(k: Kernel, n: int, value: Callable[[Int, Num | None], Num]) -> Num:
    """The sum of a row of values."""
    total = k.variable(k.zero(k.lanes))

    def body(i: Int, mask: Num | None) -> None:
        found = value(i, mask)
        total.value = total.value + (found if mask is None else k.select(mask, found, k.zero(k.lanes)))

    k.vectors(n, body)
    return k.total(total.value)


def exponentials(k: Kernel, x: Pointer, y: Pointer | None, n: int, shift: Num) -> Num:
    """y = exp(x - shift); gives its sum."""

    def value(i: Int, mask: Num | None) -> Num:
        e = special.exp(k, x.load(i, k.lanes, mask) - shift)
        if y is not None:
            y.store(e, i, mask)
        return e

    return summed(k, n, value)


def _softmax(k: Kernel, n: int) -> None:
    with k.range(k.first, k.last) as row:
        x, y = k.pointer(0) + row * n, k.pointer(1) + row * n
        factor = k.num(1.0) / exponentials(k, x, y, n, top(k, x, n))
        k.vectors(n, lambda i, mask: y.store(y.load(i, k.lanes, mask) * factor, i, mask))


def _softmax_grad(k: Kernel, n: int) -> None:
    with k.range(k.first, k.last) as row:
        g, y, dx = (k.pointer(i) + row * n for i in range(3))
        dot = summed(k, n, lambda i, mask: g.load(i, k.lanes, mask) * y.load(i, k.lanes, mask))
        k.vectors(n, lambda i, mask: dx.store((g.load(i, k.lanes, mask) - dot) * y.load(i, k.lanes, mask), i, mask))


def _log_softmax(k: Kernel, n: int) -> None:
    with k.range(k.first, k.last) as row:
        x, y = k.pointer(0) + row * n, k.pointer(1) + row * n
        high = top(k, x, n)
        rest = special.log(k, exponentials(k, x, None, n, high))
        k.vectors(n, lambda i, mask: y.store((x.load(i, k.lanes, mask) - high) - rest, i, mask))


def _enter(name: str, body: Callable[..., None]) -> None:
    @native(name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
        if any(s.dtype != "float32" or (s.shape, s.layout) != (outs[0].shape, outs[0].layout) for s in (*ins, *outs)):
            return None
        outer, n, inner = around(outs[0], attrs.get("axis", -1))
        return row_tasks(code(body, n), outer, n) if inner == 1 else column_tasks(name, outer, n, inner)

    channels_last("native", "follows", name)


_enter("softmax", _softmax)
_enter("softmax_grad", _softmax_grad)
_enter("log_softmax", _log_softmax)


def label_at(k: Kernel, labels: Pointer, row: Int, n: int) -> tuple[Int, Num]:
    """The label of a row, and whether it is one of 0 ... n - 1."""
    label = labels.load(row).int()
    return label, (label >= 0) & (label < n)


def _cross_entropy(k: Kernel, n: int, kind: str) -> None:
    labels, loss = k.pointer(1, kind), k.pointer(2)
    with k.range(k.first, k.last) as row:
        x = k.pointer(0) + row * n
        high = top(k, x, n)
        rest = special.log(k, exponentials(k, x, None, n, high))
        label, known = label_at(k, labels, row, n)
        label = Int(k, k.b.select((label < 0).v, (label + n).v, label.v))  # as NumPy: -1 is the last
        known = (label >= 0) & (label < n)
        inside = Int(k, k.b.select(known.v, label.v, k.word(0)))
        loss.store(k.select(known, rest - (x.load(inside) - high), k.num(float("nan"))), row)


def _cross_entropy_grad(k: Kernel, n: int, kind: str) -> None:
    labels = k.pointer(2, kind)
    with k.range(k.first, k.last) as row:
        x, dx = k.pointer(1) + row * n, k.pointer(3) + row * n
        g = k.pointer(0).load(row)
        factor = k.num(1.0) / exponentials(k, x, dx, n, top(k, x, n))
        label, known = label_at(k, labels, row, n)
        place = k.select(known, k.num(label, "int32"), k.num(-1, "int32"))

        def body(i: Int, mask: Num | None) -> None:
            here = dx.load(i, k.lanes, mask) * factor
            hit = k.iota(k.lanes) + k.num(i, "int32").splat(k.lanes) == place.splat(k.lanes)
            dx.store(k.select(hit, here - 1.0, here) * g, i, mask)

        k.vectors(n, body)


@native("sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """log(sum(exp(x - top))) - (x[label] - top); NaN for a label that is none."""
    x, labels = ins
    if x.dtype != "float32" or labels.dtype not in _LABELS:
        return None
    rows, n = rows_of(x.shape)
    return row_tasks(code(_cross_entropy, n, labels.dtype), rows, n)


@native("sparse_softmax_cross_entropy_grad")
def sparse_softmax_cross_entropy_grad(
    ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]
) -> Tasks | None:
    """The softmax less 1 at the label, times g."""
    g, x, labels = ins
    if (g.dtype, x.dtype) != ("float32", "float32") or labels.dtype not in _LABELS or x.shape[-1] >= 1 << 31:
        return None
    rows, n = rows_of(x.shape)
    return row_tasks(code(_cross_entropy_grad, n, labels.dtype), rows, n)
