"""The encoding of a target column of a table: its scale, and the names of its classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from prototorch.data.tables.column_block import Scale

__all__ = ["TargetEncoding"]

MAX_CLASSES = 1 << 20


@dataclass(frozen=True)
class TargetEncoding:
    """A target column.

    Attributes:
        name: of the column; output: of the model, which learns it.
        scale: of its values in the loss, ``(value - shift) * factor``, of ``log`` after log(1 + value). The model's
            output is a scaled value, which predictions and metrics scale back.
        classes: the names of its classes, in label order; empty for values.
    """

    name: str
    output: str
    scale: Scale = "none"
    shift: float = 0.0
    factor: float = 1.0
    classes: tuple[str, ...] = ()

    def describe(self) -> str:
        """The scale in words."""
        of = " of log(1 + x)" if self.scale == "log" else ""
        names = ("from", "range") if self.scale == "minmax" else ("mean", "deviation")
        return (
            f"scale {self.scale} ({names[0]} {self.shift:.4g}, {names[1]} {1 / self.factor:.4g}{of}) in the loss of "
            f"{self.output!r}; predictions and metrics are in its own unit"
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values; fields with their defaults are left out."""
        items = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {**items, "classes": list(self.classes)} if self.classes else items

    @staticmethod
    def from_json(value: object) -> TargetEncoding:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        if not isinstance(value, Mapping) or not {"name", "output"} <= set(value):
            raise ValueError("a target of a table must have name and output")
        if not set(value) <= {f.name for f in fields(TargetEncoding)}:
            raise ValueError("a target of a table has an unknown field")
        classes = value.get("classes", [])
        if not isinstance(classes, list) or len(classes) > MAX_CLASSES or not all(isinstance(c, str) for c in classes):
            raise ValueError("the classes of a target must be a list of names")
        encoding = TargetEncoding(**{**value, "classes": tuple(classes)})
        numbers = (encoding.shift, encoding.factor)
        if not (
            isinstance(encoding.name, str)
            and isinstance(encoding.output, str)
            and encoding.scale in ("standard", "minmax", "log", "none")
            and all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers)
            and encoding.factor != 0
        ):
            raise ValueError("a target of a table has a value of another kind")
        return encoding
