"""Random noise in training; the identity otherwise."""

from __future__ import annotations

from math import sqrt
from typing import Any

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.random_layer import RandomLayer, rate_field
from prototorch.schema import example, field


class GaussianNoise(RandomLayer):
    """Normal noise of mean 0 is added (Keras). Input and output [batch, ...]. The identity outside training."""

    mask_policy = "keep"
    keeps_bounds = True
    keeps_positions = True
    stddev: float = field(min=0, doc="The noise's standard deviation.")
    examples = [
        example("GaussianNoise { stddev: 0.5 }", inputs=[(4, 3)]),
        example("GaussianNoise { stddev: 2 }", inputs=[(1,)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if not ctx.training or self.stddev == 0:
            return x
        noise = ops.random_normal(
            ctx.key(), site=self.random_site(ctx), shape=tuple(x.shape), stddev=self.stddev, dtype=x.dtype
        )
        return x + noise


class GaussianDropout(RandomLayer):
    """Elements are multiplied by normal noise of mean 1 and variance rate / (1 - rate) (Keras).

    Input and output [batch, ...]. The identity outside training. (Srivastava et al., 2014.)
    """

    mask_policy = "keep"
    keeps_bounds = True
    keeps_positions = True
    rate: float = rate_field()
    examples = [
        example("GaussianDropout { rate: 0.5 }", inputs=[(4, 3)]),
        example("GaussianDropout { rate: 0.1 }", inputs=[(1,)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if not ctx.training or self.rate == 0:
            return x
        stddev = sqrt(self.rate / (1 - self.rate))
        return x * ops.random_normal(
            ctx.key(), site=self.random_site(ctx), shape=tuple(x.shape), mean=1.0, stddev=stddev, dtype=x.dtype
        )


class AlphaDropout(RandomLayer):
    """Dropout that keeps the mean and variance of normalized inputs, for use with SELU (Klambauer et al., 2017; Keras).

    Input and output [batch, ...]. The identity outside training.
    """

    positional = ("rate",)
    mask_policy = "keep"
    keeps_bounds = True
    keeps_positions = True
    rate: float = rate_field()
    examples = [
        example("AlphaDropout { rate: 0.5 }", inputs=[(4, 3)]),
        example("AlphaDropout { rate: 0.1 }", inputs=[(9,)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if not ctx.training or self.rate == 0:
            return x
        floor = -1.6732632423543772 * 1.0507009873554805  # SELU's limit for small inputs
        scale = ((1 - self.rate) * (1 + self.rate * floor**2)) ** -0.5
        draw = ops.random_uniform(ctx.key(), site=self.random_site(ctx), shape=tuple(x.shape), dtype=x.dtype)
        y = ops.where(ops.less(draw, self.rate), ops.full(shape=(), value=floor, dtype=x.dtype), x)
        return y * scale - scale * floor * self.rate
