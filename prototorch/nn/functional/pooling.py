"""Max, average and power-average pooling in one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import as_sizes, with_batch
from prototorch.nn.functional.pool_windows import max_of_windows, window_positions
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.pool import pooled_size, window_counts
from prototorch.ops.windows import dilated_size

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
           "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
           "max_pool3d_with_indices"]  # fmt: skip


def _windows(
    name: str, rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
) -> tuple[Any, Any, Any]:
    kernel = as_sizes(kernel_size, rank, f"{name}: kernel_size", 1)
    is_default = stride is None or (isinstance(stride, tuple | list) and not stride)
    strides = kernel if is_default else as_sizes(stride, rank, f"{name}: stride", 1)
    paddings = as_sizes(padding, rank, f"{name}: padding")
    rates = as_sizes(dilation, rank, f"{name}: dilation", 1)
    if any(2 * p > dilated_size(k, d) for p, k, d in zip(paddings, kernel, rates, strict=True)):
        raise UsageError(f"{name}: padding {padding} must be at most half of the kernel size {kernel_size}")
    return kernel, strides, tuple((p, p) for p in paddings)


def check_elements(name: str, x: Any) -> None:
    """Raises ShapeError for an input [batch, channels, ...] without channels or elements."""
    if 0 in x.shape[1:]:
        raise ShapeError(f"{name}: expected elements in all dimensions but the batch, got {list(x.shape)}")


def _define_max(rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"max_pool{rank}d"

    def with_indices(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> Any:
        kernel, strides, pads = _windows(name, rank, kernel_size, stride, padding, dilation)
        rates = as_sizes(dilation, rank, f"{name}: dilation", 1)

        def run(x: Any) -> Any:
            size = tuple(x.shape[2:])
            check_elements(name, x)
            if max(rates) > 1:
                y, number = max_of_windows(x, kernel, strides, pads, rates, ceil_mode)
            else:
                y, number = ops.max_pool(x, kernel=kernel, strides=strides, pads=pads, ceil=bool(ceil_mode))
            if not return_indices:
                return y
            return y, window_positions(number, size, kernel, strides, pads, rates)

        return with_batch(input, rank, name, run)

    def max_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    max_pool.__name__ = max_pool.__qualname__ = name
    max_pool.__doc__ = f"""The maximum of each window of [batch, channels, ...] with {rank} dimension{"s" * (rank > 1)},
    or without the batch.

    stride: default the kernel size. ceil_mode: whether a last window that begins inside the input counts.
    return_indices: gives the positions of the maxima in the flattened input as well, int64. Raises ShapeError and
    UsageError for what does not fit.
    """
    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"As `{name}`, with the positions of the maxima."
    FUNCTIONS.setdefault(name, max_pool)
    if rank == 1:
        FUNCTIONS.setdefault("max_pool1d_with_indices", with_indices)
    return max_pool, with_indices


def _define_average(rank: int) -> Callable[..., Any]:
    name = f"avg_pool{rank}d"

    def avg_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        kernel, strides, pads = _windows(name, rank, kernel_size, stride, padding)
        if divisor_override is not None and not divisor_override:
            raise UsageError(f"{name}: divisor_override must not be 0")
        windows = {"kernel": kernel, "strides": strides, "pads": pads, "ceil": bool(ceil_mode)}

        def run(x: Any) -> Any:
            check_elements(name, x)
            if not x.spec.is_float:  # PyTorch cuts off the fraction
                return ops.cast(ops.trunc(run(ops.cast(x, dtype="float64"))), dtype=str(x.dtype))
            if divisor_override is None:
                return ops.avg_pool(x, **windows, include_pad=bool(count_include_pad))
            size = tuple(x.shape[2:])
            y = ops.avg_pool(x, **windows, include_pad=True)
            counts = partial(window_counts, np, size, kernel, strides, pads, bool(ceil_mode), True, np.float64)
            out = pooled_size(size, kernel, strides, pads, bool(ceil_mode))
            return ops.multiply(y, LazyArray(out, str(x.dtype), counts)) * (1 / divisor_override)

        return with_batch(input, rank, name, run)

    avg_pool.__name__ = avg_pool.__qualname__ = name
    avg_pool.__doc__ = f"""The mean of each window of [batch, channels, ...] with {rank} dimension{"s" * (rank > 1)}, or
    without the batch.

    stride: default the kernel size. ceil_mode: whether a last window that begins inside the input counts.
    count_include_pad: whether padding counts as elements. divisor_override: divide the sum by this number. Raises
    ShapeError and UsageError for what does not fit.
    """
    FUNCTIONS.setdefault(name, avg_pool)
    return avg_pool


def _define_power(rank: int) -> Callable[..., Any]:
    name = f"lp_pool{rank}d"

    def lp_pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        kernel, strides, pads = _windows(name, rank, kernel_size, stride, 0)

        def run(x: Any) -> Any:
            mean = ops.avg_pool(x**norm_type, kernel=kernel, strides=strides, pads=pads, ceil=bool(ceil_mode))
            positive = ops.sign(mean) * ops.relu(ops.abs(mean))
            return (positive * float(prod(kernel))) ** (1 / norm_type)

        return with_batch(input, rank, name, run)

    lp_pool.__name__ = lp_pool.__qualname__ = name
    lp_pool.__doc__ = f"""The p-norm (``norm_type``) of each window of [batch, channels, ...] with {rank}
    dimension{"s" * (rank > 1)}, or without the batch; fields as `max_pool{rank}d`."""
    return lp_pool


max_pool1d, max_pool1d_with_indices = _define_max(1)
max_pool2d, max_pool2d_with_indices = _define_max(2)
max_pool3d, max_pool3d_with_indices = _define_max(3)
avg_pool1d, avg_pool2d, avg_pool3d = _define_average(1), _define_average(2), _define_average(3)
lp_pool1d, lp_pool2d, lp_pool3d = _define_power(1), _define_power(2), _define_power(3)
