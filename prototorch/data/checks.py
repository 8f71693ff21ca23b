"""Checks of the data before the first step: what cannot be trained on is an error, what is suspicious a warning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.data.binding import BoundDataset, TargetSpec
from prototorch.data.dataset import Dataset
from prototorch.data.shuffling import philox
from prototorch.errors import DataError, warn_user

__all__ = ["DataWarning", "check_dataset", "check_overlap", "check_target", "check_validation_classes", "check_values"]

CHUNK_ELEMENTS = 1 << 24  # elements that are checked at a time
MAX_IMBALANCE = 100  # samples of the largest class by those of the smallest; more than this is noted
MIN_SAMPLES = 20  # sets of fewer samples get no notes
MIN_SAMPLES_PER_CLASS = 5  # with fewer on average, a class without samples is not noted
MAX_COMPARED_ROWS = 200_000  # larger sets are not searched for equal rows


class DataWarning(UserWarning):
    """Something about the data that is probably unintended."""


def check_dataset(
    dataset: BoundDataset, targets: Mapping[str, TargetSpec] | None = None, *, warn: bool = True
) -> list[str]:
    """Check what needs no decoding of the whole set: all columns in memory, and one sample of the others.

    Args:
        dataset: a set bound to the model, by `bind`.
        targets: output -> the target that its loss expects, as for `bind`.
        warn: whether to issue the notes as `DataWarning` too.

    Returns:
        Notes on suspicious data: only one class, classes without samples, strong imbalance, constant features.

    Raises:
        DataError: an empty set, labels out of range, targets that are not integers or not distributions, values
            that are not finite, columns that do not match their spec. The first one is reported with its row.
    """
    if len(dataset):
        _check_sample(dataset)
    check_values(dataset, targets or {})
    notes: list[str] = []
    for column in dataset.inputs:
        values = dataset.column_array(column)
        if values is not None:
            notes += _constant_notes(dataset, column, values)
    for output, target in (targets or {}).items():
        column = dataset.target_columns[output]
        values = dataset.column_array(column)
        if values is not None and target.kind == "classes":
            labels = values if target.ignored_class is None else values[values != target.ignored_class]
            notes += _class_notes(dataset, column, labels, target)
    notes = list(dict.fromkeys(notes))
    if warn:
        for note in notes:
            warn_user(note, DataWarning)
    return notes


def check_values(dataset: BoundDataset, targets: Mapping[str, TargetSpec]) -> None:
    """Check the values of all columns in memory. Arguments and errors are those of `check_dataset`."""
    if not len(dataset):
        raise DataError(f"{dataset.name}: the data set is empty")
    for column in dataset.inputs:
        values = dataset.column_array(column)
        if values is not None:
            check_finite(dataset, column, values)
    for output, target in targets.items():
        column = dataset.target_columns[output]
        values = dataset.column_array(column)
        if values is not None:
            check_target(dataset, column, values, target)
    if dataset.weight is not None:
        weights = dataset.column_array(dataset.weight)
        if weights is not None:
            _check_weights(dataset, dataset.weight, weights)


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
        for note in notes:
            warn_user(note, DataWarning)
    return notes


def check_validation_classes(
    train: BoundDataset, validation: BoundDataset, output: str, ignored_class: int | None = None
) -> None:
    """Warn if the labels of an output in the validation set have classes that the training set lacks.

    Only labels in memory are compared.
    """
    if output not in train.target_columns or output not in validation.target_columns:
        return
    known = train.column_array(train.target_columns[output])
    labels = validation.column_array(validation.target_columns[output])
    if known is None or labels is None or known.dtype.kind not in "iub" or labels.dtype.kind not in "iub":
        return
    missing = np.setdiff1d(labels, known)
    missing = missing[missing != ignored_class]
    if len(missing):
        examples = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        warn_user(
            f"{validation.name}: {len(missing)} of the classes of {output!r} occur in the validation data but not in "
            f"the training data ({examples}); are the data sorted by class?",
            DataWarning,
        )


def find_common_rows(a: np.ndarray, b: np.ndarray) -> list[int]:
    """The indices of the rows of ``b`` that are bit-identical to a row of ``a``. Both are [n, ...] of one dtype."""
    hashes_a, hashes_b = _hash_rows(a), _hash_rows(b)
    candidates = np.flatnonzero(np.isin(hashes_b, hashes_a))
    rows = {a[i].tobytes() for i in np.flatnonzero(np.isin(hashes_a, hashes_b[candidates]))}
    return [int(i) for i in candidates if b[i].tobytes() in rows]


def _hash_rows(rows: np.ndarray) -> np.ndarray:
    """A hash of each row, uint64 [n]: equal rows have equal hashes."""
    raw = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    words = raw.shape[1] // 8
    factors = philox(0, 0, stream=4).random_raw(words + 8) | np.uint64(1)
    hashes = raw[:, 8 * words :] @ factors[words : words + raw.shape[1] % 8]
    return hashes + raw[:, : 8 * words].view(np.uint64) @ factors[:words] if words else hashes


def _check_sample(dataset: Dataset) -> None:
    columns, _, errors = dataset.read_valid(np.array([0]))
    if errors:
        return  # the loader decides whether an unreadable sample is left out
    for name, spec in dataset.columns.items():
        array = columns.get(name)
        if array is None:
            raise DataError(f"{dataset.name}: read() returns no column {name!r}, which the set declares")
        if array.shape[1:] != spec.shape or array.dtype.name != spec.dtype:
            raise DataError(
                f"{dataset.origin(0)}: column {name!r} is {array.dtype}{list(array.shape[1:])}, the set declares {spec}"
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
        hint = ""
        if values.min() == 1 and values.max() == target.classes:
            hint = "; the labels seem to count from 1, but must count from 0"
        raise DataError(
            f"{where} is {int(value)}; the model has {target.classes} classes, 0 to {target.classes - 1}"
            f"{hint}{_format_others(invalid)}"
        )


def _check_weights(dataset: Dataset, column: str, values: np.ndarray) -> None:
    check_finite(dataset, column, values)
    invalid = values < 0
    if invalid.any():
        where, value = _first_invalid(dataset, column, values, invalid)
        raise DataError(f"{where} is {value}; a weight must not be negative{_format_others(invalid)}")
    if not values.any():
        raise DataError(f"{dataset.name}: all of {column} are zero")


def _class_notes(dataset: Dataset, column: str, values: np.ndarray, target: TargetSpec) -> list[str]:
    if len(values) < MIN_SAMPLES:
        return []
    classes = target.classes
    counts = np.bincount(values.astype(np.int64).ravel(), minlength=classes or 0)
    present = np.flatnonzero(counts)
    empty = [c for c in np.flatnonzero(counts == 0) if c != target.ignored_class]
    if len(present) == 1:
        return [f"{dataset.name}: all samples have the {column} {present[0]}: there is nothing to learn"]
    notes = []
    if classes and empty and len(values) >= MIN_SAMPLES_PER_CLASS * classes:
        examples = ", ".join(map(str, empty[:10]))
        notes.append(f"{dataset.name}: {len(empty)} of the {classes} classes have no samples (such as {examples})")
    largest, smallest = counts[present].max(), counts[present].min()
    if largest >= MAX_IMBALANCE * smallest:
        notes.append(
            f"{dataset.name}: class {counts.argmax()} has {largest:,} samples, class "
            f"{present[counts[present].argmin()]} has {smallest:,}; class_weight can compensate for it"
        )
    return notes


def _constant_notes(dataset: Dataset, column: str, values: np.ndarray) -> list[str]:
    if values.ndim != 2 or len(values) < MIN_SAMPLES:
        return []
    constant = np.flatnonzero((values == values[0]).all(axis=0))
    if not len(constant):
        return []
    return [
        f"{dataset.name}: {len(constant)} of the {values.shape[1]} elements of {column!r} are the same in every sample "
        f"(the first: element {constant[0]}, always {values[0, constant[0]]:g})"
    ]


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
