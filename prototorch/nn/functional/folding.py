"""The elements of sliding windows as columns, and back."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.nn.arguments import as_sizes, check_input
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.windows import dilated_size, num_windows

__all__ = ["fold", "unfold"]


def _unit_kernels(channels: int, kernel: tuple[int, ...]) -> np.ndarray:
    """The weight of a convolution in groups whose outputs are the elements of each channel's windows."""
    count = prod(kernel)
    return np.tile(np.eye(count).reshape(count, 1, *kernel), (channels, 1, *(1,) * len(kernel)))


def _windows(kernel_size: Any, dilation: Any, padding: Any, stride: Any, name: str) -> tuple[Any, Any]:
    kernel = as_sizes(kernel_size, 2, f"{name}: kernel_size", 1)
    paddings = as_sizes(padding, 2, f"{name}: padding")
    return kernel, {"strides": as_sizes(stride, 2, f"{name}: stride", 1), "pads": tuple((p, p) for p in paddings),
                    "dilation": as_sizes(dilation, 2, f"{name}: dilation", 1)}  # fmt: skip


def _weight(x: Any, channels: int, kernel: tuple[int, ...]) -> LazyArray:
    return LazyArray((channels * prod(kernel), 1, *kernel), str(x.dtype), partial(_unit_kernels, channels, kernel))


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The elements of each window of [batch, channels, rows, columns] (or without the batch) as a column: [batch,
    channels * elements of a window, windows]."""
    check_input(input, "unfold")
    kernel, windows = _windows(kernel_size, dilation, padding, stride, "unfold")
    if input.ndim not in (3, 4):
        raise ShapeError(f"unfold: expected 3 or 4 dimensions, got {list(input.shape)}")
    x = input if input.ndim == 4 else ops.expand_dims(input, axis=0)
    y = ops.conv(x, _weight(x, x.shape[1], kernel), groups=x.shape[1], **windows)
    y = ops.reshape(y, shape=(*y.shape[:2], prod(y.shape[2:])))
    return y if input.ndim == 4 else ops.squeeze(y, axis=0)


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The sum of windows that are columns of [batch, channels * elements of a window, windows] (or without the batch):
    [batch, channels, *output_size]."""
    check_input(input, "fold")
    kernel, windows = _windows(kernel_size, dilation, padding, stride, "fold")
    size = as_sizes(output_size, 2, "fold: output_size", 1)
    if input.ndim not in (2, 3):
        raise ShapeError(f"fold: expected 2 or 3 dimensions, got {list(input.shape)}")
    x = input if input.ndim == 3 else ops.expand_dims(input, axis=0)
    if x.shape[1] % prod(kernel):
        raise ShapeError(f"fold: {x.shape[1]} rows must be a multiple of the {prod(kernel)} elements of a window")
    for n, k, d, (a, b) in zip(size, kernel, windows["dilation"], windows["pads"], strict=True):
        if dilated_size(k, d) > n + a + b:
            raise ShapeError(f"fold: a window of {dilated_size(k, d)} elements exceeds the padded size {n + a + b}")
    out = tuple(
        num_windows(n, k, s, p, d)
        for n, k, s, p, d in zip(size, kernel, windows["strides"], windows["pads"], windows["dilation"], strict=True)
    )
    if x.shape[2] != prod(out):
        raise ShapeError(f"fold: expected {prod(out)} windows ({' x '.join(map(str, out))}), got {x.shape[2]}")
    channels = x.shape[1] // prod(kernel)
    grid = ops.reshape(x, shape=(x.shape[0], x.shape[1], *out))
    y = ops.conv_input_grad(grid, _weight(x, channels, kernel), size=size, groups=channels, **windows)
    return y if input.ndim == 3 else ops.squeeze(y, axis=0)
