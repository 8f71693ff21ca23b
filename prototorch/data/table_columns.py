"""The names of the columns of a table that a model was trained on, as a saved model keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["TableColumns"]

MAX_COLUMNS = 1 << 20


@dataclass(frozen=True)
class TableColumns:
    """Names of columns: of those that an input consists of, in its order, and of the targets.

    Both are empty where the model was trained on columns without names.
    """

    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the version of their form."""
        return {"format": 1, "features": list(self.features), "labels": list(self.labels)}

    @staticmethod
    def from_json(value: object) -> TableColumns:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        if not isinstance(value, Mapping) or not {"format", "features", "labels"} <= set(value):
            raise ValueError("names of columns must have format, features and labels")
        if value["format"] != 1:
            raise ValueError(f"names of columns have the format {value['format']!r:.20}, this version reads 1")
        for names in (value["features"], value["labels"]):
            if not isinstance(names, list) or len(names) > MAX_COLUMNS or not all(isinstance(n, str) for n in names):
                raise ValueError("features and labels must be lists of names")
            if sum(map(len, names)) > MAX_COLUMNS * 64 or len(set(names)) < len(names):
                raise ValueError("features and labels must be lists of different names")
        return TableColumns(tuple(value["features"]), tuple(value["labels"]))
