"""The fully connected layer."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field


class Dense(Layer):
    """A fully connected layer: ``activation(x @ kernel + bias)`` over the last axis (Keras).

    Input [batch, ..., n], output [batch, ..., units]; kernel [n, units].
    """

    channel_axis_note = "the features are the last axis, as in Keras"
    bias_axis = -1
    keyword_only = ("kernel_constraint", "bias_constraint")
    foreign_names = dict.fromkeys(("InnerProduct", "FullyConnected", "FC", "Affine"), "Dense")
    foreign_fields = {
        **dict.fromkeys(("num_output", "out_features", "output_dim", "neurons", "nodes", "size"), "units"),
        **dict.fromkeys(("bias", "bias_term"), "use_bias"),
    }

    units: int = field(min=1, doc="The number of outputs.")
    activation: ActivationLayer = field(default="linear", doc="The activation.")
    use_bias: bool = field(default=True, doc="Whether a bias is added.")
    kernel_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the kernel.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the bias.")
    kernel_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the kernel.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the bias.")
    kernel_constraint: Constraint | None = field(default=None, doc="Constraint on the kernel.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on the bias.")

    mask_policy = "use"
    independent_steps = True
    consumes_features = True
    transposable_weight = "kernel"
    examples = [
        example("Dense { units: 4 }", inputs=[(3,)]),
        example("Dense { units: 2  activation: tanh  use_bias: false }", inputs=[(5, 3)]),
    ]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, inputs[0].ndim > 2, *inputs)
        return self.record(ctx, *inputs)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim < 2:
            ctx.fail("the input must have at least one dimension")
        kernel = ctx.weight(
            "kernel",
            (x.shape[-1], self.units),
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        y = x if x.ndim == 2 else ops.reshape(x, shape=(-1, x.shape[-1]))
        y = ops.matmul(y, kernel)
        if self.use_bias:
            y = y + ctx.weight(
                "bias",
                (self.units,),
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        mask = ctx.mask(x)
        if mask is not None and mask.ndim == x.ndim:
            ctx.warn("its input has a mask along the axis that it sums over: all of its elements count")
            mask = None
        y = self._activated(ctx, x, y)
        ctx.set_mask(y, mask)
        return y

    def _activated(self, ctx: Context, x: ArrayValue, y: ArrayValue) -> Any:
        """The activation of the product [-1, units], in the shape of the output."""
        if x.ndim == 2:
            return ctx.sublayer("activation", self.activation, y)
        shape = (*x.shape[:-1], self.units)
        if self.activation.elementwise:  # before the reshape, next to the product, where a plan can join both
            return ops.reshape(ctx.sublayer("activation", self.activation, y), shape=shape)
        return ctx.sublayer("activation", self.activation, ops.reshape(y, shape=shape))
