"""The base class of initializers."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import ClassVar

import numpy as np

from prototorch.schema import Block
from prototorch.schema.neutral_arguments import neutral
from prototorch.schema.overrides import CONFIG_METHODS


class Initializer(Block, family="initializer"):
    """Gives a weight its initial values."""

    neutral_arguments = {
        "input_axes": neutral(None, hint="the axes follow from the weight's shape"),
        "output_axes": neutral(None, hint="the axes follow from the weight's shape"),
    }

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(("call", "__call__"), "define `values(self, shape, rng, fans)`, a float32 array"),
    }

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ShapeError where a weight of this shape cannot be initialized so; called before `values`."""

    def values(self, shape: tuple[int, ...], rng: np.random.Generator, fans: tuple[int, int]) -> np.ndarray:
        """The initial values of a weight: a float32 array of the shape.

        Args:
            shape: of the weight.
            rng: a generator of the weight's own.
            fans: the numbers of connections into and out of a unit, see `compute_fans`.
        """
        raise TypeError(f"{type(self).__name__} does not define values")


def compute_fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """The numbers of connections into and out of a unit (fan in, fan out): [in, out] of a matrix, [filters, channels,
    *kernel] of a convolution."""
    if len(shape) == 0:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    field = prod(shape[2:])
    return shape[1] * field, shape[0] * field
