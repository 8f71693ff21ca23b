"""Stochastic pooling: a random element of each window, drawn in proportion to the elements."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.random_layer import RandomLayer
from prototorch.layers.windows import Sizes, check_rank, strides_field
from prototorch.ops.pool import pooled_size
from prototorch.ops.windows import kernel_offsets, window_slices
from prototorch.schema import Ints, example, field

MAX_WINDOW = 1024  # elements of a window, for each of which the graph has ops


class StochasticPooling2D(MapLayer, RandomLayer):
    """In training an element of each window, drawn with a probability in proportion to it; else the mean of the
    elements weighted by themselves, ``sum(x ^ 2) / sum(x)`` (Zeiler and Fergus, 2013; Caffe's STOCHASTIC pooling).

    Input [batch, channels, rows, columns], output [batch, channels, new rows, new columns], sizes as those of
    MaxPooling2D without padding. The elements must not be negative. A window of zeros gives 0. In training the
    gradient passes to the element that was drawn. Raises ShapeError where a window is larger than the input.
    """

    positional = ("pool_size", "strides")
    keeps_bounds = True
    over_images = True
    is_identity_outside_training = False
    pool_size: Sizes = field(default=2, type=Ints(2, min=1), doc="Window size.")
    strides: Sizes | None = strides_field(2, None)
    ceil_mode: bool = field(default=False, doc="Whether a last window may reach over the end.")
    examples = [
        example("StochasticPooling2D { }", inputs=[(2, 4, 6)], range=(0.1, 2.0)),
        example("StochasticPooling2D { pool_size: [3, 2]  strides: 2  ceil_mode: true }", inputs=[(1, 6, 5)],
                range=(0.1, 2.0)),
    ]  # fmt: skip

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, 2)
        strides = self.strides or self.pool_size
        if any(k > n for k, n in zip(self.pool_size, x.shape[2:], strict=True)):
            ctx.fail(f"pool size {list(self.pool_size)} exceeds the input size {list(x.shape[2:])}")
        if prod(self.pool_size) > MAX_WINDOW:
            ctx.fail(f"a window has {prod(self.pool_size)} elements; at most {MAX_WINDOW} are supported")
        if ctx.training:
            return draw_from_windows(ctx, x, self.pool_size, strides, self.ceil_mode, self.random_site(ctx))
        return weighted_window_mean(x, self.pool_size, strides, self.ceil_mode)


def draw_from_windows(ctx: Context, x: ArrayValue, kernel: Sizes, strides: Sizes, ceil: bool, site: int) -> Any:
    """Of each window the first element at which the running sum reaches a uniform share of the window's sum."""
    parts = _window_elements(x, kernel, strides, ceil)
    sums = [parts[0]]
    for part in parts[1:]:
        sums.append(sums[-1] + part)
    shape = tuple(sums[-1].shape)
    threshold = ops.random_uniform(ctx.key(), site=site, shape=shape, dtype=x.dtype) * sums[-1]
    samples, is_below = parts[0], None
    for total, part in zip(sums, parts[1:], strict=False):
        below = ops.less(total, threshold)
        is_below = below if is_below is None else ops.logical_and(is_below, below)
        samples = ops.where(is_below, part, samples)
    return samples


def weighted_window_mean(x: ArrayValue, kernel: Sizes, strides: Sizes, ceil: bool) -> Any:
    """The mean of each window weighted by its elements; 0 where their sum is not above 0."""
    parts = _window_elements(x, kernel, strides, ceil)
    total, squares = parts[0], ops.square(parts[0])
    for part in parts[1:]:
        total, squares = total + part, squares + ops.square(part)
    is_positive = ops.greater(total, 0.0)
    return ops.where(is_positive, squares / ops.where(is_positive, total, 1.0), 0.0)


def _window_elements(x: ArrayValue, kernel: Sizes, strides: Sizes, ceil: bool) -> list[Any]:
    """For each offset of the windows, in row-major order, the elements there; 0 beyond the end."""
    size, ones = x.shape[2:], (1,) * len(kernel)
    out = pooled_size(size, kernel, strides, ((0, 0),) * len(kernel), ceil)
    beyond = [max((o - 1) * s + k - n, 0) for n, k, s, o in zip(size, kernel, strides, out, strict=True)]
    wide = ops.pad(x, pads=((0, 0), (0, 0), *((0, n) for n in beyond))) if any(beyond) else x
    return [wide[(..., *window_slices(at, out, strides, ones))] for _, at in kernel_offsets(kernel)]
