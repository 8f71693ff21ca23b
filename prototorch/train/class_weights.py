"""Class weights: a factor in the loss for the samples of each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from prototorch.errors import UsageError
from prototorch.spec import Spec
from prototorch.train.loss_terms import LossTerm

__all__ = ["check_class_weights", "sample_class_weights"]


def check_class_weights(
    loss_terms: Sequence[LossTerm], weights: Mapping[int, float], output_spec: Callable[[str], Spec]
) -> dict[int, float]:
    """The weights as a dict of floats. output_spec: the spec of an output by its name.

    Raises UsageError for several outputs, targets that are no classes or of which a sample has several, for anything
    but finite weights >= 0 of integer class indices, and for a class that the output does not have.
    """
    if not isinstance(weights, Mapping):
        raise UsageError(
            f"class_weight must be a dict of a number for each class index, {{0: 1.0, 1: 5.0}}, not {weights!r}"
        )
    if not weights:
        return {}
    loss_terms = [term for term in loss_terms if term.loss.needs_target]
    if len(loss_terms) != 1:
        raise UsageError("class_weight is for models with one loss; sample_weight can weigh the samples of any model")
    term = loss_terms[0]
    if term.loss.target_kind == "values":
        raise UsageError(f"class_weight: the targets of {type(term.loss).__name__} are no classes")
    checked = {}
    for label, weight in weights.items():
        is_index = isinstance(label, int | np.integer) and not isinstance(label, bool)
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, complex | np.complexfloating)
        if not is_index or not is_number or not 0 <= weight < float("inf"):
            raise UsageError(f"class_weight must be a number for each class index, not {label!r}: {weight!r}")
        checked[int(label)] = float(weight)
    count = _count_classes(term, output_spec(term.output))
    absent = [label for label in checked if not 0 <= label < count and label != term.loss.ignored_class]
    if absent:
        raise UsageError(
            f"class_weight names the class {absent[0]}, but the output {term.output!r} has {count} classes, "
            f"0 to {count - 1}: the weight would count for no sample; take it out, or give the last layer more units"
        )
    return checked


def _count_classes(term: LossTerm, output: Spec) -> int:
    """The number of classes of an output. Raises UsageError where a sample has several targets."""
    target = term.loss.target_spec(output)
    per_sample = target.shape[1:-1] if term.loss.target_kind == "one_hot" else target.shape[1:]
    if term.loss.target_kind != "binary" and any(n != 1 for n in per_sample):
        raise UsageError(
            f"class_weight: a sample has targets of shape {list(target.shape[1:])}, not one class; sample_weight "
            "weighs whole samples, and a loss of your own (compile(loss=function)) single positions"
        )
    if term.loss.target_kind == "binary":
        return max(2, output.shape[-1])
    return output.shape[term.loss.class_axis]


def sample_class_weights(target: np.ndarray, weights: Mapping[int, float]) -> np.ndarray:
    """The weight of each sample by its class, float32 [n]; target: labels [n] or [n, 1], or one-hot rows [n, classes].

    A class without a weight has the weight 1.
    """
    labels = target.argmax(-1) if target.ndim > 1 and target.shape[-1] > 1 else target.reshape(len(target))
    result = np.ones(len(labels), np.float32)
    for label, weight in weights.items():
        result[labels == label] = weight
    return result
