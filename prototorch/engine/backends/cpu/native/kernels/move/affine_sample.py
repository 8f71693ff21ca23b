"""Affine image sampling and its adjoint. The source pixels of an output pixel are computed once, in float64, for all
channels. No matrix, not even one of NaN, leads to memory outside the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

#: elements of a piece
PIECE = 1 << 12
_MODES = ("constant", "nearest", "reflect", "wrap")


class AffineSampling(NamedTuple):
    """The size of the images, and how positions outside of them are treated."""

    channels: int
    height: int
    width: int
    mode: str
    fill: float
    nearest: bool

    @property
    def size(self) -> int:
        """Pixels of an image."""
        return self.height * self.width


class BilinearTap(NamedTuple):
    """A source pixel: its index in the image, its weight, and whether it lies inside."""

    pixel: Int64
    weight: Num
    is_inside: Num


def _source_index(k: KernelBuilder, at: Num, size: int, mode: str) -> Int64:
    """Return the pixel 0 ... size - 1 that stands for an integer position on one axis."""
    if mode == "wrap":
        at = at - k.unary_intrinsic("floor", at / float(size)) * float(size)
    elif mode == "reflect":
        at = at - k.unary_intrinsic("floor", at / (2.0 * size)) * (2.0 * size)
        at = k.select(at >= float(size), 2.0 * size - 1.0 - at, at)
    at = k.select(at >= 0.0, at, k.num(0.0, "float64"))  # NaN becomes 0 too
    return k.select(at <= size - 1.0, at, k.num(size - 1.0, "float64")).to_int64()


def _bilinear_taps(k: KernelBuilder, v: AffineSampling, m: list[Num], row: Int64, column: Int64) -> list[BilinearTap]:
    i, j = (k.num(n, "int64").cast("float64") for n in (row, column))
    y, x = (k.fma(m[a], i, k.fma(m[a + 1], j, m[a + 2])) for a in (0, 3))
    one = k.num(1.0, "float64")
    if v.nearest:
        taps = [(k.unary_intrinsic("rint", y), k.unary_intrinsic("rint", x), one)]
    else:
        y0, x0 = k.unary_intrinsic("floor", y), k.unary_intrinsic("floor", x)
        down, right = y - y0, x - x0
        taps = [
            (y0, x0, (one - down) * (one - right)),
            (y0, x0 + 1.0, (one - down) * right),
            (y0 + 1.0, x0, down * (one - right)),
            (y0 + 1.0, x0 + 1.0, down * right),
        ]
    pixels = []
    for a, b, weight in taps:
        inside = (a >= 0.0) & (a < float(v.height)) & (b >= 0.0) & (b < float(v.width))
        pixel = _source_index(k, a, v.height, v.mode) * v.width + _source_index(k, b, v.width, v.mode)
        pixels.append(BilinearTap(pixel, weight.cast("float32"), inside))
    return pixels


def _load_matrix(k: KernelBuilder, image: Int64) -> list[Num]:
    matrix = k.pointer(1) + image * 6
    return [matrix.load(i).cast("float64") for i in range(6)]


def _gather_pixels(k: KernelBuilder, v: AffineSampling) -> None:
    """Sample. Work items are rows of an image."""
    x, y = k.pointer(0), k.pointer(2)
    with k.range(k.first, k.last) as item:
        image, row = item // v.height, item % v.height
        m, begin = _load_matrix(k, image), image * (v.channels * v.size)
        with k.range(v.width) as column:
            corners = _bilinear_taps(k, v, m, row, column)
            with k.range(v.channels) as c:
                plane = begin + c * v.size
                total = None
                for corner in corners:
                    value = x.load(plane + corner.pixel)
                    if v.mode == "constant":
                        value = k.select(corner.is_inside, value, k.num(v.fill))
                    total = value * corner.weight if total is None else k.fma(value, corner.weight, total)
                y.store(total, plane + row * v.width + column)


def _scatter_pixels(k: KernelBuilder, v: AffineSampling) -> None:
    """Add each gradient to its source pixels, in order. Work items are images."""
    g, y = k.pointer(0), k.pointer(2)
    with k.range(k.first, k.last) as image:
        m, begin = _load_matrix(k, image), image * (v.channels * v.size)
        clear(k, y + begin, v.channels * v.size)
        with k.range(v.height) as row, k.range(v.width) as column:
            corners = _bilinear_taps(k, v, m, row, column)
            with k.range(v.channels) as c:
                plane = begin + c * v.size
                grad = g.load(plane + row * v.width + column)
                for corner in corners:
                    share = grad * corner.weight
                    if v.mode == "constant":
                        share = k.select(corner.is_inside, share, k.num(0.0))
                    at = plane + corner.pixel
                    y.store(y.load(at) + share, at)


def _prepare(ins: Specs, attrs: Attrs, body: Callable[..., None], rows: bool) -> TaskList | None:
    x, matrices = ins
    mode = attrs.get("fill_mode", "reflect")
    if (x.dtype, matrices.dtype) != ("float32", "float32") or x.layout is not None or mode not in _MODES:
        return None
    n, c, h, w = x.shape
    v = AffineSampling(
        c, h, w, mode, float(attrs.get("fill_value", 0.0)), attrs.get("interpolation", "bilinear") == "nearest"
    )
    kernel, items = kernel_code(body, v), n * h if rows else n
    grain = items if x.size <= PIECE else max(PIECE * items // x.size, 1)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain)])


@native_kernel("affine_sample")
def affine_sample(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Each pixel sampled at its affine position."""
    return _prepare(ins, attrs, _gather_pixels, True)


@native_kernel("affine_sample_grad")
def affine_sample_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The adjoint of `affine_sample`: each gradient added to its source pixels."""
    return _prepare(ins, attrs, _scatter_pixels, False)
