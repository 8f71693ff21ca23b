"""A penalty on a layer's output."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class ActivityRegularization(Layer):
    """The identity; the mean over the batch of l1 * sum |x| + l2 * sum x^2 is added to the loss (Keras 3)."""

    l1: float = field(default=0.0, min=0, doc="Factor of the sum of absolute values of a sample.")
    l2: float = field(default=0.0, min=0, doc="Factor of the sum of squares of a sample.")

    mask_policy = "keep"
    keeps_positions = True
    examples = [
        example("ActivityRegularization { l2: 0.5 }", inputs=[(3,)]),
        example("ActivityRegularization { l1: 0.1  l2: 0.2 }", inputs=[(2, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if self.l1:
            ctx.add_loss(ops.sum(ops.abs(x)) * (self.l1 / x.shape[0]))
        if self.l2:
            ctx.add_loss(ops.sum(ops.square(x)) * (self.l2 / x.shape[0]))
        return x
