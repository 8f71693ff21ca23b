"""The base of layers with a kernel, a bias and an activation."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer, axis_in_map
from prototorch.layers.context import ArrayValue, Context
from prototorch.regularizers import Regularizer
from prototorch.schema import field


class BiasedLayer(Layer, abstract=True):
    """A layer whose output gets a bias for each channel and an activation."""

    bias_axis: ClassVar[int | None] = 1
    foreign_fields = {
        **dict.fromkeys(("num_output", "out_channels", "nb_filter", "output_channels"), "filters"),
        **dict.fromkeys(("bias", "bias_term"), "use_bias"),
    }

    activation: ActivationLayer = field(default="linear", doc="The activation.")
    use_bias: bool = field(default=True, doc="Whether a bias is added.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the bias.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the bias.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on the bias.")

    def is_map_with_channels_last(self, ndim: int) -> bool:
        """Whether the layer's output of so many axes is a map whose channels are behind its other axes."""
        return isinstance(self, MapLayer) and self.has_channels_last(ndim - 1)

    def bias_and_activation(self, ctx: Context, y: ArrayValue) -> Any:
        """activation(y + bias) for y [batch, channels, ...], one bias per channel."""
        if self.use_bias:
            bias = ctx.weight(
                "bias",
                (y.shape[1],),
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
            y = y + ops.reshape(bias, shape=(y.shape[1], *(1,) * (y.ndim - 2)))
        activation, axis = self.activation, getattr(self.activation, "axis", None)
        if axis is not None and self.is_map_with_channels_last(y.ndim):
            activation = activation.replace(axis=axis_in_map(axis, y.ndim))
        elif y.ndim > 2 and axis == -1:
            name = type(self.activation).__name__
            ctx.warn(
                f"its activation {name} is along the last axis of its output {list(y.shape[1:])}, not along the "
                f"{y.shape[1]} channels: {name} {{ axis: 1 }} is; {name} {{ axis: {y.ndim - 1} }} does what this does"
            )
        return ctx.sublayer("activation", activation, y)


class WeightedLayer(BiasedLayer, abstract=True):
    """A layer with a kernel, a bias and an activation."""

    kernel_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the kernel.")
    kernel_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the kernel.")
    kernel_constraint: Constraint | None = field(default=None, doc="Constraint on the kernel.")

    def kernel(self, ctx: Context, shape: tuple[int, ...], fans: tuple[int, int] | None = None) -> Any:
        """The weight ``kernel``."""
        return ctx.weight(
            "kernel",
            shape,
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            fans=fans,
        )
