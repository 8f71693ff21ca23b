"""Leaving steps out."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class Masking(Layer):
    """Masks the steps all of whose features equal ``mask_value`` (Keras); they are set to 0.

    Input [batch, time, n], output of the same shape with a mask [batch, time]: recurrent layers, attention and pooling
    behind it leave the masked steps out.
    """

    channel_axis_note = "the features are the last axis, as in Keras"
    mask_policy = "use"
    keeps_bounds = True
    independent_steps = True

    mask_value: float = field(default=0.0, doc="The value that marks a step to leave out.")

    examples = [
        example("Masking { }", inputs=[(4, 2)]),
        example("Masking { mask_value: -1.0 }", inputs=[(3, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim < 3:
            ctx.fail("the input must be [time, n]")
        keep = ops.any(ops.not_equal(x, self.mask_value), axis=-1)
        y = x * ops.cast(ops.expand_dims(keep, -1), dtype=x.dtype)
        ctx.set_mask(y, keep)
        return y
