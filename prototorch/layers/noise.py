"""Layers that draw in training and do nothing in use: dropout and noise."""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.layers.spatial import check_rank
from prototorch.schema import Dims, example, field


class RandomLayer(Layer, abstract=True):
    """A layer that draws. The same seed, step and place in the net draw the same."""

    seed: int | None = field(default=None, doc="Another number, another draw; the model's seed decides as well.")
    keeps_mask: ClassVar[bool] = True

    def site(self, ctx: Context) -> int:
        """The number of this draw."""
        return (ctx.site() + (self.seed or 0) * 0x9E3779B1) % 2**32


def _rate() -> Any:
    return field(min=0, below=1, doc="The share that is dropped.")


class Dropout(RandomLayer):
    """Elements become 0 with the probability ``rate``, the others are divided by 1 - rate (Keras).

    Input and output [batch, ...]. Outside training the input as it is. (Srivastava et al., 2014.)
    """

    rate: float = _rate()
    noise_shape: tuple[int | None, ...] | None = field(
        default=None,
        type=Dims(),
        doc="The shape of the draws, batch dimension included: 1 where one holds for all, none: as the input.",
    )
    examples = [
        example("Dropout { rate: 0.5 }", inputs=[(8,)]),
        example("Dropout { rate: 0.25  noise_shape: [none, 1, 6]  seed: 3 }", inputs=[(3, 6)]),
        example("Dropout { rate: 0 }", inputs=[(2,)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        shape = None
        if self.noise_shape is not None:
            if len(self.noise_shape) != x.ndim:
                ctx.fail(f"noise_shape has {len(self.noise_shape)} sizes, the input with its batch dimension {x.ndim}")
            shape = tuple(n if given is None else given for given, n in zip(self.noise_shape, x.shape, strict=True))
        if not ctx.training or self.rate == 0:
            return x
        return ops.dropout(x, ctx.key(), rate=self.rate, site=self.site(ctx), noise_shape=shape)


class _SpatialDropout(RandomLayer):
    """Whole channels are dropped."""

    rank: ClassVar[int]
    rate: float = _rate()

    def call(self, ctx: Context, x: Any) -> Any:
        check_rank(ctx, x, self.rank)
        if not ctx.training or self.rate == 0:
            return x
        shape = (*x.shape[:2], *(1,) * self.rank)
        return ops.dropout(x, ctx.key(), rate=self.rate, site=self.site(ctx), noise_shape=shape)


class SpatialDropout1D(_SpatialDropout):
    """`Dropout` of whole channels (Keras, channels first). Input and output [batch, channels, steps]."""

    rank = 1
    examples = [
        example("SpatialDropout1D { rate: 0.5 }", inputs=[(6, 3)]),
        example("SpatialDropout1D { rate: 0.1 }", inputs=[(9, 1)]),
    ]


class SpatialDropout2D(_SpatialDropout):
    """`Dropout` of whole channels (Keras, channels first). Input and output [batch, channels, rows, columns]."""

    rank = 2
    examples = [
        example("SpatialDropout2D { rate: 0.5 }", inputs=[(6, 2, 3)]),
        example("SpatialDropout2D { rate: 0.1 }", inputs=[(9, 1, 1)]),
    ]


class SpatialDropout3D(_SpatialDropout):
    """`Dropout` of whole channels (Keras, channels first). Input and output [batch, channels, depth, rows, columns]."""

    rank = 3
    examples = [
        example("SpatialDropout3D { rate: 0.5 }", inputs=[(6, 2, 2, 1)]),
        example("SpatialDropout3D { rate: 0.1 }", inputs=[(9, 1, 1, 2)]),
    ]


class GaussianNoise(RandomLayer):
    """Normal noise of mean 0 is added (Keras). Input and output [batch, ...]. Outside training the input as it is."""

    stddev: float = field(min=0, doc="The noise's standard deviation.")
    examples = [
        example("GaussianNoise { stddev: 0.5 }", inputs=[(4, 3)]),
        example("GaussianNoise { stddev: 2 }", inputs=[(1,)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        if not ctx.training or self.stddev == 0:
            return x
        noise = ops.random_normal(
            ctx.key(), site=self.site(ctx), shape=tuple(x.shape), stddev=self.stddev, dtype=x.dtype
        )
        return x + noise


class GaussianDropout(RandomLayer):
    """Elements are multiplied by normal noise of mean 1 and variance rate / (1 - rate) (Keras).

    Input and output [batch, ...]. Outside training the input as it is. (Srivastava et al., 2014.)
    """

    rate: float = _rate()
    examples = [
        example("GaussianDropout { rate: 0.5 }", inputs=[(4, 3)]),
        example("GaussianDropout { rate: 0.1 }", inputs=[(1,)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        if not ctx.training or self.rate == 0:
            return x
        stddev = sqrt(self.rate / (1 - self.rate))
        return x * ops.random_normal(
            ctx.key(), site=self.site(ctx), shape=tuple(x.shape), mean=1.0, stddev=stddev, dtype=x.dtype
        )


class AlphaDropout(RandomLayer):
    """Dropout that keeps the mean and variance of normalised inputs, for use with SELU (Klambauer et al., 2017; Keras).

    Input and output [batch, ...]. Outside training the input as it is.
    """

    rate: float = _rate()
    examples = [
        example("AlphaDropout { rate: 0.5 }", inputs=[(4, 3)]),
        example("AlphaDropout { rate: 0.1 }", inputs=[(9,)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        if not ctx.training or self.rate == 0:
            return x
        dropped = -1.6732632423543772 * 1.0507009873554805  # SELU's limit for small inputs
        scale = ((1 - self.rate) * (1 + self.rate * dropped**2)) ** -0.5
        draw = ops.random_uniform(ctx.key(), site=self.site(ctx), shape=tuple(x.shape), dtype=x.dtype)
        kept = ops.where(ops.less(draw, self.rate), ops.full(shape=(), value=dropped, dtype=x.dtype), x)
        return kept * scale - scale * dropped * self.rate
