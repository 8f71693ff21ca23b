"""Initializers as Caffe's fillers, where it has them."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.text.message import Message
from prototorch.initializers import (
    Bilinear,
    Constant,
    GlorotUniform,
    Initializer,
    LecunUniform,
    Ones,
    PositiveUnitBall,
    RandomNormal,
    RandomUniform,
    VarianceScaling,
)

__all__ = ["filler"]


_NORMS = {"fan_in": None, "fan_out": "FAN_OUT", "fan_avg": "AVERAGE"}


def filler(initializer: Initializer | None, unit_axis: int = 0) -> Message | None:
    """The filler that draws from the same distribution; None for Caffe's default (zeros), and for one that it has not:
    the weights themselves are in the file. unit_axis: the axis of our weight that is axis 0 of Caffe's blob."""
    fields: dict[str, Any]
    if isinstance(initializer, GlorotUniform):
        fields = {"type": "xavier", "variance_norm": "AVERAGE"}
    elif isinstance(initializer, LecunUniform):
        fields = {"type": "xavier"}
    elif isinstance(initializer, Ones):
        fields = {"type": "constant", "value": 1.0}
    elif isinstance(initializer, Constant) and initializer.value:
        fields = {"type": "constant", "value": initializer.value}
    elif isinstance(initializer, VarianceScaling):
        fields_of_initializer = _variance_scaling(initializer)
        if fields_of_initializer is None:
            return None
        fields = fields_of_initializer
    elif isinstance(initializer, Bilinear):
        fields = {"type": "bilinear"}
    elif isinstance(initializer, PositiveUnitBall) and initializer.axis == unit_axis:
        fields = {"type": "positive_unitball"}
    elif isinstance(initializer, RandomNormal):
        fields = {"type": "gaussian", "mean": initializer.mean or None, "std": initializer.stddev}
    elif isinstance(initializer, RandomUniform):
        fields = {"type": "uniform", "min": initializer.minval, "max": initializer.maxval}
    else:
        return None
    return Message("FillerParameter", **{name: value for name, value in fields.items() if value is not None})


def _variance_scaling(initializer: VarianceScaling) -> dict[str, Any] | None:
    """xavier and msra, which draw with a variance of 1 / n and 2 / n; None for other variances and distributions."""
    kinds = {(1.0, "uniform"): "xavier", (2.0, "untruncated_normal"): "msra"}
    kind = kinds.get((initializer.scale, initializer.distribution))
    return {"type": kind, "variance_norm": _NORMS[initializer.mode]} if kind else None
