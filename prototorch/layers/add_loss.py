"""A value that is part of the training loss."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class AddLoss(Layer):
    """The identity; weight * the sum of its input is added to the training loss (``add_loss`` in Keras).

    Input and output of any shape; that of a loss layer is a scalar []. It is what ``loss_weight`` says at a top of a
    Caffe layer.
    """

    weight: float = field(default=1.0, doc="Factor of the sum.")

    mask_policy = "keep"
    examples = [example("AddLoss { }", inputs=[(3,)]), example("AddLoss { weight: 0.5 }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if self.weight:
            ctx.add_loss((x if x.ndim == 0 else ops.sum(x, axis=None)) * self.weight)
        return x
