"""Residual branches that are left out at random in training."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.random_layer import RandomLayer, rate_field
from prototorch.schema import example, field


class StochasticDepth(RandomLayer):
    """All elements of a sample become 0 with the probability ``rate``, those of the others are divided by 1 - rate: at
    the end of a residual branch, which it leaves out (torchvision's StochasticDepth, keras_cv's DropPath).

    Input and output [batch, ...]. The identity outside training. (Huang et al., 2016.)
    """

    aliases = ("DropPath",)
    positional = ("rate",)
    follows_layer = True
    mask_policy = "keep"
    keeps_bounds = True
    keeps_positions = True
    foreign_fields = dict.fromkeys(("p", "prob", "drop_prob", "survival_probability"), "rate")
    rate: float = rate_field()
    mode: Literal["row", "batch"] = field(
        default="row", doc="row: one draw for each sample; batch: one draw for the whole batch."
    )
    examples = [
        example("StochasticDepth { rate: 0.5 }", inputs=[(4, 3)]),
        example("StochasticDepth { rate: 0.2  mode: batch }", inputs=[(3,)]),
        example("StochasticDepth { rate: 0 }", inputs=[(2,)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if not ctx.training or self.rate == 0:
            return x
        rows = x.shape[0] if self.mode == "row" else 1
        shape = (rows, *(1,) * (x.ndim - 1))
        return ops.dropout(x, ctx.key(), rate=self.rate, site=self.random_site(ctx), noise_shape=shape)
