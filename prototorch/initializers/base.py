"""The root of all initialisers: how a weight begins."""

from __future__ import annotations

from math import prod

import numpy as np

from prototorch.schema import Block


class Initializer(Block, family="initializer"):
    """How a weight begins."""

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ShapeError where a weight of this shape cannot begin so; asked before there are values."""

    def values(self, shape: tuple[int, ...], rng: np.random.Generator, fans: tuple[int, int]) -> np.ndarray:
        """The first values of a weight, float32 of the shape; ``fans`` are the connections into and out of a unit."""
        raise TypeError(f"{type(self).__name__} does not define values")


def compute_fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Connections into and out of a unit: [in, out] of a matrix, [filters, channels, *kernel] of a convolution."""
    if len(shape) == 0:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    field = prod(shape[2:])
    return shape[1] * field, shape[0] * field
