"""A learnt step in front of a sequence."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class ClassToken(Layer):
    """Puts a learnt vector, the same for each sample, before the steps of a sequence (BERT; Dosovitskiy et al., 2021).

    Input [batch, time, n], output [batch, 1 + time, n]. The weight is ``token`` [1, n]. ``Take { indices: 0
    axis: 1 }`` behind the layers of an encoder picks its output, which is classified.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    mask_policy = "use"
    initializer: Initializer = field(default="zeros", doc="Initializer of the vector.")

    examples = [
        example("ClassToken { }", inputs=[(4, 3)]),
        example("ClassToken { initializer: random_normal }", inputs=[(2, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim != 3:
            ctx.fail("the input must be [time, n]")
        token = ctx.weight("token", (1, x.shape[2]), self.initializer)
        row = ops.broadcast_to(ops.reshape(token, shape=(1, 1, x.shape[2])), shape=(x.shape[0], 1, x.shape[2]))
        y = ops.concat(row, x, axis=1)
        mask = ctx.mask(x)
        if mask is not None:
            ctx.set_mask(y, ops.concat(ops.full(shape=(x.shape[0], 1), value=True, dtype="bool"), mask, axis=1))
        return y
