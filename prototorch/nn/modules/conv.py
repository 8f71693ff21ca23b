"""Convolutions as modules."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from prototorch.errors import UsageError
from prototorch.nn import functional as F
from prototorch.nn.arguments import as_sizes
from prototorch.nn.functional.conv import same_pads
from prototorch.nn.init import fan_in_and_fan_out, kaiming_uniform_, uniform_
from prototorch.nn.module import Module
from prototorch.nn.parameter import new_parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What all have in common: the fields, the parameters, their first values and the text."""

    rank: ClassVar[int]
    is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ):
        super().__init__()
        rank, name = self.rank, type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise UsageError(
                f"{name}: {in_channels} input and {out_channels} output channels must divide into {groups} groups"
            )
        if padding_mode not in _MODES or (self.is_transposed and padding_mode != "zeros"):
            modes = "'zeros'" if self.is_transposed else ", ".join(map(repr, _MODES))
            raise UsageError(f"{name}: padding_mode must be one of {modes}, got {padding_mode!r:.60}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = as_sizes(kernel_size, rank, f"{name}: kernel_size", 1)
        self.stride = as_sizes(stride, rank, f"{name}: stride", 1)
        self.dilation = as_sizes(dilation, rank, f"{name}: dilation", 1)
        self.padding: Any = padding if isinstance(padding, str) else as_sizes(padding, rank, f"{name}: padding")
        self.output_padding = as_sizes(output_padding, rank, f"{name}: output_padding")
        self.transposed, self.groups, self.padding_mode = self.is_transposed, groups, padding_mode
        if padding == "same" and max(self.stride) > 1:
            raise UsageError(f"{name}: padding 'same' needs a stride of 1, got {stride}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise UsageError(f"{name}: padding must be 'valid', 'same' or integers, got {padding!r:.60}")
        first, second = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        self.weight = new_parameter((first, second // groups, *self.kernel_size), device, dtype)
        if bias:
            self.bias = new_parameter((out_channels,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: uniform in +-1 / sqrt(fan_in)."""
        kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = fan_in_and_fan_out(self.weight, type(self).__name__)
            bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
            uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        """[batch, in_channels, ...] to [batch, out_channels, ...]; the batch may be absent."""
        function = getattr(F, f"conv{self.rank}d")
        if self.padding_mode == "zeros":
            return function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        if isinstance(self.padding, str):
            pads = same_pads(self.kernel_size, self.dilation) if self.padding == "same" else ((0, 0),) * self.rank
        else:
            pads = tuple((p, p) for p in self.padding)
        wide = F.pad(input, [n for pair in reversed(pads) for n in pair], mode=self.padding_mode)
        return function(wide, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def extra_repr(self) -> str:
        """The fields that are not their defaults."""
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * self.rank:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.rank:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self.rank:
            parts.append(f"output_padding={self.output_padding}")
        parts += [f"groups={self.groups}"] if self.groups != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        parts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(parts)


class _ConvOf(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )


class Conv1d(_ConvOf):
    """Convolution over one dimension: input [batch, in_channels, steps], weight [out, in / groups, kernel]; fields as
    `nn.functional.conv1d`, with padding_mode "zeros", "reflect", "replicate" or "circular"."""

    rank = 1


class Conv2d(_ConvOf):
    """Convolution over two dimensions: input [batch, in_channels, rows, columns], weight [out, in / groups, *kernel];
    fields as `nn.functional.conv2d`, with padding_mode "zeros", "reflect", "replicate" or "circular"."""

    rank = 2


class Conv3d(_ConvOf):
    """Convolution over three dimensions: input [batch, in_channels, depth, rows, columns], weight [out, in / groups,
    *kernel]; fields as `nn.functional.conv3d`, with padding_mode "zeros", "reflect", "replicate" or "circular"."""

    rank = 3


class _TransposeOf(_Conv):
    is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """[batch, in_channels, ...] to [batch, out_channels, ...]; output_size: the spatial size, which the stride
        leaves open."""
        function = getattr(F, f"conv_transpose{self.rank}d")
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        return function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Any, output_size: Any) -> tuple[int, ...]:
        sizes = as_sizes(list(output_size)[-self.rank :], self.rank, "output_size", 1)
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.rank :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        for size, low, stride in zip(sizes, least, self.stride, strict=True):
            if not low <= size < low + stride:
                most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
                raise UsageError(f"output_size {list(sizes)} must lie between {least} and {most}")
        return tuple(size - low for size, low in zip(sizes, least, strict=True))


class ConvTranspose1d(_TransposeOf):
    """Transposed convolution over one dimension: weight [in_channels, out_channels / groups, kernel]; fields as
    `nn.functional.conv_transpose1d`."""

    rank = 1


class ConvTranspose2d(_TransposeOf):
    """Transposed convolution over two dimensions: weight [in_channels, out_channels / groups, *kernel]; fields as
    `nn.functional.conv_transpose2d`."""

    rank = 2


class ConvTranspose3d(_TransposeOf):
    """Transposed convolution over three dimensions: weight [in_channels, out_channels / groups, *kernel]; fields as
    `nn.functional.conv_transpose3d`."""

    rank = 3
