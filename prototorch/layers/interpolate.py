"""Resampling of arrays along any axes, with the conventions of the systems that define them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.reductions import sample_axis
from prototorch.layers.rescaling import as_float
from prototorch.ops.lazy_array import LazyArray
from prototorch.schema import example, field

Coordinates = Literal[
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"
]
Rounding = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


class Interpolate(Layer):
    """Axes resampled to other sizes (ONNX' Resize; PyTorch's interpolate; one convention of many is Keras', that of
    `Resizing`).

    Input [batch, ...], output with ``sizes`` elements along the axes. A new element lies at a coordinate of the input:
    with ``half_pixel`` at (i + 0.5) / scale - 0.5, with ``align_corners`` at i * (n - 1) / (scale * n - 1), with
    ``asymmetric`` at i / scale; the scale is size / n if none is given. Beyond the border, the border's elements count.
    Integers become float32.
    """

    channel_axis_note = "its field `axes` says it"
    sizes: list[int] = field(min=1, doc="The sizes of the axes in the output.")
    axes: list[int] = field(default=(2, 3), min=1, doc="The axes, the batch dimension being 0.")
    method: Literal["nearest", "linear", "cubic"] = field(default="linear", doc="Interpolation between elements.")
    coordinates: Coordinates = field(default="half_pixel", doc="Where in the input a new element lies.")
    rounding: Rounding = field(default="round_prefer_floor", doc="Which element is the nearest one.")
    cubic_coefficient: float = field(default=-0.75, doc="The coefficient of the cubic kernel (Keys, 1981).")
    scales: list[float] | None = field(default=None, above=0, doc="The scales, where sizes are rounded ones.")
    exclude_outside: bool = field(default=False, doc="Whether elements beyond the border have no weight.")
    antialias: bool = field(default=False, doc="Whether the kernel is widened where the size becomes smaller.")
    examples = [
        example("Interpolate { sizes: [4, 3] }", inputs=[(2, 2, 5)]),
        example("Interpolate { sizes: 3  axes: 1  method: nearest  coordinates: asymmetric  rounding: floor }",
                inputs=[(2, 2)]),
        example("Interpolate { sizes: [5, 5]  method: cubic  coordinates: align_corners }", inputs=[(1, 3, 4)]),
        example("Interpolate { sizes: [2, 2]  antialias: true }", inputs=[(1, 5, 4)]),
    ]  # fmt: skip

    def check(self) -> None:
        """A size for each axis."""
        if not len(self.sizes) == len(self.axes) == len(self.scales or self.axes):
            self.refuse("sizes, axes and scales must have one number for each axis", "sizes")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float(x)
        for number, (axis, size) in enumerate(zip(self.axes, self.sizes, strict=True)):
            axis = sample_axis(ctx, x, axis)
            length = x.shape[axis]
            scale = self.scales[number] if self.scales else size / length
            if size == length and scale == 1:
                continue
            compute = partial(self.matrix, length, size, scale)
            matrix = LazyArray((size, length), x.dtype, compute)
            last = x.ndim - 1
            moved = x if axis == last else ops.swap_axes(x, axis, last)
            y = ops.matmul(moved, matrix, transpose_b=True)
            x = y if axis == last else ops.swap_axes(y, axis, last)
        return x

    def matrix(self, length: int, size: int, scale: float) -> np.ndarray:
        """The matrix [size, length] of one axis, float64."""
        matrix = np.zeros((size, length))
        for i in range(size):
            at = self._coordinate(i, length, size, scale)
            if self.method == "nearest":
                matrix[i, min(max(self._round(at), 0), length - 1)] = 1
                continue
            positions, weights = self._kernel(at, min(scale, 1.0) if self.antialias else 1.0)
            if self.exclude_outside:
                weights = [w if 0 <= p < length else 0.0 for p, w in zip(positions, weights, strict=True)]
                total = sum(weights)
                weights = [w / total for w in weights]
            for position, weight in zip(positions, weights, strict=True):
                matrix[i, min(max(position, 0), length - 1)] += weight
        return matrix

    def _coordinate(self, i: int, length: int, size: int, scale: float) -> float:
        if self.coordinates == "align_corners":
            return i * (length - 1) / (scale * length - 1) if scale * length != 1 else 0.0
        if self.coordinates == "asymmetric":
            return i / scale
        if self.coordinates == "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        if self.coordinates == "pytorch_half_pixel" and size == 1:
            return 0.0
        at = (i + 0.5) / scale - 0.5
        if self.coordinates == "half_pixel_symmetric":
            adjustment = size / (scale * length)
            at += length / 2 * (1 - adjustment)
        return at

    def _round(self, at: float) -> int:
        if self.rounding in ("floor", "ceil"):
            return math.floor(at) if self.rounding == "floor" else math.ceil(at)
        return math.ceil(at - 0.5) if self.rounding == "round_prefer_floor" else math.floor(at + 0.5)

    def _kernel(self, at: float, scale: float) -> tuple[list[int], list[float]]:
        """The positions that count for a coordinate, and their weights."""
        reach = (1 if self.method == "linear" else 2) / scale
        positions = list(range(math.floor(at - reach) + 1, math.ceil(at + reach)))
        weights = [self._weight(abs(at - p) * scale) for p in positions]
        total = sum(weights)
        return positions, [w / total for w in weights]

    def _weight(self, distance: float) -> float:
        d, a = distance, self.cubic_coefficient
        if self.method == "linear":
            return max(1 - d, 0.0)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0
