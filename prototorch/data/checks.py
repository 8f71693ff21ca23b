"""Looking at the data before the first step: what would train to nonsense is an error, what is odd a note."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.data.binding import BoundDataset, TargetSpec
from prototorch.data.dataset import Dataset
from prototorch.data.shuffling import philox
from prototorch.errors import DataError

CHUNK_ELEMENTS = 1 << 24  # elements looked at in one piece
MAX_IMBALANCE = 100  # the largest class has this many times the samples of the smallest
MIN_SAMPLES = 20  # samples: with fewer nothing is called odd
MIN_SAMPLES_PER_CLASS = 5  # samples for each class: with fewer a class may well be missing
MAX_COMPARED_ROWS = 200_000  # of a set that is searched for equal rows


class DataWarning(UserWarning):
    """Something about the data that is probably not meant."""


def check_dataset(
    dataset: BoundDataset, targets: Mapping[str, TargetSpec] | None = None, *, warn: bool = True
) -> list[str]:
    """Check what can be checked without decoding the whole set: all columns in memory, and one sample of the others.

    Args:
        dataset: a set bound to the model (`bind`).
        targets: what the loss of each output wants, as given to `bind`.
        warn: also issue the notes as `DataWarning`.

    Returns:
        Notes about what is odd: one class only, classes without samples, strong imbalance, constant columns.

    Raises:
        DataError: an empty set, labels out of range, targets that are no whole numbers or no distributions,
            not-finite values, columns that are not what they declare. The first one is named with its row.
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
            counting = values if target.ignored_class is None else values[values != target.ignored_class]
            notes += _class_notes(dataset, column, counting, target)
    notes = list(dict.fromkeys(notes))
    if warn:
        for note in notes:
            warnings.warn(note, DataWarning, stacklevel=2)
    return notes


def check_values(dataset: BoundDataset, targets: Mapping[str, TargetSpec]) -> None:
    """Check the values of all columns in memory; for the arguments and errors see `check_dataset`."""
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
    """Check the values of one target [n, ...] (rows counted as in ``dataset``). Raises DataError naming the first."""
    check_finite(dataset, column, values)
    if target.kind == "classes":
        _check_labels(dataset, column, values, target)
    elif target.kind == "binary":
        bad = (values < 0) | (values > 1)
        if bad.any():
            where, value = _first_invalid(dataset, column, values, bad)
            raise DataError(f"{where} is {value}; {target.loss} wants numbers from 0 to 1{_count_others(bad)}")
    elif target.kind == "one_hot":
        sums = values.sum(axis=target.axis, dtype=np.float64)
        bad = (values < 0).any(axis=target.axis) | (abs(sums - 1) > 1e-3)
        if bad.any():
            where, value = _first_invalid(dataset, column, sums, bad)
            raise DataError(
                f"{where} is no distribution (its sum is {value:g}, none may be negative, the sum must be 1), "
                f"as {target.loss} wants{_count_others(bad)}"
            )


def check_finite(dataset: Dataset, column: str, values: np.ndarray) -> None:
    """Refuse NaN and infinity. Raises DataError naming the first with its row."""
    if values.dtype.kind != "f":
        return
    step = max(1, CHUNK_ELEMENTS // max(1, math.prod(values.shape[1:])))
    for begin in range(0, len(values), step):
        piece = values[begin : begin + step]
        finite = np.isfinite(piece)
        if not finite.all():
            where, value = _first_invalid(dataset, column, piece, ~finite, begin)
            raise DataError(f"{where} is {value}; the data must be finite numbers{_count_others(~finite)}")


def check_overlap(train: Dataset, validation: Dataset, *, warn: bool = True) -> list[str]:
    """Notes on samples that are in both sets (looked for only where both are in memory and not very large)."""
    notes: list[str] = []
    for column in set(train.inputs) & set(validation.inputs):
        a, b = train.column_array(column), validation.column_array(column)
        if a is None or b is None or max(len(a), len(b)) > MAX_COMPARED_ROWS or a.dtype != b.dtype or a[0].size < 8:
            continue
        found = find_common_rows(a, b)
        if len(found) > max(1, len(b) // 100):
            notes.append(
                f"{len(found):,} of the {len(b):,} validation samples are training samples too "
                f"(the first: {validation.origin(found[0])}); the validation result will be too good"
            )
    if warn:
        for note in notes:
            warnings.warn(note, DataWarning, stacklevel=2)
    return notes


def find_common_rows(a: np.ndarray, b: np.ndarray) -> list[int]:
    """The rows of ``b`` that are rows of ``a`` too, bit for bit: their numbers. Both [n, ...] of one type."""
    in_a, in_b = _hash_rows(a), _hash_rows(b)
    alike = np.flatnonzero(np.isin(in_b, in_a))
    known = {a[i].tobytes() for i in np.flatnonzero(np.isin(in_a, in_b[alike]))}
    return [int(i) for i in alike if b[i].tobytes() in known]


def _hash_rows(rows: np.ndarray) -> np.ndarray:
    """A number for each row, uint64 [n]: equal rows have equal ones, others hardly ever."""
    raw = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    words = raw.shape[1] // 8
    factors = philox(0, 0, stream=4).random_raw(words + 8) | np.uint64(1)
    found = raw[:, 8 * words :] @ factors[words : words + raw.shape[1] % 8]
    return found + raw[:, : 8 * words].view(np.uint64) @ factors[:words] if words else found


def _check_sample(dataset: Dataset) -> None:
    columns, _, wrong = dataset.read_valid(np.array([0]))
    if wrong:
        return  # the loader knows whether a sample that cannot be read is left out
    for name, spec in dataset.columns.items():
        got = columns.get(name)
        if got is None:
            raise DataError(f"{dataset.name}: reading gives no column {name!r}, which it declares")
        if got.shape[1:] != spec.shape or got.dtype.name != spec.dtype:
            raise DataError(
                f"{dataset.origin(0)}: column {name!r} is {got.dtype}{list(got.shape[1:])}, the set declares {spec}"
            )


def _check_labels(dataset: Dataset, column: str, values: np.ndarray, target: TargetSpec) -> None:
    if values.dtype.kind == "f":
        bad = values != np.floor(values)
        if bad.any():
            where, value = _first_invalid(dataset, column, values, bad)
            raise DataError(f"{where} is {value}; {target.loss} wants whole numbers, the classes{_count_others(bad)}")
    if target.classes is None:
        return
    bad = (values < 0) | (values >= target.classes)
    if target.ignored_class is not None:
        bad &= values != target.ignored_class
    if bad.any():
        where, value = _first_invalid(dataset, column, values, bad)
        hint = ""
        if values.min() == 1 and values.max() == target.classes:
            hint = "; the labels seem to count from 1, they must count from 0"
        raise DataError(
            f"{where} is {int(value)}; the model has {target.classes} classes, 0 to {target.classes - 1}"
            f"{hint}{_count_others(bad)}"
        )


def _check_weights(dataset: Dataset, column: str, values: np.ndarray) -> None:
    check_finite(dataset, column, values)
    bad = values < 0
    if bad.any():
        where, value = _first_invalid(dataset, column, values, bad)
        raise DataError(f"{where} is {value}; a weight may not be negative{_count_others(bad)}")
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
        missing = ", ".join(map(str, empty[:10]))
        notes.append(f"{dataset.name}: {len(empty)} of the {classes} classes have no samples (such as {missing})")
    most, least = counts[present].max(), counts[present].min()
    if most >= MAX_IMBALANCE * least:
        notes.append(
            f"{dataset.name}: class {counts.argmax()} has {most:,} samples, class "
            f"{present[counts[present].argmin()]} has {least:,}; class_weight can make up for it"
        )
    return notes


def _constant_notes(dataset: Dataset, column: str, values: np.ndarray) -> list[str]:
    if values.ndim != 2 or len(values) < MIN_SAMPLES:
        return []
    same = np.flatnonzero((values == values[0]).all(axis=0))
    if not len(same):
        return []
    return [
        f"{dataset.name}: {len(same)} of the {values.shape[1]} numbers in {column!r} are the same in every sample "
        f"(the first: number {same[0]}, always {values[0, same[0]]:g})"
    ]


def _first_invalid(
    dataset: Dataset, column: str, values: np.ndarray, bad: np.ndarray, begin: int = 0
) -> tuple[str, Any]:
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    inside = f"{list(place[1:])}" if len(place) > 1 else ""
    return f"{dataset.origin(begin + place[0])}: {column}{inside}", values[place]


def _count_others(bad: np.ndarray) -> str:
    others = int(bad.sum()) - 1
    return f" (and {others:,} more)" if others else ""
