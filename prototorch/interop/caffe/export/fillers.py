"""Initializers as Caffe's fillers, where it has them."""

from __future__ import annotations

from typing import Any

from prototorch.initializers import (
    Constant,
    GlorotUniform,
    Initializer,
    LecunUniform,
    Ones,
    RandomNormal,
    RandomUniform,
)
from prototorch.text.caffe.message import Message

__all__ = ["filler"]


def filler(initializer: Initializer | None) -> Message | None:
    """The filler that draws from the same distribution; None for Caffe's default (zeros), and for one that it has not:
    the weights themselves are in the file."""
    fields: dict[str, Any]
    if isinstance(initializer, GlorotUniform):
        fields = {"type": "xavier", "variance_norm": "AVERAGE"}
    elif isinstance(initializer, LecunUniform):
        fields = {"type": "xavier"}
    elif isinstance(initializer, Ones):
        fields = {"type": "constant", "value": 1.0}
    elif isinstance(initializer, Constant) and initializer.value:
        fields = {"type": "constant", "value": initializer.value}
    elif isinstance(initializer, RandomNormal):
        fields = {"type": "gaussian", "mean": initializer.mean or None, "std": initializer.stddev}
    elif isinstance(initializer, RandomUniform):
        fields = {"type": "uniform", "min": initializer.minval, "max": initializer.maxval}
    else:
        return None
    return Message("FillerParameter", **{name: value for name, value in fields.items() if value is not None})
