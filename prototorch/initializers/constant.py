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
