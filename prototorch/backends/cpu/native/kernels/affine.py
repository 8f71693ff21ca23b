"""Pictures seen through affine maps, and the adjoint. Where a pixel looks is worked out once, in float64, for all of
its channels. No map, not even one of NaN, leads outside the picture's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.memory import clear
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: elements of a piece
PIECE = 1 << 12
_MODES = ("constant", "nearest", "reflect", "wrap")


class View(NamedTuple):
    """Pictures of some channels, and how places beyond their borders are seen."""

    channels: int
    height: int
    width: int
    mode: str
    fill: float
    nearest: bool

    @property
    def size(self) -> int:
        """Pixels of a picture."""
        return self.height * self.width


class Corner(NamedTuple):
    """A pixel that is looked at: its place in the picture, its weight, and whether it is really there."""

    place: Int
    weight: Num
    inside: Num


def _along(k: Kernel, at: Num, size: int, mode: str) -> Int:
    """The pixel 0 ... size - 1 that stands for a whole number on one axis."""
    if mode == "wrap":
        at = at - k.call1("floor", at / float(size)) * float(size)
    elif mode == "reflect":
        at = at - k.call1("floor", at / (2.0 * size)) * (2.0 * size)
        at = k.select(at >= float(size), 2.0 * size - 1.0 - at, at)
    at = k.select(at >= 0.0, at, k.num(0.0, "float64"))  # NaN too
    return k.select(at <= size - 1.0, at, k.num(size - 1.0, "float64")).int()


def _corners(k: Kernel, v: View, m: list[Num], row: Int, column: Int) -> list[Corner]:
    i, j = (k.num(n, "int64").cast("float64") for n in (row, column))
    y, x = (k.fma(m[a], i, k.fma(m[a + 1], j, m[a + 2])) for a in (0, 3))
    one = k.num(1.0, "float64")
    if v.nearest:
        places = [(k.call1("rint", y), k.call1("rint", x), one)]
    else:
        top, left = k.call1("floor", y), k.call1("floor", x)
        down, right = y - top, x - left
        places = [(top, left, (one - down) * (one - right)), (top, left + 1.0, (one - down) * right),
                  (top + 1.0, left, down * (one - right)), (top + 1.0, left + 1.0, down * right)]  # fmt: skip
    found = []
    for a, b, weight in places:
        inside = (a >= 0.0) & (a < float(v.height)) & (b >= 0.0) & (b < float(v.width))
        place = _along(k, a, v.height, v.mode) * v.width + _along(k, b, v.width, v.mode)
        found.append(Corner(place, weight.cast("float32"), inside))
    return found


def _map_of(k: Kernel, picture: Int) -> list[Num]:
    matrix = k.pointer(1) + picture * 6
    return [matrix.load(i).cast("float64") for i in range(6)]


def _sample(k: Kernel, v: View) -> None:
    """An item is a row of a picture."""
    x, y = k.pointer(0), k.pointer(2)
    with k.range(k.first, k.last) as item:
        picture, row = item // v.height, item % v.height
        m, begin = _map_of(k, picture), picture * (v.channels * v.size)
        with k.range(v.width) as column:
            corners = _corners(k, v, m, row, column)
            with k.range(v.channels) as c:
                here = begin + c * v.size
                total = None
                for corner in corners:
                    seen = x.load(here + corner.place)
                    if v.mode == "constant":
                        seen = k.select(corner.inside, seen, k.num(v.fill))
                    total = seen * corner.weight if total is None else k.fma(seen, corner.weight, total)
                y.store(total, here + row * v.width + column)


def _spread(k: Kernel, v: View) -> None:
    """An item is a picture, whose pixels give in order."""
    g, y = k.pointer(0), k.pointer(2)
    with k.range(k.first, k.last) as picture:
        m, begin = _map_of(k, picture), picture * (v.channels * v.size)
        clear(k, y + begin, v.channels * v.size)
        with k.range(v.height) as row, k.range(v.width) as column:
            corners = _corners(k, v, m, row, column)
            with k.range(v.channels) as c:
                here = begin + c * v.size
                given = g.load(here + row * v.width + column)
                for corner in corners:
                    share = given * corner.weight
                    if v.mode == "constant":
                        share = k.select(corner.inside, share, k.num(0.0))
                    at = here + corner.place
                    y.store(y.load(at) + share, at)


def _prepared(ins: tuple[Spec, ...], attrs: dict[str, Any], body: Callable[..., None], rows: bool) -> Tasks | None:
    x, matrices = ins
    mode = attrs.get("fill_mode", "reflect")
    if (x.dtype, matrices.dtype) != ("float32", "float32") or x.layout is not None or mode not in _MODES:
        return None
    n, c, h, w = x.shape
    v = View(c, h, w, mode, float(attrs.get("fill_value", 0.0)), attrs.get("interpolation", "bilinear") == "nearest")
    made, items = code(body, v), n * h if rows else n
    grain = items if x.size <= PIECE else max(PIECE * items // x.size, 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain)])


@native("affine_sample")
def affine_sample(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Each pixel what its map leads to."""
    return _prepared(ins, attrs, _sample, True)


@native("affine_spread")
def affine_spread(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Each pixel given back where its map leads."""
    return _prepared(ins, attrs, _spread, False)
