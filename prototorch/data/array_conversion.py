"""Arrays in memory as a data set: what is given to ``fit(x, y, sample_weight)``, and named arrays out of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.data.dataset import ArrayDataset, as_column
from prototorch.errors import DataError

TARGET_NAMES = ("y", "label", "labels", "target", "targets")
WEIGHT_NAME = "sample_weight"
_SPLIT_PATTERN = re.compile(r"^(?:(?P<stem>.+?)[_/])?(?P<split>train|test|val|valid|validation)$|"
                    r"^(?P<split2>train|test|val|valid|validation)[_/](?P<stem2>.+)$")  # fmt: skip
_SPLIT_ALIASES = {"val": "validation", "valid": "validation"}


def as_dataset(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    name: str = "data",
) -> ArrayDataset:
    """A data set of arrays in memory, as ``fit`` takes them.

    Args:
        x: an array [n, ...]; for several inputs a list or tuple of them in order, or a dict by input name.
        y: likewise by outputs; None where there is nothing to learn (predict).
        sample_weight: an array [n], or None.
        inputs, outputs: the model's names. Columns are named after them; where a target would bear the name of an
            input it is called ``NAME_target``.

    Raises:
        DataError: wrong number or names of arrays, unequal rows, elements that are no numbers.
    """
    given = _arrays_by_name(x, inputs, "input", name)
    targets = {} if y is None else _arrays_by_name(y, outputs, "output", name)
    columns = dict(given)
    renamed = {n: f"{n}_target" if n in columns else n for n in targets}
    columns.update({renamed[n]: array for n, array in targets.items()})
    if sample_weight is not None:
        weights = as_column(sample_weight, WEIGHT_NAME, name)
        if weights.ndim != 1:
            raise DataError(f"{name}: sample_weight has shape {list(weights.shape)}; one number a sample is needed")
        columns[WEIGHT_NAME] = weights
    return ArrayDataset(
        columns,
        list(given),
        list(renamed.values()),
        weight=WEIGHT_NAME if sample_weight is not None else None,
        name=name,
    )


def datasets_from_arrays(
    arrays: Mapping[str, np.ndarray], name: str, labels: Sequence[str] = (), classes: Sequence[str] = ()
) -> dict[str, ArrayDataset]:
    """Data sets by part (``train``, ``validation``, ``test``) from the named arrays of a file.

    Names like ``x_train``, ``y_test``, ``train/x`` tell the part; without them all is ``train``. Targets are
    ``labels``, else those of y, label(s), target(s) that are there; ``sample_weight`` is the weight; the rest are
    inputs.

    Raises:
        DataError: no arrays, no inputs, a label that is not there, unequal rows.
    """
    parts: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        split, stem = _split_of(key)
        parts.setdefault(split, {})[stem] = array
    if not parts:
        raise DataError(f"{name}: holds no arrays")
    return {
        split: _make_dataset(columns, f"{name} ({split})" if len(parts) > 1 else name, labels, classes)
        for split, columns in parts.items()
    }


def _make_dataset(
    columns: dict[str, np.ndarray], name: str, labels: Sequence[str], classes: Sequence[str]
) -> ArrayDataset:
    for label in labels:
        if label not in columns:
            raise DataError(f"{name}: has no array {label!r} to learn; it has {', '.join(columns)}")
    targets = list(labels) or [word for word in TARGET_NAMES if word in columns]
    weight = WEIGHT_NAME if WEIGHT_NAME in columns and WEIGHT_NAME not in targets else None
    inputs = [column for column in columns if column not in targets and column != weight]
    if not inputs:
        inputs = targets  # a model that learns its own input
    known = {targets[0]: tuple(classes)} if classes and targets else {}
    return ArrayDataset(columns, inputs, targets, weight=weight, classes=known, name=name)


def _split_of(key: str) -> tuple[str, str]:
    match = _SPLIT_PATTERN.match(key)
    if match is None:
        return "train", key
    split = match["split"] or match["split2"]
    return _SPLIT_ALIASES.get(split, split), match["stem"] or match["stem2"] or "x"


def is_stream(x: Any) -> bool:
    """Whether ``x`` gives batches (an iterator, a function that makes one, a sequence of batches) and is no array."""
    if callable(x) or hasattr(x, "__next__"):
        return True
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and not (
        hasattr(x, "__array__") or isinstance(x, list | tuple | Mapping | str | bytes | bytearray | memoryview)
    )  # fmt: skip


def _arrays_by_name(given: Any, names: Sequence[str], kind: str, data: str) -> dict[str, np.ndarray]:
    if isinstance(given, Mapping):
        wrong = [str(n) for n in given if n not in names]
        missing = [n for n in names if n not in given]
        if wrong or missing:
            raise DataError(
                f"{data}: arrays are given for {', '.join(map(repr, given)) or 'nothing'}; "
                f"the model's {kind}s are {', '.join(map(repr, names))}"
            )
        return {n: as_column(given[n], n, data) for n in names}
    several = isinstance(given, list | tuple) and all(hasattr(g, "shape") for g in given) and len(given) > 0
    if len(names) == 1 and not (several and len(given) == 1):
        if several:
            raise DataError(
                f"{data}: {len(given)} arrays are given for the one {kind} {names[0]!r}; "
                "give one array [samples, ...] (np.stack makes one out of samples)"
            )
        return {names[0]: as_column(given, names[0], data)}
    if not isinstance(given, list | tuple) or len(given) != len(names):
        count = len(given) if isinstance(given, list | tuple) else 1
        raise DataError(
            f"{data}: {count} array{'s' if count != 1 else ''} for {len(names)} {kind}s ({', '.join(map(repr, names))})"
        )
    return {n: as_column(g, n, data) for n, g in zip(names, given, strict=True)}
