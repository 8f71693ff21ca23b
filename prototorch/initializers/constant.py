"""Initializers that are not random."""

from __future__ import annotations

import numpy as np

from prototorch.errors import ShapeError
from prototorch.initializers.base import Initializer


class Zeros(Initializer):
    """All 0."""

    def values(self, shape, rng, fans):
        return np.zeros(shape, np.float32)


class Ones(Initializer):
    """All 1."""

    def values(self, shape, rng, fans):
        return np.ones(shape, np.float32)


class Constant(Initializer):
    """All elements are ``value``."""

    value: float = 0.0

    def values(self, shape, rng, fans):
        return np.full(shape, self.value, np.float32)


class Identity(Initializer):
    """``gain`` on the diagonal of a matrix, else 0."""

    aliases = ("IdentityInitializer",)
    gain: float = 1.0

    def check_shape(self, shape):
        if len(shape) != 2:
            raise ShapeError(f"Identity needs a matrix, got a weight of shape {list(shape)}")

    def values(self, shape, rng, fans):
        self.check_shape(shape)
        return np.eye(*shape, dtype=np.float32) * np.float32(self.gain)


class Bilinear(Initializer):
    """The kernel of bilinear interpolation in each pair of channels: [filters, channels, size, size] (Caffe's bilinear
    filler). A transposed convolution of stride n, with a group for each channel, a kernel of ``2 * n - n % 2`` and
    padding ``ceil((n - 1) / 2)``, then makes images n times as large.

    The element [y, x] is ``(1 - |x / f - c|) * (1 - |y / f - c|)`` where f is ceil(size / 2) and c is
    (size - 1) / (2 * f).
    """

    def check_shape(self, shape):
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ShapeError(f"Bilinear needs the kernel of a convolution, as high as wide, got shape {list(shape)}")

    def values(self, shape, rng, fans):
        self.check_shape(shape)
        size = shape[3]
        half = -(-size // 2)
        along = 1 - np.abs(np.arange(size) / half - (size - 1) / (2 * half))
        return np.broadcast_to(np.outer(along, along), shape).astype(np.float32, order="C")
