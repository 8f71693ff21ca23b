"""Pictures seen through affine maps, and the adjoint. Where a pixel looks is worked out once, in float64, for all of
its channels. No map, not even one of NaN, leads outside the picture's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.memory import clear
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

#: elements of a piece
PIECE = 1 << 12
_MODES = ("constant", "nearest", "reflect", "wrap")


class AffineSampling(NamedTuple):
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


class BilinearTap(NamedTuple):
    """A pixel that is looked at: its place in the picture, its weight, and whether it is really there."""

    pixel: Int64
    weight: Num
    is_inside: Num


def _source_index(k: KernelBuilder, at: Num, size: int, mode: str) -> Int64:
    """The pixel 0 ... size - 1 that stands for a whole number on one axis."""
    if mode == "wrap":
        at = at - k.unary_intrinsic("floor", at / float(size)) * float(size)
    elif mode == "reflect":
        at = at - k.unary_intrinsic("floor", at / (2.0 * size)) * (2.0 * size)
        at = k.select(at >= float(size), 2.0 * size - 1.0 - at, at)
    at = k.select(at >= 0.0, at, k.num(0.0, "float64"))  # NaN too
    return k.select(at <= size - 1.0, at, k.num(size - 1.0, "float64")).to_int64()


def _bilinear_taps(k: KernelBuilder, v: AffineSampling, m: list[Num], row: Int64, column: Int64) -> list[BilinearTap]:
    i, j = (k.num(n, "int64").cast("float64") for n in (row, column))
    y, x = (k.fma(m[a], i, k.fma(m[a + 1], j, m[a + 2])) for a in (0, 3))
    one = k.num(1.0, "float64")
    if v.nearest:
        places = [(k.unary_intrinsic("rint", y), k.unary_intrinsic("rint", x), one)]
    else:
        top, left = k.unary_intrinsic("floor", y), k.unary_intrinsic("floor", x)
        down, right = y - top, x - left
        places = [(top, left, (one - down) * (one - right)), (top, left + 1.0, (one - down) * right),
                  (top + 1.0, left, down * (one - right)), (top + 1.0, left + 1.0, down * right)]  # fmt: skip
    found = []
    for a, b, weight in places:
        inside = (a >= 0.0) & (a < float(v.height)) & (b >= 0.0) & (b < float(v.width))
        place = _source_index(k, a, v.height, v.mode) * v.width + _source_index(k, b, v.width, v.mode)
        found.append(BilinearTap(place, weight.cast("float32"), inside))
    return found


def _load_matrix(k: KernelBuilder, picture: Int64) -> list[Num]:
    matrix = k.pointer(1) + picture * 6
    return [matrix.load(i).cast("float64") for i in range(6)]


def _gather_pixels(k: KernelBuilder, v: AffineSampling) -> None:
    """An item is a row of a picture."""
    x, y = k.pointer(0), k.pointer(2)
    with k.range(k.first, k.last) as item:
        picture, row = item // v.height, item % v.height
        m, begin = _load_matrix(k, picture), picture * (v.channels * v.size)
        with k.range(v.width) as column:
            corners = _bilinear_taps(k, v, m, row, column)
            with k.range(v.channels) as c:
                here = begin + c * v.size
                total = None
                for corner in corners:
                    seen = x.load(here + corner.pixel)
                    if v.mode == "constant":
                        seen = k.select(corner.is_inside, seen, k.num(v.fill))
                    total = seen * corner.weight if total is None else k.fma(seen, corner.weight, total)
                y.store(total, here + row * v.width + column)


def _scatter_pixels(k: KernelBuilder, v: AffineSampling) -> None:
    """An item is a picture, whose pixels give in order."""
    g, y = k.pointer(0), k.pointer(2)
    with k.range(k.first, k.last) as picture:
        m, begin = _load_matrix(k, picture), picture * (v.channels * v.size)
        clear(k, y + begin, v.channels * v.size)
        with k.range(v.height) as row, k.range(v.width) as column:
            corners = _bilinear_taps(k, v, m, row, column)
            with k.range(v.channels) as c:
                here = begin + c * v.size
                given = g.load(here + row * v.width + column)
                for corner in corners:
                    share = given * corner.weight
                    if v.mode == "constant":
                        share = k.select(corner.is_inside, share, k.num(0.0))
                    at = here + corner.pixel
                    y.store(y.load(at) + share, at)


def _prepare(ins: tuple[Spec, ...], attrs: dict[str, Any], body: Callable[..., None], rows: bool) -> TaskList | None:
    x, matrices = ins
    mode = attrs.get("fill_mode", "reflect")
    if (x.dtype, matrices.dtype) != ("float32", "float32") or x.layout is not None or mode not in _MODES:
        return None
    n, c, h, w = x.shape
    v = AffineSampling(
        c, h, w, mode, float(attrs.get("fill_value", 0.0)), attrs.get("interpolation", "bilinear") == "nearest"
    )
    made, items = kernel_code(body, v), n * h if rows else n
    grain = items if x.size <= PIECE else max(PIECE * items // x.size, 1)
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), items, grain)])


@native_kernel("affine_sample")
def affine_sample(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Each pixel what its map leads to."""
    return _prepare(ins, attrs, _gather_pixels, True)


@native_kernel("affine_sample_grad")
def affine_sample_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Each pixel given back where its map leads."""
    return _prepare(ins, attrs, _scatter_pixels, False)
