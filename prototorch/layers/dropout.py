"""Dropout of elements or whole channels in training."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.base import MaskPolicy
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.random_layer import RandomLayer, rate_field
from prototorch.layers.windows import check_rank
from prototorch.schema import Dims, example, field


class Dropout(RandomLayer):
    """Elements become 0 with the probability ``rate``, the others are divided by 1 - rate (Keras).

    Input and output [batch, ...]. The identity outside training. (Srivastava et al., 2014.)
    """

    follows_layer = True
    mask_policy = "keep"
    keeps_bounds = True
    keeps_positions = True
    foreign_fields = dict.fromkeys(("p", "prob", "dropout_ratio", "keep_prob"), "rate")

    rate: float = rate_field()
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

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        shape = None
        if self.noise_shape is not None:
            if len(self.noise_shape) != x.ndim:
                ctx.fail(f"noise_shape has {len(self.noise_shape)} sizes, the input with its batch dimension {x.ndim}")
            shape = tuple(n if size is None else size for size, n in zip(self.noise_shape, x.shape, strict=True))
        if not ctx.training or self.rate == 0:
            return x
        return ops.dropout(x, ctx.key(), rate=self.rate, site=self.random_site(ctx), noise_shape=shape)


class _SpatialDropout(MapLayer, RandomLayer):
    """Whole channels are dropped."""

    follows_layer = True
    keeps_bounds = True
    rank: ClassVar[int]
    mask_policy: ClassVar[MaskPolicy] = "keep"
    independent_steps: ClassVar[bool] = True
    rate: float = rate_field()

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, self.rank)
        if not ctx.training or self.rate == 0:
            return x
        shape = (*x.shape[:2], *(1,) * self.rank)
        return ops.dropout(x, ctx.key(), rate=self.rate, site=self.random_site(ctx), noise_shape=shape)


class SpatialDropout1D(_SpatialDropout):
    """`Dropout` of whole channels (Keras). Input and output [batch, steps, channels]."""

    rank = 1
    examples = [
        example("SpatialDropout1D { rate: 0.5 }", inputs=[(3, 6)]),
        example("SpatialDropout1D { rate: 0.1 }", inputs=[(1, 9)]),
    ]


class SpatialDropout2D(_SpatialDropout):
    """`Dropout` of whole channels (Keras, channels first). Input and output [batch, channels, rows, columns]."""

    positional = ("rate",)
    rank = 2
    examples = [
        example("SpatialDropout2D { rate: 0.5 }", inputs=[(6, 2, 3)]),
        example("SpatialDropout2D { rate: 0.1 }", inputs=[(9, 1, 1)]),
    ]


class SpatialDropout3D(_SpatialDropout):
    """`Dropout` of whole channels (Keras, channels first). Input and output [batch, channels, depth, rows, columns]."""

    positional = ("rate",)
    rank = 3
    examples = [
        example("SpatialDropout3D { rate: 0.5 }", inputs=[(6, 2, 2, 1)]),
        example("SpatialDropout3D { rate: 0.1 }", inputs=[(9, 1, 1, 2)]),
    ]
