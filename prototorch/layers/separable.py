"""Depthwise and separable convolution: a filter per channel; if separable, a pointwise convolution after it."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.weighted_layer import BiasedLayer
from prototorch.layers.windows import (
    Pads,
    Sizes,
    check_rank,
    dilation_field,
    kernel_field,
    padding_field,
    resolve_padding,
    strides_field,
)
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field


class _DepthwiseConv(MapLayer, BiasedLayer):
    """A filter for each channel alone; the classes below declare the sizes of theirs."""

    rank: ClassVar[int]
    kernel_size: Sizes
    strides: Sizes
    padding: str | Pads
    dilation_rate: Sizes
    depth_multiplier: int = field(default=1, min=1, doc="Output channels per input channel.")
    depthwise_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the depthwise kernel.")
    depthwise_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the depthwise kernel.")
    depthwise_constraint: Constraint | None = field(default=None, doc="Constraint on the depthwise kernel.")

    def depthwise(self, ctx: Context, x: ArrayValue, weight: str) -> Any:
        """x [batch, channels, ...] filtered, [batch, channels * depth_multiplier, ...]."""
        check_rank(ctx, x, self.rank)
        channels, times, places = x.shape[1], self.depth_multiplier, prod(self.kernel_size)
        kernel = ctx.weight(
            weight,
            (channels * times, 1, *self.kernel_size),
            self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
            fans=(channels * places, times * places),
        )
        pads = resolve_padding(self.padding, x.shape[2:], self.kernel_size, self.strides, self.dilation_rate)
        return ops.conv(x, kernel, strides=self.strides, pads=pads, dilation=self.dilation_rate, groups=channels)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return self.bias_and_activation(ctx, self.depthwise(ctx, x, "kernel"))


class DepthwiseConv1D(_DepthwiseConv):
    """A convolution of each channel by itself over one dimension (Keras).

    Input [batch, steps, channels], output [batch, new steps, channels * depth_multiplier]; kernel
    [channels * depth_multiplier, 1, kernel_size]: output c * depth_multiplier + m is the m-th of channel c.
    """

    positional = ("kernel_size", "strides", "padding")
    rank = 1
    kernel_size: Sizes = kernel_field(1)
    strides: Sizes = strides_field(1)
    padding: str | Pads = padding_field(1, ("valid", "same", "causal"))
    dilation_rate: Sizes = dilation_field(1)

    examples = [
        example("DepthwiseConv1D { kernel_size: 3 }", inputs=[(5, 2)]),
        example("DepthwiseConv1D { kernel_size: 2  strides: 2  depth_multiplier: 3  padding: same }", inputs=[(5, 1)]),
    ]


class DepthwiseConv2D(_DepthwiseConv):
    """A convolution of each channel by itself over two dimensions (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels * depth_multiplier, new rows, new columns]; kernel
    [channels * depth_multiplier, 1, *kernel_size]: output c * depth_multiplier + m is the m-th of channel c.
    """

    block_word = "depthwise"
    positional = ("kernel_size", "strides", "padding")
    rank = 2
    kernel_size: Sizes = kernel_field(2)
    strides: Sizes = strides_field(2)
    padding: str | Pads = padding_field(2)
    dilation_rate: Sizes = dilation_field(2)

    examples = [
        example("DepthwiseConv2D { kernel_size: 3  padding: same }", inputs=[(3, 4, 5)]),
        example("DepthwiseConv2D { kernel_size: [2, 1]  strides: 2  depth_multiplier: 2  padding: [0, 1] }",
                inputs=[(2, 4, 3)]),
    ]  # fmt: skip


class _SeparableConv(_DepthwiseConv):
    """A depthwise convolution, then one of size 1 that mixes the channels."""

    filters: int
    pointwise_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the pointwise kernel.")
    pointwise_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the pointwise kernel.")
    pointwise_constraint: Constraint | None = field(default=None, doc="Constraint on the pointwise kernel.")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        y = self.depthwise(ctx, x, "depthwise_kernel")
        ones = (1,) * self.rank
        kernel = ctx.weight(
            "pointwise_kernel",
            (self.filters, y.shape[1], *ones),
            self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        y = ops.conv(y, kernel, strides=ones, pads=((0, 0),) * self.rank, dilation=ones)
        return self.bias_and_activation(ctx, y)


class SeparableConv1D(_SeparableConv):
    """A depthwise convolution over one dimension, then a mix of its channels (Keras).

    Input [batch, steps, channels], output [batch, new steps, filters]; depthwise_kernel
    [channels * depth_multiplier, 1, kernel_size], pointwise_kernel [filters, channels * depth_multiplier, 1].
    """

    positional = ("filters", "kernel_size", "strides", "padding")
    rank = 1
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(1)
    strides: Sizes = strides_field(1)
    padding: str | Pads = padding_field(1, ("valid", "same", "causal"))
    dilation_rate: Sizes = dilation_field(1)

    examples = [
        example("SeparableConv1D { filters: 3  kernel_size: 2 }", inputs=[(5, 2)]),
        example("SeparableConv1D { filters: 1  kernel_size: 3  strides: 2  padding: same  depth_multiplier: 2 }",
                inputs=[(6, 2)]),
    ]  # fmt: skip


class SeparableConv2D(_SeparableConv):
    """A depthwise convolution over two dimensions, then a mix of its channels (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, filters, new rows, new columns]; depthwise_kernel
    [channels * depth_multiplier, 1, *kernel_size], pointwise_kernel [filters, channels * depth_multiplier, 1, 1].
    """

    positional = ("filters", "kernel_size", "strides", "padding")
    rank = 2
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(2)
    strides: Sizes = strides_field(2)
    padding: str | Pads = padding_field(2)
    dilation_rate: Sizes = dilation_field(2)

    examples = [
        example("SeparableConv2D { filters: 4  kernel_size: 3  padding: same }", inputs=[(2, 4, 3)]),
        example("SeparableConv2D { filters: 2  kernel_size: [1, 2]  depth_multiplier: 2  strides: 2  use_bias: false }",
                inputs=[(3, 3, 5)]),
    ]  # fmt: skip
