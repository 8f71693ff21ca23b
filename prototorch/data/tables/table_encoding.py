"""What was learned of the training rows of a table, by which every later table is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.data.tables.column_encoding import ColumnEncoding
from prototorch.data.tables.target_encoding import TargetEncoding

__all__ = ["TableEncoding"]

MAX_COLUMNS = 1 << 20
MAX_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class TableEncoding:
    """How the columns of a table are read.

    Attributes:
        columns: the encodings of those that a model reads, in the order of their elements.
        classes: the class names of its target, of the first of several, where these are texts.
        unread: the other columns of the training's table, which are not read.
        targets: the scales and class names of target columns that have them.
        weights: the column of the weights of the rows, if there is one.
    """

    columns: tuple[ColumnEncoding, ...]
    classes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    targets: tuple[TargetEncoding, ...] = ()
    weights: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether an older version reads it: no targets or weights, no texts, images and lists."""
        types = {one.type for one in self.columns}
        return not (self.targets or self.weights or types & {"text", "image", "list"})

    def target_classes(self, column: str) -> tuple[str, ...]:
        """The class names of a target column; empty for one of values."""
        return next((one.classes for one in self.targets if one.name == column), self.classes)

    def of_input(self, input_: str) -> list[ColumnEncoding]:
        """The columns that an input consists of."""
        return [one for one in self.columns if one.input == input_]

    def widths(self) -> dict[str, int]:
        """The number of elements of each input."""
        widths: dict[str, int] = {}
        for one in self.columns:
            widths[one.input] = widths.get(one.input, 0) + one.width
        return widths

    def to_json(self) -> dict[str, Any]:
        """As JSON values; targets and weights only where there are some."""
        value: dict[str, Any] = {
            "columns": [one.to_json() for one in self.columns],
            "classes": list(self.classes),
            "unread": list(self.unread),
        }
        if self.targets:
            value["targets"] = [one.to_json() for one in self.targets]
        return value if self.weights is None else {**value, "weights": self.weights}

    @staticmethod
    def from_json(value: object) -> TableEncoding:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        required = {"columns", "classes", "unread"}
        if not isinstance(value, Mapping) or not required <= set(value) <= required | {"targets", "weights"}:
            raise ValueError("what a table was read by must have columns, classes and unread")
        columns, classes, unread = value["columns"], value["classes"], value["unread"]
        if not isinstance(columns, list) or not 0 < len(columns) <= MAX_COLUMNS:
            raise ValueError("a table must have a list of columns")
        for names in (classes, unread):
            if not isinstance(names, list) or len(names) > MAX_COLUMNS or not all(isinstance(n, str) for n in names):
                raise ValueError("classes and unread must be lists of names")
        encodings = tuple(ColumnEncoding.from_json(one) for one in columns)
        if len({one.name for one in encodings}) < len(encodings):
            raise ValueError("the columns of a table must have different names")
        if sum(len(one.categories) for one in encodings) > MAX_ELEMENTS:
            raise ValueError(f"a table has more than {MAX_ELEMENTS:,} categories")
        targets, weights = value.get("targets", []), value.get("weights")
        if not isinstance(targets, list) or len(targets) > MAX_COLUMNS or not isinstance(weights, str | None):
            raise ValueError("targets of a table must be a list of columns, and weights a name")
        target_encodings = tuple(TargetEncoding.from_json(one) for one in targets)
        return TableEncoding(encodings, tuple(classes), tuple(unread), target_encodings, weights)

    def report(self) -> list[str]:
        """A line for each column: its type, its gaps and what they become, its scale, its elements."""
        rows = [_describe(one) for one in self.columns]
        rows += [(one.name, "target", one.describe()) for one in self.targets if one.scale != "none"]
        rows += [] if self.weights is None else [(self.weights, "weights", "the weight of each row in the loss")]
        widths = [max(len(row[at]) for row in rows) for at in range(2)]
        return [f"{name:{widths[0]}}  {type_:{widths[1]}}  {rest}" for name, type_, rest in rows]


MAX_LISTED = 6  # categories in a report


def _describe(one: ColumnEncoding) -> tuple[str, str, str]:
    parts = []
    if one.holds_categories and not one.fills_input:
        words = ", ".join(one.categories[:MAX_LISTED]) + (", ..." if len(one.categories) > MAX_LISTED else "")
        parts.append(f"{len(one.categories)} {'words' if one.type == 'text' else 'values'} ({words})")
        if one.others:
            parts.append(f"{one.others} rows with other values share one")
    if one.type == "date":
        parts.append(" ".join(one.parts))
    if one.type == "list" and one.elements == "number":
        parts.append(f"{one.size} numbers")
    if one.scaling:
        parts.append(f"scale {one.scale}{_describe_scaling(one)}")
    if one.gaps or one.missing != "error":
        parts.append(f"{one.gaps} of {one.rows} rows have a gap, {_describe_gaps(one)}")
    else:
        parts.append("no gaps")
    if one.fills_input:
        parts.append(f"{'the ids of its words are' if one.type == 'text' else 'its pixels are'} {one.input!r}")
    elif one.is_index:
        parts.append(f"an index from 0 to {one.count - 1} in {one.input!r} (0: any other value)")
    else:
        parts.append(f"{one.width} element{'s' * (one.width != 1)} of {one.input!r}")
    return one.name, one.type, "; ".join(parts)


def _describe_scaling(one: ColumnEncoding) -> str:
    if one.type != "number" or one.scale == "none":
        return ""
    shift, factor = one.scaling[0]
    names = {"standard": ("mean", "deviation"), "minmax": ("from", "range"), "log": ("mean", "deviation")}[one.scale]
    of = " of log(1 + x)" if one.scale == "log" else ""
    return f" ({names[0]} {shift:.4g}, {names[1]} {1 / factor:.4g}{of})"


def _describe_gaps(one: ColumnEncoding) -> str:
    if one.missing == "drop":
        return "which are left out"
    if one.missing == "indicator" and one.fill is None:
        return "which have an element of their own"
    if one.missing == "error":
        return "an error"
    if one.type == "list" and one.missing == "indicator":
        return "which have an element of their own"
    fill = f"{one.fill:.6g}" if isinstance(one.fill, float) else str(one.fill)
    if one.type == "boolean":
        fill = "true" if one.fill else "false"
    return f"read as {fill}{' and marked' if one.missing == 'indicator' else ''}"


def list_names(names: Sequence[str], count: int = 12) -> str:
    """Names for a message, the first ``count`` of them."""
    return ", ".join(map(repr, names[:count])) + (", ..." if len(names) > count else "")
