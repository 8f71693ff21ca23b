"""Class weights: a factor in the loss for the samples of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.errors import UsageError
from prototorch.train.loss_terms import LossTerm

__all__ = ["check_class_weights", "sample_class_weights"]


def check_class_weights(loss_terms: Sequence[LossTerm], weights: Mapping[int, float]) -> dict[int, float]:
    """The weights as a dict of floats. Raises UsageError for several outputs, targets that are no classes, and for
    anything but finite weights >= 0 of integer class indices."""
    if not isinstance(weights, Mapping):
        raise UsageError(
            f"class_weight must be a dict of a number for each class index, {{0: 1.0, 1: 5.0}}, not {weights!r}"
        )
    if not weights:
        return {}
    if len(loss_terms) != 1:
        raise UsageError("class_weight is for models with one loss; sample_weight can weigh the samples of any model")
    loss = loss_terms[0].loss
    if loss.target_kind == "values":
        raise UsageError(f"class_weight: the targets of {type(loss).__name__} are no classes")
    checked = {}
    for label, weight in weights.items():
        is_index = isinstance(label, int | np.integer) and not isinstance(label, bool)
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, complex | np.complexfloating)
        if not is_index or not is_number or not 0 <= weight < float("inf"):
            raise UsageError(f"class_weight must be a number for each class index, not {label!r}: {weight!r}")
        checked[int(label)] = float(weight)
    return checked


def sample_class_weights(target: np.ndarray, weights: Mapping[int, float]) -> np.ndarray:
    """The weight of each sample by its class, float32 [n]; target: labels [n] or [n, 1], or one-hot rows [n, classes].

    A class without a weight has the weight 1.
    """
    labels = target.argmax(-1) if target.ndim > 1 and target.shape[-1] > 1 else target.reshape(len(target))
    result = np.ones(len(labels), np.float32)
    for label, weight in weights.items():
        result[labels == label] = weight
    return result
