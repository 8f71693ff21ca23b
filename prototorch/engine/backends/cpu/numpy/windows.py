"""Sliding windows as arrays: the geometry, padded copies, and views that NumPy checks against the underlying memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from prototorch.ops.windows import Ints, Pads, dilated_size, kernel_offsets, unpad, window_slices


@dataclass(frozen=True)
class WindowGeometry:
    """Windows over the spatial axes of [N, C, *size]; there are ``out`` of them."""

    size: Ints
    kernel: Ints
    out: Ints
    strides: Ints
    pads: Pads
    dilation: Ints

    @property
    def window_elements(self) -> int:
        """The number of elements of one window, of one channel."""
        return prod(self.kernel)

    @property
    def num_windows(self) -> int:
        """The number of windows."""
        return prod(self.out)

    @property
    def padded_size(self) -> Ints:
        """The padded spatial size, extended as far as the last window needs."""
        return tuple(
            max(n + lo + hi, (o - 1) * s + dilated_size(k, d))
            for n, (lo, hi), o, k, s, d in zip(
                self.size, self.pads, self.out, self.kernel, self.strides, self.dilation, strict=True
            )
        )

    @property
    def is_unpadded(self) -> bool:
        """Whether every window lies inside the input, so that no padded copy is needed."""
        return self.padded_size == self.size

    @property
    def interior(self) -> tuple[Any, ...]:
        """The slices of the input in its padded copy [N, C, *padded_size]."""
        return (..., *unpad(self.size, self.pads))

    @property
    def pointwise(self) -> bool:
        """Whether each window is one element and each element a window."""
        return self.is_unpadded and self.window_elements == 1 and self.out == self.size

    def pad(self, x: Any, into: Any) -> Any:
        """x padded with zeros, written into memory [N, C, *padded_size]; x itself where there is no padding."""
        if self.is_unpadded:
            return x
        into.fill(0)
        into[self.interior] = x
        return into

    def unfold(self, full: Any, batch_inside: bool = False, channels: slice | None = None) -> Any:
        """The windows of a contiguous [N, C, *padded_size] as a view [N, C, *kernel, *out].

        With ``batch_inside`` as [C, *kernel, N, *out]; with ``channels`` (a slice with start and stop) only those.
        """
        batch, channel, *steps = full.strides
        window_strides = [s * d for s, d in zip(steps, self.dilation, strict=True)]
        output_strides = [s * t for s, t in zip(steps, self.strides, strict=True)]
        n, c = full.shape[:2]
        offset = 0
        if channels is not None:
            offset, c = channels.start * channel, channels.stop - channels.start
        if batch_inside:
            shape: Ints = (c, *self.kernel, n, *self.out)
            strides = (channel, *window_strides, batch, *output_strides)
        else:
            shape, strides = (n, c, *self.kernel, *self.out), (batch, channel, *window_strides, *output_strides)
        return np.ndarray(shape, full.dtype, full, offset, strides)

    def slices(self) -> list[tuple[Any, ...]]:
        """For each offset of the kernel, in row-major order, the slices of [..., *padded_size] at that offset."""
        return [
            (..., *window_slices(at, self.out, self.strides, self.dilation)) for _, at in kernel_offsets(self.kernel)
        ]
