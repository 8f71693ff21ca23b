"""Conversion of arrays to data sets: the arguments ``fit(x, y, sample_weight)``, and the named arrays of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.data.columns import as_column
from prototorch.data.dataset import ArrayDataset
from prototorch.errors import DataError

__all__ = ["as_dataset", "datasets_from_arrays", "is_stream"]

TARGET_NAMES = ("y", "label", "labels", "target", "targets")
WEIGHT_NAME = "sample_weight"
_SPLIT_PATTERN = re.compile(
    r"^(?:(?P<stem>.+?)[_/])?(?P<split>train|test|val|valid|validation)$|"
    r"^(?P<split2>train|test|val|valid|validation)[_/](?P<stem2>.+)$"
)
_SPLIT_ALIASES = {"val": "validation", "valid": "validation"}


def as_dataset(
    x: object,
    y: object = None,
    sample_weight: object = None,
    *,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    name: str = "data",
) -> ArrayDataset:
    """A data set of the arrays that ``fit`` accepts.

    Args:
        x: an array [n, ...]; for several inputs a list or tuple in their order, or a dict by input name.
        y: likewise for the outputs; None if there is nothing to learn (predict).
        sample_weight: an array [n], or None.
        inputs, outputs: the model's names, which become the names of the columns. A target with the name of an input
            is called ``NAME_target``.
        name: for messages.

    Raises:
        DataError: wrong number or names of arrays, different numbers of rows, elements that are not numbers.
    """
    columns = _arrays_by_name(x, inputs, "input", name)
    input_names = list(columns)
    targets = {} if y is None else _arrays_by_name(y, outputs, "output", name)
    target_names = {n: f"{n}_target" if n in columns else n for n in targets}
    columns.update({target_names[n]: array for n, array in targets.items()})
    if sample_weight is not None:
        weights = as_column(sample_weight, WEIGHT_NAME, name)
        if weights.ndim != 1:
            raise DataError(f"{name}: sample_weight has shape {list(weights.shape)}, expected one number per sample")
        columns[WEIGHT_NAME] = weights
    return ArrayDataset(
        columns,
        input_names,
        list(target_names.values()),
        weight=WEIGHT_NAME if sample_weight is not None else None,
        name=name,
    )


def datasets_from_arrays(
    arrays: Mapping[str, np.ndarray], name: str, labels: Sequence[str] = (), classes: Sequence[str] = ()
) -> dict[str, ArrayDataset]:
    """Data sets by split (``train``, ``validation``, ``test``) from the named arrays of a file.

    Names like ``x_train``, ``y_test``, ``train/x`` name the split; other arrays belong to ``train``. The targets are
    ``labels``, by default the arrays called y, label(s) or target(s); ``sample_weight`` is the weight; all other arrays
    are inputs.

    Raises:
        DataError: no arrays, no inputs, an unknown label, different numbers of rows.
    """
    splits: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        split, stem = _split_of(key)
        splits.setdefault(split, {})[stem] = array
    if not splits:
        raise DataError(f"{name}: has no arrays")
    return {
        split: _make_dataset(columns, f"{name} ({split})" if len(splits) > 1 else name, labels, classes)
        for split, columns in splits.items()
    }


def _make_dataset(
    columns: dict[str, np.ndarray], name: str, labels: Sequence[str], classes: Sequence[str]
) -> ArrayDataset:
    for label in labels:
        if label not in columns:
            raise DataError(f"{name}: has no array {label!r} to use as a target; it has {', '.join(columns)}")
    targets = list(labels) or [word for word in TARGET_NAMES if word in columns]
    weight = WEIGHT_NAME if WEIGHT_NAME in columns and WEIGHT_NAME not in targets else None
    inputs = [column for column in columns if column not in targets and column != weight]
    if not inputs:
        inputs = targets  # an autoencoder: the target is the input
    class_names = {targets[0]: tuple(classes)} if classes and targets else {}
    return ArrayDataset(columns, inputs, targets, weight=weight, classes=class_names, name=name)


def _split_of(key: str) -> tuple[str, str]:
    match = _SPLIT_PATTERN.match(key)
    if match is None:
        return "train", key
    split = match["split"] or match["split2"]
    return _SPLIT_ALIASES.get(split, split), match["stem"] or match["stem2"] or "x"


def is_stream(x: object) -> bool:
    """Whether ``x`` yields batches: an iterator, a function that returns one, or a sequence that is not an array."""
    if callable(x) or hasattr(x, "__next__"):
        return True
    return (
        hasattr(x, "__getitem__")
        and hasattr(x, "__len__")
        and not (
            hasattr(x, "__array__") or isinstance(x, list | tuple | Mapping | str | bytes | bytearray | memoryview)
        )
    )


def _arrays_by_name(arrays: object, names: Sequence[str], kind: str, data: str) -> dict[str, np.ndarray]:
    """Name -> array, from one array, a list or tuple in the order of ``names``, or a dict."""
    if isinstance(arrays, Mapping):
        if set(arrays) != set(names):
            raise DataError(
                f"{data}: arrays are given for {', '.join(map(repr, arrays)) or 'nothing'}; "
                f"the model's {kind}s are {', '.join(map(repr, names))}"
            )
        return {n: as_column(arrays[n], n, data) for n in names}
    sequence = arrays if isinstance(arrays, list | tuple) else None
    holds_arrays = sequence is not None and len(sequence) > 0 and all(hasattr(array, "shape") for array in sequence)
    if len(names) == 1 and not (sequence is not None and holds_arrays and len(sequence) == 1):
        if sequence is not None and holds_arrays:
            shapes = list(dict.fromkeys(str(list(array.shape)) for array in sequence))
            hint = "give one array [samples, ...] (np.stack makes one out of samples)"
            if len(shapes) > 1:
                hint = (
                    f"samples of different shapes ({', '.join(shapes[:3])}{', ...' if len(shapes) > 3 else ''}) must "
                    "be padded to one, or given as batches of equal shapes by a function that yields (x, y)"
                )
            raise DataError(f"{data}: {len(sequence)} arrays are given for the one {kind} {names[0]!r}; {hint}")
        return {names[0]: as_column(arrays, names[0], data)}
    if sequence is None or len(sequence) != len(names):
        count = 1 if sequence is None else len(sequence)
        raise DataError(
            f"{data}: {count} array{'s' if count != 1 else ''} for {len(names)} {kind}s ({', '.join(map(repr, names))})"
        )
    return {n: as_column(array, n, data) for n, array in zip(names, sequence, strict=True)}
