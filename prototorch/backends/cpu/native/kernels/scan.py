"""Running sums along an axis.

Along the last axis of memory a vector is summed within itself, by shifts of 1, 2, 4 ... lanes, and what came before is
added to all of its lanes; along another axis each lane is a sum of its own.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer, Variable
from prototorch.backends.cpu.native.kernels.elementwise import memory_order
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

#: elements of a piece, and columns of an item that sums beside each other
PIECE, COLUMNS = 1 << 14, 256
_TYPES = ("float32", "float64", "int32", "int64")


def _within(k: Kernel, x: Num, reverse: bool) -> Num:
    """The running sums of a vector's lanes, from the first on or from the last."""
    zero, n, far = k.zero(x.lanes, x.dtype), x.lanes, 1
    while far < n:
        moved = [i + far if reverse else i - far for i in range(n)]
        x = x + k.shuffled(x, zero, [i if 0 <= i < n else n for i in moved])
        far *= 2
    return x


def _along(k: Kernel, x: Pointer, y: Pointer, n: int, reverse: bool) -> None:
    lanes = lanes_of(x.dtype)
    before: Variable = k.variable(k.zero(lanes, x.dtype))

    def body(i: Int, mask: Num | None) -> None:
        here = _within(k, x.load(i, lanes, mask), reverse) + before.value
        y.store(here, i, mask)
        before.value = here.lane(0 if reverse else lanes - 1).splat(lanes)

    if not reverse:
        k.vectors(n, body, lanes)
        return
    whole, rest = n // lanes, n % lanes
    with k.range(whole) as j:
        body(n - lanes - j * lanes, None)
    if rest:
        body(Int(k, k.word(0)), k.mask(rest, lanes))


def _beside(k: Kernel, x: Pointer, y: Pointer, n: int, inner: int, reverse: bool, column: Int) -> None:
    lanes = lanes_of(x.dtype)
    wide: Any = (inner - column).minimum(COLUMNS) if inner > COLUMNS else inner

    def body(i: Int, mask: Num | None) -> None:
        total = k.variable(k.zero(lanes, x.dtype))
        with k.range(n) as step:
            at = ((n - 1) - step if reverse else step) * inner + i
            total.value = total.value + x.load(at, lanes, mask)
            y.store(total.value, at, mask)

    k.vectors(wide, body, lanes)


def _scan(k: Kernel, n: int, inner: int, reverse: bool, dtype: str) -> None:
    """x [outer, n, inner]; an item is one index of the axes before and a block of columns."""
    blocks = -(-inner // COLUMNS)
    with k.range(k.first, k.last) as item:
        column = item % blocks * COLUMNS
        at = item // blocks * (n * inner)
        x, y = (k.pointer(i, dtype) + at for i in range(2))
        if inner == 1:
            _along(k, x, y, n, reverse)
        else:
            _beside(k, x + column, y + column, n, inner, reverse, column)


@native("cumsum")
def cumsum(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Each element with all before it, or behind it."""
    (x,), (y,) = ins, outs
    if x.dtype not in _TYPES or x.layout != y.layout:
        return None
    (axis,) = axes(attrs["axis"], x.ndim)
    shape = memory_order(x.shape, x.layout)
    where = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    n, inner = shape[where], prod(shape[where + 1 :])
    items = prod(shape[:where]) * -(-inner // COLUMNS)
    made = code(_scan, n, inner, bool(attrs.get("reverse", False)), x.dtype)
    grain = items if x.size <= PIECE else max(PIECE // (n * min(inner, COLUMNS)), 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain)])


channels_last("native", "follows", "cumsum")
