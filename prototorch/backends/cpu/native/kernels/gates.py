"""What the kernels of recurrent nets share: the walk, weights packed for it, rows in tiles, gates and their slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from prototorch.backends.cpu.native import special
from prototorch.backends.cpu.native.arrays import traced
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.products import turned
from prototorch.backends.cpu.native.kernels.slices import Axis, copies
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, most_rows
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.ops.core import Op
from prototorch.ops.recurrent import GATES
from prototorch.spec import Spec

#: rows of a piece, at most
_ROWS = 64


class Rows(NamedTuple):
    """Rows in groups of ``many``, in tiles of ``height`` rows, each of ``vectors`` vectors."""

    total: int
    many: int
    height: int
    vectors: int

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return -(-self.total // self.many)


def rows_of(count: int, vectors: int) -> Rows:
    """Rows cut into groups and tiles, evenly where that is possible."""
    groups = -(-count // _ROWS)
    many = -(-count // groups)
    most = min(most_rows(vectors), many)
    even = (h for h in range(most, max(most // 2, 1) - 1, -1) if many % h == 0)
    return Rows(count, many, next(even, most), vectors)


class Walk(NamedTuple):
    """``n`` samples, ``t`` steps, the units, the gates of a unit, and the activations of the new content and of the
    gates."""

    n: int
    t: int
    units: int
    gates: int
    masked: bool
    reverse: bool
    activation: str
    gate: str

    @property
    def rows(self) -> Rows:
        """The samples of a step."""
        return rows_of(self.n, self.gates)

    @property
    def packed(self) -> int:
        """Numbers of the packed weights."""
        return blocks_of(self.units) * self.units * self.gates * lanes_of("float32")

    def at(self, place: int) -> int:
        """The time of a step, by its place in the walk."""
        return self.t - 1 - place if self.reverse else place

    def row(self, gates: int) -> int:
        """Numbers between samples in an array of all steps."""
        return self.t * gates * self.units


def walk_of(ins: tuple[Spec, ...], attrs: dict[str, Any], gates: int) -> Walk | None:
    """The walk that the specs say; None where it is not one of float32 with activations known here."""
    n, t, wide = ins[0].shape
    activation, gate = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
    if any(s.dtype not in ("float32", "bool") for s in ins) or {activation, gate} - FUNCTIONS.keys():
        return None
    return Walk(n, t, wide // gates, gates, bool(attrs.get("masked")), bool(attrs.get("reverse")), activation, gate)


#: multiplications of a task below which one thread is enough
SERIAL = 1 << 17


def grain_of(items: int, work: int) -> int:
    """Items of a piece: all of them where there is little to do."""
    return items if work <= SERIAL else 1


def states_before(p: Walk) -> Any:
    """A function from the first h, those after each step and a place to tasks that put those before each step there, by
    time."""
    n, t, units = p.n, p.t, p.units
    first = copies([Axis(n, units, t * units), Axis(units, 1, 1)], "float32", 0, (t - 1) * units if p.reverse else 0)
    step = -units if p.reverse else units
    rest = copies([Axis(n, t * units, t * units), Axis(max(t - 1, 1), step, units), Axis(units, 1, 1)], "float32",
                  (t - 2) * units if p.reverse else 0, 0 if p.reverse else units)  # fmt: skip
    return lambda h0, hs, to: [first(h0, to), rest(hs, to)][: min(t, 2)]


def blocks_of(units: int, vectors: int = 1) -> int:
    """Blocks of units as wide as some vectors."""
    return -(-units // (vectors * lanes_of("float32")))


def products(k: Kernel, rows: Rows, group: Any, x: Pointer, step: int, w: Pointer, depth: int,
             use: Callable[[Int, Callable[[int], Num]], None]) -> None:  # fmt: skip
    """For each row of a group ``use(row, sums)``, where ``sums(v)`` is vector v of the row's product with packed w.

    x's rows are ``step`` apart. The sums of a tile wait in the thread's scratch memory.
    """
    lanes, vectors = k.lanes, rows.vectors
    first = group * rows.many
    count: Any = rows.many if rows.total % rows.many == 0 else (rows.total - first).minimum(rows.many)

    def tile(r: Any, height: int) -> None:
        made = accumulate(k, Tile(height, vectors, lanes), x + r * step, step, w, [Loop(depth, 1, vectors * lanes)])
        for i, line in enumerate(made):
            for v, value in enumerate(line):
                k.local.store(value, (i * vectors + v) * lanes)
        with k.range(height) as row:
            use(r + row, lambda v: k.local.load(row * (vectors * lanes) + v * lanes, lanes))

    end = first + count
    whole: Any = first + (count - count % rows.height)
    with k.range(first, whole, rows.height) as r:
        tile(r, rows.height)
    if not isinstance(count, int) or count % rows.height:
        with k.range(whole, end) as r:
            tile(r, 1)


def scratch(rows: Rows) -> int:
    """Bytes of a thread's scratch memory for `products`."""
    return 4 * rows.height * rows.vectors * lanes_of("float32")


def pack(k: Kernel, units: int, gates: int, offset: int | None, width: int = 0) -> None:
    """Recurrent weights [units, gates * units], rows ``width`` apart where that is more, as blocks
    [units][gates][lanes], from ``offset`` of shared memory on; without one at the next argument."""
    u, to = k.pointer(0), k.pointer(1) if offset is None else k.shared + offset
    with k.range(k.first, k.last) as block, k.range(units) as row:
        for g in range(gates):
            at = (block * units + row) * (gates * k.lanes) + g * k.lanes
            here = u + (row * (width or gates * units) + g * units)
            to.store(here.load(block * k.lanes, k.lanes, unit_mask(k, block * k.lanes, units)), at)


def unit_mask(k: Kernel, first: Int, units: int, vectors: int = 1) -> Num | None:
    """Which lanes of a vector of units, in a block of some vectors, are units."""
    if units % (vectors * k.lanes) == 0:
        return None
    return k.mask((units - first).maximum(0).minimum(k.lanes), k.lanes)


def pack_turned(k: Kernel, units: int, depth: int, vectors: int, offset: int, step: int = 0) -> None:
    """Weights [units, depth], rows ``step`` apart where that is more, as blocks [depth][vectors * lanes] of units, from
    ``offset`` of shared memory on."""
    u, width = k.pointer(0), vectors * k.lanes
    rest, step = units % width, step or depth
    with k.range(k.first, k.last) as block:
        to, here = k.shared + (block * (depth * width) + offset), u + block * (width * step)
        with k.when(block < units // width):
            turned(k, here, width, depth, step, to, width)
        if rest:
            with k.when(block >= units // width):
                with k.range(depth) as row:
                    k.vectors(width, lambda i, mask: to.store(k.zero(k.lanes), row * width + i, mask))
                turned(k, here, rest, depth, step, to, width)


def _power(k: Kernel, x: Num) -> tuple[Num, Num]:
    """exp(x) as 2 ** n * (1 + r): 2 ** n and r. For -87 <= x <= 87, and NaN."""
    n = k.call1("rint", x * 1.4426950408889634)
    r = k.fma(n, k.num(2.12194440e-4).splat(x.lanes), k.fma(n, k.num(-0.693359375).splat(x.lanes), x))
    made = k.num(1 / 720).splat(x.lanes)
    for c in (1 / 120, 1 / 24, 1 / 6, 1 / 2):
        made = k.fma(made, r, k.num(c).splat(x.lanes))
    bits = (n.cast("int32") + 127) << 23
    return Num(k, k.b.bitcast(bits.v, x.v.type), x.dtype, x.lanes), k.fma(made * r, r, r)


def _within(k: Kernel, x: Num, bound: float) -> Num:
    """x, but no further from 0 than the bound; NaN stays."""
    x = k.select(x > bound, k.num(bound), x)
    return k.select(x < -bound, k.num(-bound), x)


def sigmoid(k: Kernel, x: Num) -> Num:
    """1 / (1 + exp(-x)), within 4 units in the last place down to 1e-38."""
    scale, r = _power(k, _within(k, -x, 87.0))
    return k.num(1.0) / (k.fma(scale, r, scale) + 1.0)


def tanh(k: Kernel, x: Num) -> Num:
    """t / (t + 2) with t = exp(2 x) - 1, within 7 units in the last place."""
    scale, r = _power(k, _within(k, x, 9.5) * 2.0)
    t = k.fma(scale, r, scale - 1.0)
    return t / (t + 2.0)


def _plain(name: str) -> Callable[[Kernel, Num], Num]:
    """An activation by the op's own plain body."""
    return lambda k, x: traced(k, cast(Op, GATES[name]).plain, [x], {})[0].splat(x.lanes)


def _chosen(k: Kernel, y: Num, above: float, below: Num) -> Num:
    return k.select(y > 0.0, k.num(above), below)


#: SELU's slope above 0, and its limit below, times -1
_SELU, _SELU_LOW = 1.0507009873554805, 1.7580993408473766
#: activations by name, and their slopes from what they give
FUNCTIONS: dict[str, Callable[[Kernel, Num], Num]] = {
    "sigmoid": sigmoid, "tanh": tanh, "linear": lambda k, x: x, "relu": lambda k, x: k.maximum(x, 0.0),
    **{name: _plain(name) for name in ("hard_sigmoid", "softsign", "softplus", "elu", "selu")},
}  # fmt: skip
SLOPES: dict[str, Callable[[Kernel, Num], Num]] = {
    "sigmoid": lambda k, y: y * (k.num(1.0) - y), "tanh": lambda k, y: k.num(1.0) - y * y,
    "linear": lambda k, y: k.num(1.0).splat(y.lanes), "relu": lambda k, y: k.select(y > 0.0, k.num(1.0), k.num(0.0)),
    "hard_sigmoid": lambda k, y: k.select((y > 0.0) & (y < 1.0), k.num(1 / 6), k.num(0.0)),
    "softsign": lambda k, y: (k.num(1.0) - k.call1("fabs", y)) ** 2,
    "softplus": lambda k, y: -special.expm1(k, -y),
    "elu": lambda k, y: _chosen(k, y, 1.0, y + 1.0),
    "selu": lambda k, y: _chosen(k, y, _SELU, y + _SELU_LOW),
}  # fmt: skip
