"""Transposed convolution: the adjoint of a convolution by its input, for upsampling with learned weights."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.weighted_layer import WeightedLayer
from prototorch.layers.windows import (
    Pads,
    Sizes,
    batch_axes_field,
    dilation_field,
    kernel_field,
    merge_batch_axes,
    padding_field,
    split_batch_axes,
    strides_field,
)
from prototorch.ops.windows import dilated_size
from prototorch.schema import Ints, example, field


def transposed_conv_shape(
    size: int, kernel: int, stride: int, dilation: int, padding: str | tuple[int, int], extra: int | None
) -> tuple[int, tuple[int, int]]:
    """One dimension: the output's size, and the pads of the convolution of which this is the adjoint.

    "valid" gives ``size * stride + max(kernel - stride, 0)`` and "same" ``size * stride``; with ``extra``
    (output_padding) they give ``(size - 1) * stride + kernel + extra``, for "same" less ``2 * (kernel // 2)`` (Keras).
    """
    reach = dilated_size(kernel, dilation)
    full = (size - 1) * stride + reach
    if isinstance(padding, tuple):
        return full - sum(padding) + (extra or 0), padding
    if padding == "valid":
        return full + (max(stride - reach, 0) if extra is None else extra), (0, 0)
    if extra is None:
        out, total = size * stride, reach + stride - 2
    else:
        out, total = full - 2 * (reach // 2) + extra, reach + reach % 2 - 2 + extra
    before = reach - 1 - min((total + 1) // 2, reach - 1)
    return out, (before, max(full - out - before, 0))


class _ConvTransposeLayer(MapLayer, WeightedLayer):
    """One body for every rank; the classes below declare the sizes of theirs."""

    keyword_only = ("batch_axes",)
    own_fields: ClassVar[frozenset[str]] = frozenset({"batch_axes"})

    rank: ClassVar[int]
    filters: int
    kernel_size: Sizes
    strides: Sizes
    padding: str | Pads
    output_padding: Sizes | None
    dilation_rate: Sizes
    groups: int = field(default=1, min=1, doc="Number of groups; channels of different groups are not connected.")
    batch_axes: int = batch_axes_field()

    @property
    def axes_before_channels(self) -> int:
        return self.batch_axes

    def check(self) -> None:
        """Filters come in whole groups, and what is added at the end is less than a stride."""
        if self.filters % self.groups:
            self.refuse(f"{self.filters} filters do not divide into {self.groups} groups", "groups")
        for extra, stride in zip(self.output_padding or (), self.strides, strict=False):
            if extra >= stride:
                self.refuse(f"output_padding ({extra}) must be smaller than strides ({stride})", "output_padding")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        original, x = x, merge_batch_axes(ctx, x, self.batch_axes, self.rank)
        if x.shape[1] % self.groups:
            ctx.fail(f"{x.shape[1]} input channels do not divide into {self.groups} groups")
        kernel = self.kernel(ctx, (x.shape[1], self.filters // self.groups, *self.kernel_size))
        paddings = (self.padding,) * self.rank if isinstance(self.padding, str) else self.padding
        extras = self.output_padding or (None,) * self.rank
        each = zip(x.shape[2:], self.kernel_size, self.strides, self.dilation_rate, paddings, extras, strict=True)
        sizes, pads = zip(*(transposed_conv_shape(*one) for one in each), strict=True)
        if min(sizes) < 1:
            ctx.fail(f"its output would have the size {list(sizes)}: the padding takes away more than there is")
        y = ops.conv_input_grad(
            x, kernel, size=sizes, strides=self.strides, pads=pads, dilation=self.dilation_rate, groups=self.groups
        )
        return split_batch_axes(self.bias_and_activation(ctx, y), original, self.batch_axes)


def _output_padding_field(rank: int) -> Any:
    doc = "Output positions added at the end of each dimension, fewer than strides; default: chosen by padding."
    return field(default=None, type=Ints(rank, min=0), doc=doc)


class Conv1DTranspose(_ConvTransposeLayer):
    """Transposed convolution over one dimension (Keras).

    Input [batch, steps, channels], output [batch, new steps, filters]; kernel
    [channels, filters / groups, kernel_size], bias [filters]. New steps: steps * strides for "same"; for "valid" that
    and max(kernel - strides, 0); with explicit padding (steps - 1) * strides + kernel - padding on both sides
    + output_padding (PyTorch).
    """

    positional = ("filters", "kernel_size", "strides", "padding", "output_padding")
    rank = 1
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(1)
    strides: Sizes = strides_field(1)
    padding: str | Pads = padding_field(1)
    output_padding: Sizes | None = _output_padding_field(1)
    dilation_rate: Sizes = dilation_field(1)

    examples = [
        example("Conv1DTranspose { filters: 2  kernel_size: 3  strides: 2 }", inputs=[(4, 3)]),
        example("Conv1DTranspose { filters: 1  kernel_size: 2  strides: 3  padding: same }", inputs=[(3, 2)]),
    ]


class Conv2DTranspose(_ConvTransposeLayer):
    """Transposed convolution over two dimensions (Keras, channels first; Caffe's Deconvolution).

    Input [batch, channels, rows, columns], output [batch, filters, new rows, new columns]; kernel
    [channels, filters / groups, *kernel_size], bias [filters]. New sizes: size * strides for "same"; for "valid" that
    and max(kernel - strides, 0); with explicit padding (size - 1) * strides + kernel - padding on both sides
    + output_padding (PyTorch).
    """

    block_word = "upconv"
    positional = ("filters", "kernel_size", "strides", "padding", "output_padding")
    foreign_names = dict.fromkeys(("Deconvolution", "ConvTranspose2d", "Deconv"), "Conv2DTranspose")

    rank = 2
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(2)
    strides: Sizes = strides_field(2)
    padding: str | Pads = padding_field(2)
    output_padding: Sizes | None = _output_padding_field(2)
    dilation_rate: Sizes = dilation_field(2)

    examples = [
        example("Conv2DTranspose { filters: 3  kernel_size: 3  strides: 2  padding: same }", inputs=[(2, 3, 4)]),
        example("Conv2DTranspose { filters: 4  kernel_size: [2, 3]  strides: [1, 3]  groups: 2 }", inputs=[(2, 3, 2)]),
        example("Conv2DTranspose { filters: 2  kernel_size: 4  strides: 2  padding: 1  output_padding: [0, 1] }",
                inputs=[(1, 3, 3)]),
        example("Conv2DTranspose { filters: 1  kernel_size: 2  strides: 2  batch_axes: 2 }", inputs=[(2, 2, 2, 3)]),
    ]  # fmt: skip


class Conv3DTranspose(_ConvTransposeLayer):
    """Transposed convolution over three dimensions (Keras, channels first).

    Input [batch, channels, depth, rows, columns], output [batch, filters, new depth, new rows, new columns]; kernel
    [channels, filters / groups, *kernel_size], bias [filters]. Sizes as those of Conv2DTranspose.
    """

    positional = ("filters", "kernel_size", "strides", "padding")
    rank = 3
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(3)
    strides: Sizes = strides_field(3)
    padding: str | Pads = padding_field(3)
    output_padding: Sizes | None = _output_padding_field(3)
    dilation_rate: Sizes = dilation_field(3)

    examples = [
        example("Conv3DTranspose { filters: 2  kernel_size: 2  strides: 2 }", inputs=[(1, 2, 2, 3)]),
        example("Conv3DTranspose { filters: 2  kernel_size: [1, 3, 2]  padding: same  use_bias: false }",
                inputs=[(2, 2, 3, 2)]),
    ]  # fmt: skip
