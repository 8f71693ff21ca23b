"""Notes on data that are valid and probably unintended: classes without samples, copies, targets out of reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prototorch.data.binding import BoundDataset
from prototorch.data.pipeline.signature import TargetSpec
from prototorch.data.shuffling import philox

__all__ = ["find_common_rows", "find_dataset_notes"]

MAX_IMBALANCE = 100  # samples of the largest class by those of the smallest; more than this is noted
MIN_SAMPLES = 20  # sets of fewer samples get no notes
MIN_SAMPLES_PER_CLASS = 5  # with fewer on average, a class without samples is not noted
MIN_ROW_ELEMENTS = 8  # shorter rows may be equal by chance
MAX_ROWS, MAX_BYTES = 200_000, 1 << 26  # larger tables are not searched for copies
MAX_COPIES = 0.05  # share of samples that are copies of others; more than this is noted


def find_dataset_notes(dataset: BoundDataset, targets: Mapping[str, TargetSpec], training: bool = True) -> list[str]:
    """All notes on a set; only columns in memory are looked at. training: whether it is to be learned, so that the
    number of samples of each class, and targets that are all equal, are noted."""
    notes: list[str] = []
    sequences = dataset.sequence_lengths()  # of token ids: rare tokens, padding and equal texts are usual
    for column in dataset.inputs:
        values = dataset.column_array(column)
        if column in sequences:
            continue
        if values is not None and values.ndim == 2 and len(values) >= MIN_SAMPLES:
            notes += _constant_notes(dataset, column, values)
            notes += _copy_notes(dataset, values)
    for output, target in targets.items():
        column = dataset.target_columns[output]
        values = dataset.column_array(column)
        if training:
            notes += find_extra_classes(dataset, column, target)
        if values is None or not len(values) or column in sequences:
            continue
        if target.kind == "classes" and training:
            labels = values if target.ignored_class is None else values[values != target.ignored_class]
            notes += _class_notes(dataset, column, labels, target)
        elif target.kind == "values":
            notes += _value_notes(dataset, output, values, target, training)
    return list(dict.fromkeys(notes))


def find_extra_classes(dataset: BoundDataset, column: str, target: TargetSpec) -> list[str]:
    """The note on an output of more classes than its data have names for."""
    names, classes = dataset.classes.get(column, ()), target.classes
    if target.kind != "classes" or not classes or not 0 < len(names) < classes:
        return []
    listing = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return [
        f"{dataset.name}: the data have {len(names)} classes ({listing}), {target.layer or 'the output'} has "
        f"{classes}: write units: {len(names)}, the others are never right"
    ]


def _class_notes(dataset: BoundDataset, column: str, values: np.ndarray, target: TargetSpec) -> list[str]:
    if len(values) < MIN_SAMPLES:
        return []
    classes = target.classes
    counts = np.bincount(values.astype(np.int64).ravel(), minlength=classes or 0)
    present = np.flatnonzero(counts)
    empty = [c for c in np.flatnonzero(counts == 0) if c != target.ignored_class]
    if len(present) == 1:
        name = dataset.label_name(column, int(present[0]))
        return [f"{dataset.name}: all samples have the {column} {name}: there is nothing to learn"]
    notes = []
    if (
        classes
        and empty
        and not find_extra_classes(dataset, column, target)
        and len(values) >= MIN_SAMPLES_PER_CLASS * classes
    ):
        examples = ", ".join(dataset.label_name(column, int(c)) for c in empty[:10])
        hint = ": do the labels count from 1?" if empty == [0] else ""
        notes.append(
            f"{dataset.name}: {len(empty)} of the {classes} classes have no samples (such as {examples}){hint}"
        )
    largest, smallest = counts[present].max(), counts[present].min()
    if largest >= MAX_IMBALANCE * smallest:
        names = [dataset.label_name(column, int(c)) for c in (counts.argmax(), present[counts[present].argmin()])]
        notes.append(
            f"{dataset.name}: class {names[0]} has {largest:,} samples, class {names[1]} has {smallest:,}; "
            "class_weight: balanced in fit can compensate for it"
        )
    return notes


def _value_notes(
    dataset: BoundDataset, output: str, values: np.ndarray, target: TargetSpec, training: bool
) -> list[str]:
    low, high = float(values.min()), float(values.max())
    if training and low == high and len(values) >= MIN_SAMPLES:
        return [f"{dataset.name}: all targets of {output!r} are {low:g}: there is nothing to learn"]
    if low < target.loss_bounds[0]:
        return [
            f"{dataset.name}: the targets of {output!r} are from {low:g} to {high:g}, but {target.loss} is made for "
            f"targets of at least {target.loss_bounds[0]:g}: take another loss (mse, mae, huber), or change the targets"
        ]
    margin = 1e-3 * min(target.bounds[1] - target.bounds[0], 1.0)
    if low < target.bounds[0] - margin or high > target.bounds[1] + margin:
        return [
            f"{dataset.name}: the targets of {output!r} are from {low:g} to {high:g}, but {target.layer} ends with "
            f"{target.activation}, whose values lie between {target.bounds[0]:g} and {target.bounds[1]:g}: write "
            "activation: linear there, or scale the targets"
        ]
    return []


def _constant_notes(dataset: BoundDataset, column: str, values: np.ndarray) -> list[str]:
    constant = np.flatnonzero((values == values[0]).all(axis=0))
    if not len(constant) or dataset.is_encoded:
        return []
    return [
        f"{dataset.name}: {len(constant)} of the {values.shape[1]} elements of {column!r} are the same in every sample "
        f"(the first: element {constant[0]}, always {values[0, constant[0]]:g})"
    ]


def _copy_notes(dataset: BoundDataset, values: np.ndarray) -> list[str]:
    if values.shape[1] < MIN_ROW_ELEMENTS or len(values) > MAX_ROWS or values.nbytes > MAX_BYTES:
        return []
    _, first = np.unique(_hash_rows(values), return_index=True)
    copies = np.setdiff1d(np.arange(len(values)), first)
    if len(copies) <= MAX_COPIES * len(values):
        return []
    return [
        f"{dataset.name}: {len(copies):,} of the {len(values):,} samples are copies of others (the first: "
        f"{dataset.origin(int(copies[0]))})"
    ]


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
