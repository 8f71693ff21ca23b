"""Convolution in one, two and three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.weighted_layer import WeightedLayer
from prototorch.layers.windows import (
    Pads,
    Sizes,
    batch_axes_field,
    dilation_field,
    kernel_field,
    merge_batch_axes,
    padding_field,
    resolve_padding,
    split_batch_axes,
    strides_field,
)
from prototorch.schema import example, field


class _ConvLayer(MapLayer, WeightedLayer):
    """One body for every rank; the classes below declare the sizes of theirs."""

    keyword_only = ("batch_axes",)
    own_fields: ClassVar[frozenset[str]] = frozenset({"batch_axes"})

    rank: ClassVar[int]
    filters: int
    kernel_size: Sizes
    strides: Sizes
    padding: str | Pads
    dilation_rate: Sizes
    groups: int = field(default=1, min=1, doc="Number of groups; channels of different groups are not connected.")
    batch_axes: int = batch_axes_field()

    @property
    def axes_before_channels(self) -> int:
        return self.batch_axes

    def check(self) -> None:
        """Filters come in whole groups."""
        if self.filters % self.groups:
            self.refuse(f"{self.filters} filters do not divide into {self.groups} groups", "groups")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        original, x = x, merge_batch_axes(ctx, x, self.batch_axes, self.rank)
        if x.shape[1] % self.groups:
            ctx.fail(f"{x.shape[1]} input channels do not divide into {self.groups} groups")
        kernel = self.kernel(ctx, (self.filters, x.shape[1] // self.groups, *self.kernel_size))
        pads = resolve_padding(self.padding, x.shape[2:], self.kernel_size, self.strides, self.dilation_rate)
        y = ops.conv(x, kernel, strides=self.strides, pads=pads, dilation=self.dilation_rate, groups=self.groups)
        return split_batch_axes(self.bias_and_activation(ctx, y), original, self.batch_axes)


class Conv1D(_ConvLayer):
    """Convolution (cross-correlation) over one dimension (Keras).

    Input [batch, steps, channels], output [batch, new steps, filters]; kernel
    [filters, channels / groups, kernel_size], bias [filters].
    """

    positional = ("filters", "kernel_size", "strides", "padding")
    rank = 1
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(1)
    strides: Sizes = strides_field(1)
    padding: str | Pads = padding_field(1, ("valid", "same", "causal"))
    dilation_rate: Sizes = dilation_field(1)

    examples = [
        example("Conv1D { filters: 4  kernel_size: 3 }", inputs=[(7, 2)]),
        example("Conv1D { filters: 2  kernel_size: 3  data_format: channels_first }", inputs=[(2, 7)]),
        example("Conv1D { filters: 3  kernel_size: 2  dilation_rate: 3  padding: causal }", inputs=[(5, 1)]),
        example("Conv1D { filters: 2  kernel_size: 4  strides: 3  padding: [2, 0]  use_bias: false }", inputs=[(8, 3)]),
    ]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        x = inputs[0]
        is_causal = self.padding == "causal" and max(self.strides) == 1 and x.ndim == 3
        self.check_independent_steps(ctx, is_causal and self.has_channels_last(2), x)
        before = (self.kernel_size[0] - 1) * self.dilation_rate[0]
        return self.replace(padding="valid").record(ctx, ctx.with_earlier_steps("input", x, before))


class Conv2D(_ConvLayer):
    """Convolution (cross-correlation) over two dimensions (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, filters, new rows, new columns]; kernel
    [filters, channels / groups, *kernel_size], bias [filters]. With ``batch_axes: 2`` the input is
    [batch, time, channels, rows, columns], and each step is an image.
    """

    positional = ("filters", "kernel_size", "strides", "padding")
    foreign_names = dict.fromkeys(("Convolution", "Convolution2D", "Conv"), "Conv2D")

    rank = 2
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(2)
    strides: Sizes = strides_field(2)
    padding: str | Pads = padding_field(2)
    dilation_rate: Sizes = dilation_field(2)

    examples = [
        example("Conv2D { filters: 4  kernel_size: 3 }", inputs=[(2, 6, 5)]),
        example("Conv2D { filters: 4  kernel_size: 3  data_format: channels_last }", inputs=[(6, 5, 2)]),
        example("Conv2D { filters: 4  kernel_size: 3  strides: 2  padding: same  activation: tanh }",
                inputs=[(3, 6, 7)]),
        example("Conv2D { filters: 6  kernel_size: [1, 3]  groups: 2  padding: [0, 1] }", inputs=[(4, 3, 4)]),
        example("Conv2D { filters: 2  kernel_size: 2  dilation_rate: [2, 1]  strides: 2  padding: [[1, 0], [0, 2]] }",
                inputs=[(1, 4, 5)]),
        example("Conv2D { filters: 2  kernel_size: 2  batch_axes: 2 }", inputs=[(3, 1, 4, 3)]),
    ]  # fmt: skip


class Conv3D(_ConvLayer):
    """Convolution (cross-correlation) over three dimensions (Keras, channels first).

    Input [batch, channels, depth, rows, columns], output [batch, filters, new depth, new rows, new columns]; kernel
    [filters, channels / groups, *kernel_size], bias [filters].
    """

    positional = ("filters", "kernel_size", "strides", "padding")
    rank = 3
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(3)
    strides: Sizes = strides_field(3)
    padding: str | Pads = padding_field(3)
    dilation_rate: Sizes = dilation_field(3)

    examples = [
        example("Conv3D { filters: 2  kernel_size: 2 }", inputs=[(1, 3, 4, 3)]),
        example("Conv3D { filters: 4  kernel_size: [1, 2, 3]  strides: [1, 2, 2]  padding: same  groups: 2 }",
                inputs=[(2, 2, 3, 5)]),
    ]  # fmt: skip
