"""The values of a table as they are stored: texts, numbers, yes and no, or dates, by the name of the column."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prototorch.errors import DataError

__all__ = ["RawTable", "raw_column", "raw_table", "stored_values"]

SECONDS = "datetime64[us]"


@dataclass(frozen=True)
class RawTable:
    """Columns of one length.

    Attributes:
        name: of the table, for messages.
        columns: name -> values [rows]: texts (objects, None for a gap), numbers (NaN for a gap), booleans, or dates
            (datetime64[us], NaT for a gap), or lists (objects: tuples, None for a gap).
        lines: the line of the file on which each row ends, int64 [rows]; None where rows have no lines.
        folder: the folder of the file, which the paths of images are relative to; None: the working directory.
    """

    name: str
    columns: Mapping[str, np.ndarray]
    lines: np.ndarray | None = None
    folder: str | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def origin(self, row: int) -> str:
        """Where a row stands, for messages: the file with its line, or the table with the number of the row."""
        return f"{self.name}, row {row}" if self.lines is None else f"{self.name}, line {self.lines[row]}"

    def take(self, rows: np.ndarray) -> RawTable:
        """The rows with these indices."""
        lines = np.arange(len(self)) if self.lines is None else self.lines
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=None if self.lines is None else lines[rows])


def raw_table(columns: Iterator[tuple[str, Any]] | Sequence[tuple[str, Any]], name: str) -> RawTable:
    """A table of columns in memory; see `raw_column`. Raises DataError for columns of different lengths."""
    values = {column: raw_column(array, column, name) for column, array in columns}
    lengths = {column: len(array) for column, array in values.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{name}: its columns have different lengths: {lengths!r:.200}")
    return RawTable(name, values)


def raw_column(values: Any, column: str, name: str) -> np.ndarray:
    """The values of a column as `RawTable` keeps them.

    values: [rows]: an array of NumPy, also of objects, or a list. column, name: of the column and the table, for
    messages. Raises DataError for values of several kinds, or of another kind.
    """
    if isinstance(values, list | tuple):
        array = np.empty(len(values), object)
        for row, value in enumerate(values):  # one by one: NumPy takes lists of one length for an axis
            array[row] = value
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"{name}: the column {column!r} must be one value a row, got the shape {list(array.shape)}")
    kind = array.dtype.kind
    if kind in "biuf":
        return array
    if kind == "M":
        return array.astype(SECONDS)
    if kind in "UT":
        return array.astype(object)
    if kind != "O":
        raise DataError(f"{name}: the column {column!r} holds {array.dtype}, expected numbers, texts or dates")
    gaps = np.fromiter((_is_gap(value) for value in array), bool, len(array))
    present = array[~gaps]
    kinds = {_kind(value) for value in present}
    if len(kinds) > 1 or "other" in kinds:
        names = sorted({type(value).__name__ for value in present})
        raise DataError(
            f"{name}: the column {column!r} holds values of several kinds or of one that is not read "
            f"({', '.join(names)}); expected numbers, texts, dates, lists, or True and False"
        )
    if kinds == {"list"}:
        lists = np.empty(len(array), object)
        for row, (value, gap) in enumerate(zip(array, gaps, strict=True)):
            lists[row] = None if gap else tuple(value)
        return lists
    if kinds == {"date"}:
        return np.array([None if gap else _naive(value) for value, gap in zip(array, gaps, strict=True)], SECONDS)
    if kinds in ({"number"}, {"boolean"}):
        if kinds == {"boolean"} and not gaps.any():
            return present.astype(bool)
        if kinds == {"boolean"}:
            words = np.where(np.equal(array, True), "true", "false").astype(object)  # NaN has no place among booleans
            words[gaps] = None
            return words
        is_integer = not gaps.any() and all(isinstance(value, int | np.integer) for value in present)
        if is_integer and all(-(2**63) <= int(value) < 2**63 for value in present):
            return present.astype(np.int64)
        numbers = np.full(len(array), np.nan)
        numbers[~gaps] = present.astype(np.float64)
        return numbers
    texts = array.copy()
    texts[gaps] = None
    return texts


def stored_values(column: Any) -> Any:
    """The values of a column of pandas, polars, Arrow, or a dict: an array, or a list whose values keep their types."""
    type_ = getattr(column, "type", None)
    if type_ is not None and hasattr(type_, "index_type") and hasattr(type_, "value_type"):
        column = column.cast(type_.value_type)  # to_numpy takes gaps of Arrow's dictionaries for their first value
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def _is_gap(value: Any) -> bool:
    """Whether a value of an array of objects is none: None, NaN, or what other libraries have for it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, int | float | np.integer | np.floating) or type(value).__name__ == "Decimal":
        return "number"
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return "list"
    return "date" if isinstance(value, datetime.date | np.datetime64) else "other"  # a datetime is a date


def _naive(value: Any) -> Any:
    """A date without a time zone: at UTC where it has one."""
    if isinstance(value, datetime.datetime):
        value = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")
