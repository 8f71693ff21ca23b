"""Spatial pyramid pooling: vectors of one length from images of any size."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.random_layer import RandomLayer
from prototorch.layers.stochastic_pooling import MAX_WINDOW, draw_from_windows, weighted_window_mean
from prototorch.layers.windows import Pads, Sizes, check_rank
from prototorch.schema import example, field


class SpatialPyramidPooling2D(MapLayer, RandomLayer):
    """Pooling of an image in 1 x 1, 2 x 2, 4 x 4, ... windows, joined to one vector (He et al., 2014; Caffe's SPP).

    Input [batch, channels, rows, columns], output [batch, channels * (1 + 4 + ... + 4 ^ (levels - 1))]: level after
    level, in each channel after channel. The windows of a level of n x n are ceil(rows / n) x ceil(columns / n) large
    and do not overlap; padding, equal on both sides, makes up what is missing. It counts in the mean, and is never the
    largest. Raises ShapeError where the image is so small that a window would be all padding.
    """

    over_images = True
    keeps_bounds = True
    is_identity_outside_training = False
    levels: int = field(min=1, max=16, doc="Number of levels.")
    pooling: Literal["max", "average", "stochastic"] = field(
        default="max", doc="What is taken of each window; see StochasticPooling2D for 'stochastic'."
    )
    examples = [
        example("SpatialPyramidPooling2D { levels: 2 }", inputs=[(2, 5, 6)]),
        example("SpatialPyramidPooling2D { levels: 3  pooling: average }", inputs=[(1, 8, 7)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, 2)
        parts = [self._pool(ctx, x, 2**level) for level in range(self.levels)]
        flat = [ops.reshape(y, shape=(x.shape[0], y.shape[1] * y.shape[2] * y.shape[3])) for y in parts]
        return flat[0] if len(flat) == 1 else ops.concat(*flat, axis=1)

    def _pool(self, ctx: Context, x: ArrayValue, bins: int) -> Any:
        """One level, [batch, channels, bins, bins]."""
        kernel, pads = pyramid_windows(x.shape[2:], bins)
        if any(p >= k for k, (p, _) in zip(kernel, pads, strict=True)):
            ctx.fail(
                f"an image of {list(x.shape[2:])} cannot be divided into {bins} x {bins} windows; use fewer levels"
            )
        if self.pooling == "stochastic":
            if any(p for p, _ in pads):
                ctx.fail(
                    f"stochastic pooling has no padding, which an image of {list(x.shape[2:])} needs for {bins} x "
                    f"{bins} windows; make its sides multiples of {bins}"
                )
            if prod(kernel) > MAX_WINDOW:
                ctx.fail(f"a window has {prod(kernel)} elements; stochastic pooling takes at most {MAX_WINDOW}")
            if ctx.training:
                return draw_from_windows(ctx, x, kernel, kernel, True, self.random_site(ctx))
            return weighted_window_mean(x, kernel, kernel, True)
        if self.pooling == "max":
            return ops.max_pool(x, kernel=kernel, strides=kernel, pads=pads, ceil=True)[0]
        return ops.avg_pool(x, kernel=kernel, strides=kernel, pads=pads, ceil=True, include_pad=True)


def pyramid_windows(size: Sizes, bins: int) -> tuple[Sizes, Pads]:
    """The window size, which is its stride, and the padding for ``bins`` windows along each axis."""
    kernel = tuple(-(-n // bins) for n in size)
    pads = [(k * bins - n + 1) // 2 for k, n in zip(kernel, size, strict=True)]
    return kernel, tuple((p, p) for p in pads)
