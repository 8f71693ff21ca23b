"""Weights that many layers of Keras have, and the order of their axes there.

Source: the `build` of each layer of Keras 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prototorch.interop.counterparts.row import WeightPair
from prototorch.model.loading.layout.transforms import TransposeArray

__all__ = ["BIAS", "KERNEL", "RECURRENT_WEIGHTS", "size_last", "unless_off"]


def unless_off(argument: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a layer has a weight that an argument switches off (``use_bias``)."""
    return lambda config: config.get(argument, True) is not False


def size_last(layer: object, shape: tuple[int, ...]) -> TransposeArray:
    """[*size, in, out] there for a kernel [out, in, *size]."""
    rank = len(shape) - 2
    return TransposeArray((rank + 1, rank, *range(rank)))


KERNEL = WeightPair("kernel", "kernel")
BIAS = WeightPair("bias", "bias", is_stored=unless_off("use_bias"))
RECURRENT_WEIGHTS = (KERNEL, WeightPair("recurrent_kernel", "recurrent_kernel"), BIAS)
