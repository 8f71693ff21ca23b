"""Checks of the data before the first step: what cannot be trained on is an error, what is suspicious a warning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from prototorch.data.binding import BoundDataset
from prototorch.data.dataset import Dataset
from prototorch.data.dataset_notes import find_common_rows, find_dataset_notes
from prototorch.data.pipeline.signature import TargetSpec
from prototorch.errors import DataError, DataWarning, warn_user

__all__ = [
    "DataWarning",
    "check_dataset",
    "check_inputs",
    "check_overlap",
    "check_sample",
    "check_target",
    "check_targets",
    "check_validation_classes",
    "check_values",
    "warn_of_notes",
    "warn_of_small_split",
]

CHUNK_ELEMENTS = 1 << 24  # elements that are checked at a time
MAX_COMPARED_ROWS = 200_000  # larger sets are not searched for equal rows


def check_dataset(
    dataset: BoundDataset,
    targets: Mapping[str, TargetSpec] | None = None,
    *,
    warn: bool = True,
    training: bool = True,
) -> list[str]:
    """Check what needs no decoding of the whole set: all columns in memory, and one sample of the others.

    Args:
        dataset: a set bound to the model, by `bind`.
        targets: output -> the target that its loss expects, as for `bind`.
        warn: whether to issue the notes as `DataWarning` too.
        training: whether the set is to be learned; notes on what cannot be learned from it are for these only.

    Returns:
        Notes on suspicious data, see `prototorch.data.dataset_notes`.

    Raises:
        DataError: an empty set, class names at a loss of values, labels out of range, targets that are not integers or
            not distributions, values that are not finite, columns that do not match their spec. The first one is
            reported with its row.
    """
    if len(dataset):
        check_sample(dataset)
    check_values(dataset, targets or {})
    notes = find_dataset_notes(dataset, targets or {}, training)
    if warn:
        warn_of_notes(notes)
    return notes


def warn_of_notes(notes: Iterable[str]) -> None:
    """Issue notes on suspicious data as `DataWarning`."""
    for note in notes:
        warn_user(note, DataWarning)


def check_values(dataset: BoundDataset, targets: Mapping[str, TargetSpec]) -> None:
    """Check the values of all columns in memory. Arguments and errors are those of `check_dataset`."""
    check_inputs(dataset, dataset.inputs)
    check_targets(dataset, targets)


def check_inputs(dataset: Dataset, columns: Iterable[str]) -> None:
    """Check the values of the columns that feed inputs, and of sample weights, as far as they are in memory.

    Raises DataError for an empty set, values that are not finite, and weights that are negative or all zero.
    """
    if not len(dataset):
        raise DataError(f"{dataset.name}: the data set is empty")
    for column in columns:
        values = dataset.column_array(column)
        if values is not None:
            check_finite(dataset, column, values)
    if dataset.weight is not None:
        weights = dataset.column_array(dataset.weight)
        if weights is not None:
            _check_weights(dataset, dataset.weight, weights)


def check_targets(dataset: BoundDataset, targets: Mapping[str, TargetSpec]) -> None:
    """Check the values of the targets in memory, by output. Raises DataError with the first invalid one."""
    for output, target in targets.items():
        column = dataset.target_columns[output]
        _check_class_names(dataset, column, target)
        values = dataset.column_array(column)
        if values is not None:
            check_target(dataset, column, values, target)


def check_target(dataset: Dataset, column: str, values: np.ndarray, target: TargetSpec) -> None:
    """Check the values of one target [n, ...], row i being sample i. Raises DataError with the first invalid one."""
    check_finite(dataset, column, values)
    if target.kind == "classes":
        _check_labels(dataset, column, values, target)
    elif target.kind == "binary":
        invalid = (values < 0) | (values > 1)
        if invalid.any():
            where, value = _first_invalid(dataset, column, values, invalid)
            raise DataError(f"{where} is {value}; {target.loss} expects numbers from 0 to 1{_format_others(invalid)}")
    elif target.kind == "one_hot":
        sums = values.sum(axis=target.axis, dtype=np.float64)
        invalid = (values < 0).any(axis=target.axis) | (abs(sums - 1) > 1e-3)
        if invalid.any():
            where, value = _first_invalid(dataset, column, sums, invalid)
            raise DataError(
                f"{where} is not a distribution (the sum is {value:g}; it must be 1, without negative elements), "
                f"which {target.loss} expects{_format_others(invalid)}"
            )


def check_finite(dataset: Dataset, column: str, values: np.ndarray) -> None:
    """Check that no value is NaN or infinite. Raises DataError with the first one and its row."""
    if values.dtype.kind != "f":
        return
    step = max(1, CHUNK_ELEMENTS // max(1, math.prod(values.shape[1:])))
    for start in range(0, len(values), step):
        chunk = values[start : start + step]
        finite = np.isfinite(chunk)
        if not finite.all():
            where, value = _first_invalid(dataset, column, chunk, ~finite, start)
            raise DataError(f"{where} is {value}; the data must be finite numbers{_format_others(~finite)}")


def check_overlap(train: Dataset, validation: Dataset, *, warn: bool = True) -> list[str]:
    """Notes on samples that are in both sets; only sets in memory, of at most `MAX_COMPARED_ROWS`, are searched."""
    notes: list[str] = []
    for column in set(train.inputs) & set(validation.inputs):
        a, b = train.column_array(column), validation.column_array(column)
        if a is None or b is None or max(len(a), len(b)) > MAX_COMPARED_ROWS or a.dtype != b.dtype or a[0].size < 8:
            continue
        common = find_common_rows(a, b)
        if len(common) > max(1, len(b) // 100):
            notes.append(
                f"{len(common):,} of the {len(b):,} validation samples are training samples too "
                f"(the first: {validation.origin(common[0])}); the validation metrics will be too optimistic"
            )
    if warn:
        warn_of_notes(notes)
    return notes


def check_validation_classes(
    train: BoundDataset, validation: BoundDataset, output: str, ignored_class: int | None = None
) -> None:
    """Warn if the labels of an output in the validation set have classes that the training set lacks.

    Only labels in memory are compared.
    """
    if output not in train.target_columns or output not in validation.target_columns:
        return
    train_labels = train.column_array(train.target_columns[output])
    labels = validation.column_array(validation.target_columns[output])
    if train_labels is None or labels is None or train_labels.dtype.kind not in "iub" or labels.dtype.kind not in "iub":
        return
    missing = np.setdiff1d(labels, train_labels)
    missing = missing[missing != ignored_class]
    if len(missing):
        column = validation.target_columns[output]
        names = [validation.label_name(column, int(label)) for label in missing[:10]]
        examples = ", ".join(names) + (", ..." if len(missing) > 10 else "")
        warn_user(
            f"{validation.name}: {len(missing)} of the classes of {output!r} occur in the validation data but not in "
            f"the training data ({examples}); are the data sorted by class?",
            DataWarning,
        )


def check_sample(dataset: Dataset, used: Iterable[str] | None = None) -> None:
    """Check that the first sample is as the set declares it; used: the columns to check, by default all.

    Raises DataError. A sample that cannot be read is left to the loader.
    """
    columns, _, errors = dataset.read_valid(np.array([0]))
    if errors:
        return  # the loader decides whether an unreadable sample is left out
    for name in dataset.columns if used is None else used:
        spec, array = dataset.columns[name], columns.get(name)
        if array is None:
            raise DataError(f"{dataset.name}: read() returns no column {name!r}, which the set declares")
        if array.shape[1:] != spec.shape or array.dtype.name != spec.dtype:
            raise DataError(
                f"{dataset.origin(0)}: column {name!r} is {array.dtype}{list(array.shape[1:])}, the set declares {spec}"
            )


def _check_class_names(dataset: BoundDataset, column: str, target: TargetSpec) -> None:
    """Labels that are numbers of class names are no values, and no yes or no of more than two classes."""
    names, shape = dataset.classes.get(column, ()), dataset.columns[column].shape
    if len(names) <= target.max_classes or (math.prod(shape) > 1 and len(names) in shape):  # one-hot targets
        return
    what = "takes at most 2 classes" if target.max_classes == 2 else "takes values, not class numbers"
    binary = "binary_crossentropy with one unit, or " if len(names) <= 2 else ""
    raise DataError(
        f"{dataset.name}: the target {column!r} has the {len(names)} classes {', '.join(names[:8])}"
        f"{', ...' if len(names) > 8 else ''}, but {target.loss} {what}: write {binary}sparse_categorical_crossentropy "
        f"with units: {len(names)} in the last layer, or give numbers as targets"
    )


def _check_labels(dataset: Dataset, column: str, values: np.ndarray, target: TargetSpec) -> None:
    if values.dtype.kind == "f":
        invalid = values != np.floor(values)
        if invalid.any():
            where, value = _first_invalid(dataset, column, values, invalid)
            raise DataError(f"{where} is {value}; {target.loss} expects integer class labels{_format_others(invalid)}")
    if target.classes is None:
        return
    invalid = (values < 0) | (values >= target.classes)
    if target.ignored_class is not None:
        invalid &= values != target.ignored_class
    if invalid.any():
        where, value = _first_invalid(dataset, column, values, invalid)
        name = dataset.label_name(column, int(value))
        class_name = f" ({name})" if name != str(int(value)) else ""
        output = target.layer or "the model"
        raise DataError(
            f"{where} is {int(value)}{class_name}; {output} has {target.classes} classes, 0 to {target.classes - 1}"
            f"{_format_others(invalid)}{_label_hint(dataset, column, values, target)}"
        )


def _label_hint(dataset: Dataset, column: str, values: np.ndarray, target: TargetSpec) -> str:
    """What to change where labels are not those of the output."""
    if values.min() < 0:
        return "; labels count from 0, and a label that is to be left out is named by ignore_class at the loss"
    if values.min() == 1 and values.max() == target.classes:
        return "; the labels seem to count from 1, but must count from 0: give y - 1"
    names = dataset.classes.get(column, ())
    count = max(int(values.max()) + 1, len(names))
    listing = f" ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})" if names else ""
    if target.classes == 1:
        return "; for two classes take binary_crossentropy with one unit, or 2 units"
    if count > 10 * max(len(np.unique(values)), 10):
        return "; labels are class numbers; for measured values take a loss such as mse"
    return f"; for the {count} classes of the data{listing} give it units: {count}, or correct the labels"


def _check_weights(dataset: Dataset, column: str, values: np.ndarray) -> None:
    check_finite(dataset, column, values)
    invalid = values < 0
    if invalid.any():
        where, value = _first_invalid(dataset, column, values, invalid)
        raise DataError(f"{where} is {value}; a weight must not be negative{_format_others(invalid)}")
    if not values.any():
        raise DataError(f"{dataset.name}: all of {column} are zero")


def _first_invalid(
    dataset: Dataset, column: str, values: np.ndarray, invalid: np.ndarray, start: int = 0
) -> tuple[str, Any]:
    """The location of the first invalid value, for messages, and the value. Row 0 of ``values`` is sample ``start``."""
    at = tuple(int(i) for i in np.argwhere(invalid)[0])
    element = f"{list(at[1:])}" if len(at) > 1 else ""
    return f"{dataset.origin(start + at[0])}: {column}{element}", values[at]


def _format_others(invalid: np.ndarray) -> str:
    others = int(invalid.sum()) - 1
    return f" (and {others:,} more)" if others else ""


def warn_of_small_split(dataset: Dataset, fraction: float) -> None:
    """Issue a DataWarning for a ``validation_split`` of less than one sample, where one validates all the same."""
    count = len(dataset)
    if count * fraction < 1:
        warn_user(
            f"{dataset.name}: validation_split {fraction:g} of {count} samples is less than one sample, and one "
            f"validates: give at least {math.ceil(1000 / count) / 1000:g}, or validation_data",
            DataWarning,
        )
