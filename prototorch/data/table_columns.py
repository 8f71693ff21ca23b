"""The names of the columns of a table that a model was trained on, as a saved model keeps them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prototorch.data.tables.table_encoding import TableEncoding

__all__ = ["TableColumns"]

MAX_COLUMNS = 1 << 20
Groups = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class TableColumns:
    """Names of columns. All are empty where the model was trained on columns without names.

    Attributes:
        features: of the columns that the one input of a model consists of, in its order.
        labels: of the columns that are the target of its one output.
        inputs: of a model with several inputs, those of each, by its name; outputs: likewise for several targets.
        encoding: how the columns of a table that is read by type become elements of the inputs; None for one of
            numbers, which are read as they are.
    """

    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    inputs: Groups = field(default_factory=dict)
    outputs: Groups = field(default_factory=dict)
    encoding: TableEncoding | None = None

    @property
    def has_features(self) -> bool:
        """Whether it names columns of an input."""
        return bool(self.features or self.inputs)

    @property
    def is_empty(self) -> bool:
        """Whether it names no columns."""
        return not (self.has_features or self.labels or self.outputs)

    def updated(self, other: TableColumns) -> TableColumns:
        """The names after a training on data with these other names; targets alone leave those of the inputs."""
        if other.is_empty:
            return self
        return other if other.has_features else replace(self, outputs=other.outputs or self.outputs)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the version of their form."""
        value = {"format": 1, "features": list(self.features), "labels": list(self.labels)}
        if not (self.inputs or self.outputs or self.encoding):
            return value
        groups = {kind: {n: list(c) for n, c in getattr(self, kind).items()} for kind in ("inputs", "outputs")}
        if self.encoding is None:
            return {**value, "format": 2, **groups}
        return {**value, "format": 3 if self.encoding.is_plain else 4, **groups, "encoding": self.encoding.to_json()}

    @staticmethod
    def from_json(value: object) -> TableColumns:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        if not isinstance(value, Mapping) or not {"format", "features", "labels"} <= set(value):
            raise ValueError("names of columns must have format, features and labels")
        if value["format"] not in (1, 2, 3, 4):
            raise ValueError(f"names of columns have the format {value['format']!r:.20}, this version reads 1 to 4")
        features, labels = (_read_names(value[kind], kind) for kind in ("features", "labels"))
        if value["format"] == 1:
            return TableColumns(features, labels)
        groups = []
        for kind in ("inputs", "outputs"):
            names = value.get(kind)
            if not isinstance(names, Mapping) or len(names) > MAX_COLUMNS:
                raise ValueError("inputs and outputs must be mappings of names to lists of names")
            groups.append({str(n): _read_names(columns, kind) for n, columns in names.items()})
        if value["format"] == 2:
            return TableColumns(features, labels, groups[0], groups[1])
        encodings = importlib.import_module("prototorch.data.tables.table_encoding")  # which most models do not need
        encoding = encodings.TableEncoding.from_json(value.get("encoding"))
        return TableColumns(features, labels, groups[0], groups[1], encoding)


def _read_names(names: object, kind: str) -> tuple[str, ...]:
    """A list of different names. Raises ValueError for anything else."""
    kinds = "features and labels" if kind in ("features", "labels") else "inputs and outputs"
    if not isinstance(names, list) or len(names) > MAX_COLUMNS or not all(isinstance(n, str) for n in names):
        raise ValueError(f"{kinds} must be lists of names")
    if sum(map(len, names)) > MAX_COLUMNS * 64 or len(set(names)) < len(names):
        raise ValueError(f"{kinds} must be lists of different names")
    return tuple(names)
