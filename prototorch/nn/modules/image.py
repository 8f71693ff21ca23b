"""Shuffles, windows, other sizes and shapes as modules."""

from __future__ import annotations

from typing import Any

from prototorch.nn import functional as F
from prototorch.nn.field_module import FieldModule
from prototorch.nn.module import Module

__all__ = ["ChannelShuffle", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold", "Upsample",
           "UpsamplingBilinear2d", "UpsamplingNearest2d"]  # fmt: skip


class PixelShuffle(FieldModule):
    """[..., C r^2, H, W] to [..., C, H r, W r]."""

    text_fields = ("upscale_factor",)

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        """The elements in their new order."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(FieldModule):
    """[..., C, H r, W r] to [..., C r^2, H, W]."""

    text_fields = ("downscale_factor",)

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        """The elements in their new order."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(FieldModule):
    """Channels [batch, groups * n, ...] in the order [batch, n * groups, ...]."""

    text_fields = ("groups",)

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """The elements in their new order."""
        return F.channel_shuffle(input, self.groups)


class Unfold(FieldModule):
    """The elements of each window as a column; see `nn.functional.unfold`."""

    text_fields = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Any) -> Any:
        """[batch, channels, rows, columns] to [batch, channels * elements of a window, windows]."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(FieldModule):
    """The sum of windows that are columns; see `nn.functional.fold`."""

    text_fields = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Any) -> Any:
        """[batch, channels * elements of a window, windows] to [batch, channels, *output_size]."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class Upsample(Module):
    """Other spatial sizes; see `nn.functional.interpolate`."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(f) for f in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """[batch, channels, ...] with other sizes."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """The size or the factor."""
        first = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{first}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` with mode "nearest"; PyTorch's older module."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` with mode "bilinear" and align_corners; PyTorch's older module."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Flatten(Module):
    """Dimensions from start_dim to end_dim as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """The same elements."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several, of the sizes ``unflattened_size``; undoes `Flatten`."""

    def __init__(self, dim: int, unflattened_size: Any):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Any) -> Any:
        """The same elements."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
