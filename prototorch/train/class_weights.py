"""Class weights: a factor in the loss for the samples of each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.data.binding import BoundDataset
from prototorch.errors import UsageError
from prototorch.spec import Spec
from prototorch.train.class_weight_field import BALANCED
from prototorch.train.loss_terms import LossTerm

__all__ = ["balanced_weights_error", "check_class_weights", "find_class_weights", "sample_class_weights"]


def find_class_weights(
    weights: Any, loss_terms: Sequence[LossTerm], data: BoundDataset, output_spec: Callable[[str], Spec]
) -> dict[int, float]:
    """The weight of each class: those of a dict, those of a list in the order of the classes, or with ``balanced``
    samples / (classes * samples of the class), as scikit-learn has it.

    Raises UsageError as `check_class_weights`, for a list of another length than there are classes, and for
    ``balanced`` where the classes of the samples are not known before they are read.
    """
    if isinstance(weights, str) and weights != BALANCED:
        raise UsageError(f"class_weight must be {BALANCED!r}, a list or a dict of numbers, not {weights!r:.60}")
    if isinstance(weights, str):
        return check_class_weights(loss_terms, _balanced(loss_terms, data, output_spec), output_spec)
    if isinstance(weights, list | tuple):
        checked = check_class_weights(loss_terms, dict(enumerate(weights)), output_spec)
        count = _count_classes(_term(loss_terms), output_spec(_term(loss_terms).output))
        if len(weights) != count:
            raise UsageError(f"class_weight has {len(weights)} numbers, and there are {count} classes")
        return checked
    return check_class_weights(loss_terms, weights, output_spec)


def _balanced(
    loss_terms: Sequence[LossTerm], data: BoundDataset, output_spec: Callable[[str], Spec]
) -> dict[int, float]:
    term = _term(loss_terms)
    count = _count_classes(term, output_spec(term.output))
    labels = data.column_array(data.target_columns[term.output]) if term.output in data.target_columns else None
    if labels is None:
        raise balanced_weights_error()
    one_hot = term.loss.target_kind == "one_hot" or (labels.ndim > 1 and labels.shape[-1] > 1)
    classes = labels.argmax(-1).reshape(-1) if one_hot else np.asarray(labels).reshape(-1).astype(np.int64)
    classes = classes[(classes >= 0) & (classes < count)]
    counts = np.bincount(classes, minlength=count)
    present = np.flatnonzero(counts)
    return {int(k): float(len(classes) / (len(present) * counts[k])) for k in present}


def balanced_weights_error() -> UsageError:
    """The error for data whose classes are not known before they are read."""
    return UsageError(
        f"class_weight: {BALANCED!r} needs the classes of all samples before the training: arrays, a table, a folder "
        "with classes; give the weights as a list otherwise"
    )


def _term(loss_terms: Sequence[LossTerm]) -> LossTerm:
    """The one loss that has classes. Raises UsageError."""
    terms = [term for term in loss_terms if term.loss.needs_target]
    if len(terms) != 1:
        raise UsageError("class_weight is for models with one loss; sample_weight can weigh the samples of any model")
    if terms[0].loss.target_kind == "values":
        raise UsageError(f"class_weight: the targets of {type(terms[0].loss).__name__} are no classes")
    return terms[0]


def check_class_weights(
    loss_terms: Sequence[LossTerm], weights: Mapping[int, float], output_spec: Callable[[str], Spec]
) -> dict[int, float]:
    """The weights as a dict of floats. output_spec: the spec of an output by its name.

    Raises UsageError for several outputs, targets that are no classes or of which a sample has several, for anything
    but finite weights >= 0 of integer class indices, and for a class that the output does not have.
    """
    if not isinstance(weights, Mapping):
        raise UsageError(
            f"class_weight must be {BALANCED!r}, a list of a number for each class, or a dict of a number for each "
            f"class index, {{0: 1.0, 1: 5.0}}, not {weights!r:.60}"
        )
    if not weights:
        return {}
    term = _term(loss_terms)
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
