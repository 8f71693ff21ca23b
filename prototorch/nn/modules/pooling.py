"""Pooling as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.nn import functional as F
from prototorch.nn.arguments import as_sizes
from prototorch.nn.module import Module

__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
           "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
           "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]  # fmt: skip


class _MaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        """The maxima, and with ``return_indices`` their positions."""
        function = getattr(F, f"max_pool{self.rank}d")
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class _AvgPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        """[batch, channels, *size] to [batch, channels, *windows]: the mean of each window."""
        function = getattr(F, f"avg_pool{self.rank}d")
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(Module):
    rank: ClassVar[int]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Any) -> Any:
        """[batch, channels, *size] to [batch, channels, *windows]: the norm of each window."""
        function = getattr(F, f"lp_pool{self.rank}d")
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptivePool(Module):
    kind: ClassVar[str]

    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Any) -> Any:
        """[batch, channels, ...] to [batch, channels, *output_size]."""
        function = getattr(F, f"adaptive_{self.kind}d")
        return (
            function(input, self.output_size, self.return_indices)
            if "max" in self.kind
            else (function(input, self.output_size))
        )

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    def __init__(self, output_size: Any):
        super().__init__(output_size)


class _MaxUnpool(Module):
    rank: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        name = type(self).__name__
        self.kernel_size = as_sizes(kernel_size, self.rank, f"{name}: kernel_size", 1)
        self.stride = self.kernel_size if stride is None else as_sizes(stride, self.rank, f"{name}: stride", 1)
        self.padding = as_sizes(padding, self.rank, f"{name}: padding")

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """The values at their positions, zeros elsewhere."""
        function = getattr(F, f"max_unpool{self.rank}d")
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1d(_MaxPool):
    """The maximum of each window over one dimension; fields as `nn.functional.max_pool1d`."""

    rank = 1


class AvgPool1d(_AvgPool):
    """The mean of each window over one dimension; fields as `nn.functional.avg_pool1d`."""

    rank = 1

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        kernel = as_sizes(kernel_size, 1, "AvgPool1d: kernel_size", 1)
        strides = kernel if stride is None else as_sizes(stride, 1, "AvgPool1d: stride", 1)
        super().__init__(kernel, strides, as_sizes(padding, 1, "AvgPool1d: padding"), ceil_mode, count_include_pad)


class LPPool1d(_LPPool):
    """The p-norm of each window over one dimension; fields as `nn.functional.lp_pool1d`."""

    rank = 1


class MaxUnpool1d(_MaxUnpool):
    """The inverse of max pooling over one dimension; see `nn.functional.max_unpool1d`."""

    rank = 1


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Pooling over one dimension to `output_size` windows; see `nn.functional.adaptive_avg_pool1d`."""

    kind = "avg_pool1"


class AdaptiveMaxPool1d(_AdaptivePool):
    """Pooling over one dimension to `output_size` windows; see `nn.functional.adaptive_max_pool1d`."""

    kind = "max_pool1"


class MaxPool2d(_MaxPool):
    """The maximum of each window over two dimensions; fields as `nn.functional.max_pool2d`."""

    rank = 2


class AvgPool2d(_AvgPool):
    """The mean of each window over two dimensions; fields as `nn.functional.avg_pool2d`."""

    rank = 2


class LPPool2d(_LPPool):
    """The p-norm of each window over two dimensions; fields as `nn.functional.lp_pool2d`."""

    rank = 2


class MaxUnpool2d(_MaxUnpool):
    """The inverse of max pooling over two dimensions; see `nn.functional.max_unpool2d`."""

    rank = 2


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Pooling over two dimensions to `output_size` windows; see `nn.functional.adaptive_avg_pool2d`."""

    kind = "avg_pool2"


class AdaptiveMaxPool2d(_AdaptivePool):
    """Pooling over two dimensions to `output_size` windows; see `nn.functional.adaptive_max_pool2d`."""

    kind = "max_pool2"


class MaxPool3d(_MaxPool):
    """The maximum of each window over three dimensions; fields as `nn.functional.max_pool3d`."""

    rank = 3


class AvgPool3d(_AvgPool):
    """The mean of each window over three dimensions; fields as `nn.functional.avg_pool3d`."""

    rank = 3


class LPPool3d(_LPPool):
    """The p-norm of each window over three dimensions; fields as `nn.functional.lp_pool3d`."""

    rank = 3


class MaxUnpool3d(_MaxUnpool):
    """The inverse of max pooling over three dimensions; see `nn.functional.max_unpool3d`."""

    rank = 3


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Pooling over three dimensions to `output_size` windows; see `nn.functional.adaptive_avg_pool3d`."""

    kind = "avg_pool3"


class AdaptiveMaxPool3d(_AdaptivePool):
    """Pooling over three dimensions to `output_size` windows; see `nn.functional.adaptive_max_pool3d`."""

    kind = "max_pool3"
