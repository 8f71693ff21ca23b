"""Image resampling: x [N, C, H, W]. Resizing is linear: a matrix for each axis; the adjoint is its transpose."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from prototorch.ops.core import Op
from prototorch.ops.facts import all_batched, flops_per_output
from prototorch.ops.indexing import scatter_add
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.linear import matmul
from prototorch.ops.operators import op_function
from prototorch.spec import Spec


def interpolation_matrix(size: int, new_size: int, method: str, align_corners: bool) -> np.ndarray:
    """The matrix [wanted, size] of one axis, float64. Pixels have their centres at halves unless ``align_corners``.

    "nearest" takes the pixel in which the centre of the new one lies; "bilinear" and "bicubic" (Keys, a = -0.5, as in
    Keras) repeat the border pixels. No antialiasing.
    """
    matrix = np.zeros((new_size, size))
    for i in range(new_size):
        if align_corners:
            at = i * (size - 1) / (new_size - 1) if new_size > 1 else 0.0
        else:
            at = (i + 0.5) * size / new_size - 0.5
        if method == "nearest":
            matrix[i, min(max(math.floor(at + 0.5), 0), size - 1)] = 1
            continue
        low = math.floor(at)
        reach = (0, 1) if method == "bilinear" else (-1, 0, 1, 2)
        for k in reach:
            d = abs(at - low - k)
            matrix[i, min(max(low + k, 0), size - 1)] += 1 - d if method == "bilinear" else _cubic(d)
    return matrix


def antialiasing_matrix(size: int, new_size: int, method: str) -> np.ndarray:
    """The matrix [wanted, size] of one axis, float64, of Pillow's resampling (src/libImaging/Resample.c).

    The kernel is as wide as the pixels of the smaller image; it is cut off at the border, and normalized. Weights are
    rounded to multiples of 2^-22, as Pillow does for images of 8 bits.
    """
    matrix = np.zeros((new_size, size))
    scale = size / new_size
    width = max(scale, 1.0)
    support = (1 if method == "bilinear" else 2) * width
    for i in range(new_size):
        centre = (i + 0.5) * scale
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), size)
        distances = [abs((k - centre + 0.5) / width) for k in range(first, last)]
        weights = np.array([max(1 - d, 0.0) if method == "bilinear" else _cubic(d) for d in distances])
        matrix[i, first:last] = np.floor(weights / weights.sum() * 2.0**22 + 0.5) / 2.0**22
    return matrix


def _cubic(d: float, a: float = -0.5) -> float:
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@op_function
def resize(
    x: Any, size: tuple[int, int], method: str = "bilinear", align_corners: bool = False, antialias: bool = False
) -> Any:
    """x [N, C, H, W] resized to [N, C, *size]. antialias: as Pillow does, for "bilinear" and "bicubic"."""
    for axis, new_size in ((2, size[0]), (3, size[1])):
        have = x.shape[axis]
        if have == new_size:
            continue
        if antialias and method != "nearest":
            compute = partial(antialiasing_matrix, have, new_size, method)
        else:
            compute = partial(interpolation_matrix, have, new_size, method, align_corners)
        matrix = LazyArray((new_size, have), x.dtype, compute)
        x = matmul(matrix, x) if axis == 2 else matmul(x, matrix, transpose_b=True)
    return x


class AffineSample(Op):
    """Each sample transformed by its own affine map: x [N, C, H, W], matrices [N, 2, 3]; returns [N, C, H, W].

    Output pixel (row i, column j) is the input at (row, column) = matrix @ (i, j, 1). Beyond the border: "constant"
    (``fill_value``), "nearest", "reflect" (the border pixel twice), "wrap". No gradient passes to the matrices.
    """

    flops = flops_per_output(8)
    preserves_batch = all_batched

    def infer_spec(
        self,
        x: Spec,
        matrices: Spec,
        fill_mode: str = "reflect",
        fill_value: float = 0.0,
        interpolation: str = "bilinear",
    ) -> Spec:
        if x.ndim != 4 or matrices.shape != (x.shape[0], 2, 3):
            expected = [x.shape[0], 2, 3]
            raise self.shape_error(
                f"images {list(x.shape)} need matrices of shape {expected}, got {list(matrices.shape)}"
            )
        return Spec(x.shape, x.dtype)

    def reference(
        self,
        xp: Any,
        x: Any,
        matrices: Any,
        fill_mode: str = "reflect",
        fill_value: float = 0.0,
        interpolation: str = "bilinear",
    ) -> Any:
        n, c, h, w = x.shape
        flat = xp.reshape(x, (n, c, h * w))
        total = xp.zeros((n, c, h * w), dtype=x.dtype)
        for indices, weight, inside in _neighbour_pixels(xp, matrices, h, w, fill_mode, interpolation, x.dtype):
            index = xp.broadcast_to(xp.reshape(indices, (n, 1, h * w)), (n, c, h * w))
            pixels = xp.take_along_axis(flat, index, axis=2)
            if fill_mode == "constant":
                pixels = xp.where(xp.reshape(inside, (n, 1, h * w)), pixels, xp.full((), fill_value, dtype=x.dtype))
            total = total + pixels * xp.reshape(weight, (n, 1, h * w))
        return xp.reshape(total, x.shape)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        return [affine_sample_grad(grads[0], inputs[1], **{**attrs, "fill_value": 0.0}), None]


class AffineSampleGrad(Op):
    """The adjoint of `affine_sample` by the images."""

    flops = flops_per_output(8)

    def infer_spec(self, g: Spec, matrices: Spec, **attrs: Any) -> Spec:
        return Spec(g.shape, g.dtype)

    def reference(
        self,
        xp: Any,
        g: Any,
        matrices: Any,
        fill_mode: str = "reflect",
        fill_value: float = 0.0,
        interpolation: str = "bilinear",
    ) -> Any:
        n, c, h, w = g.shape
        flat = xp.reshape(g, (n, c, h * w))
        out = xp.zeros((n * c * h * w,), dtype=g.dtype)
        plane_starts = xp.reshape(xp.arange(n * c, dtype=xp.int64) * (h * w), (n, c, 1))
        for indices, weight, inside in _neighbour_pixels(xp, matrices, h, w, fill_mode, interpolation, g.dtype):
            share = flat * xp.reshape(weight, (n, 1, h * w))
            if fill_mode == "constant":
                share = xp.where(xp.reshape(inside, (n, 1, h * w)), share, xp.zeros((), dtype=g.dtype))
            targets = xp.reshape(indices, (n, 1, h * w)) + plane_starts
            out = scatter_add(xp, out, xp.reshape(targets, (-1,)), xp.reshape(share, (-1,)))
        return xp.reshape(out, g.shape)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        return [affine_sample(grads[0], inputs[1], **{**attrs, "fill_value": 0.0}), None]


def _neighbour_pixels(xp: Any, matrices: Any, h: int, w: int, fill_mode: str, interpolation: str, dtype: Any):
    """For each pixel the flat indices it reads, their weights, and whether they are in the image, [n, h * w] each."""
    rows = xp.reshape(xp.broadcast_to(xp.reshape(xp.arange(h), (h, 1)), (h, w)), (1, -1))
    cols = xp.reshape(xp.broadcast_to(xp.reshape(xp.arange(w), (1, w)), (h, w)), (1, -1))
    m = xp.astype(matrices, xp.float64)
    rows, cols = xp.astype(rows, xp.float64), xp.astype(cols, xp.float64)
    y = m[:, 0, 0:1] * rows + m[:, 0, 1:2] * cols + m[:, 0, 2:3]
    x = m[:, 1, 0:1] * rows + m[:, 1, 1:2] * cols + m[:, 1, 2:3]
    if interpolation == "nearest":
        y, x = xp.round(y), xp.round(x)
        corners = [(y, x, xp.ones(y.shape, dtype=xp.float64))]
    else:
        y0, x0 = xp.floor(y), xp.floor(x)
        fy, fx = y - y0, x - x0
        corners = [
            (y0, x0, (1 - fy) * (1 - fx)),
            (y0, x0 + 1, (1 - fy) * fx),
            (y0 + 1, x0, fy * (1 - fx)),
            (y0 + 1, x0 + 1, fy * fx),
        ]
    for cy, cx, weight in corners:
        inside = (cy >= 0) & (cy < h) & (cx >= 0) & (cx < w)
        indices = apply_border_mode(xp, cy, h, fill_mode) * w + apply_border_mode(xp, cx, w, fill_mode)
        yield xp.astype(indices, xp.int64), xp.astype(weight, dtype), inside


def apply_border_mode(xp: Any, at: Any, size: int, fill_mode: str) -> Any:
    """Coordinates of one axis mapped to pixels 0..size-1 by the fill mode; "constant" clamps to the border."""
    if fill_mode == "wrap":
        return at % size
    if fill_mode == "reflect":
        at = at % (2 * size)
        return xp.where(at >= size, 2 * size - 1 - at, at)
    return xp.clip(at, 0, size - 1)


affine_sample, affine_sample_grad = AffineSample(), AffineSampleGrad()
