"""What was learned of one column of a table: how its values become elements of an input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import numpy as np

from prototorch.data.tables.column_block import DatePart, Scale
from prototorch.data.tables.typed_values import TypedValues, ValueType
from prototorch.data.words import split_words
from prototorch.errors import DataError

__all__ = ["DAY", "ONE_HOT_PARTS", "ColumnEncoding", "date_parts", "log_numbers"]

Origin = Callable[[int], str]
ONE_HOT_PARTS = {"month": 12, "weekday": 7}
MAX_CATEGORIES = 1 << 20
DAY = 86400.0


@dataclass(frozen=True)
class ColumnEncoding:
    """How a column becomes elements of an input, by the rows of its training.

    Attributes:
        name: of the column; type: of its values; input: of the model, which reads it.
        is_index: whether a category is its number (0: any that the training has not seen, or that is rare), for an
            input of integers; else it has an element of its own. Of a text whether it is the ids of a tokenizer.
        missing: "fill", "indicator", "drop" or "error"; fill: what a gap becomes, a number (of a date seconds since
            1970), or a category; None for "drop", "error" and an indicator of categories.
        scale: of its numbers; scaling: shift and factor of each of them, (value - shift) * factor.
        categories: in the order of their elements; others: the number of training rows with other ones, which share an
            element. Of lists and texts these are their elements and words.
        elements: of a list, "number" or "category"; separator: of them in a text; size: the number of elements of a
            list of numbers.
        date_format: see `Column`; parts: what a date becomes; first_date: of the training, in seconds since 1970.
        rows, gaps: how many rows and gaps the training had.
    """

    name: str
    type: ValueType
    input: str
    is_index: bool = False
    missing: str = "error"
    fill: float | str | None = None
    scale: Scale = "none"
    scaling: tuple[tuple[float, float], ...] = ()
    categories: tuple[str, ...] = ()
    others: int = 0
    date_format: str | None = None
    parts: tuple[DatePart, ...] = ()
    first_date: float = 0.0
    elements: str | None = None
    separator: str | None = None
    size: int = 0
    rows: int = 0
    gaps: int = 0

    @property
    def fills_input(self) -> bool:
        """Whether it is an input by itself: an image, or the ids of a text."""
        return self.type == "image" or (self.type == "text" and self.is_index)

    @property
    def holds_categories(self) -> bool:
        """Whether its elements stand for categories or words."""
        return self.type in ("category", "text") or (self.type == "list" and self.elements == "category")

    @property
    def width(self) -> int:
        """The number of elements of the input that it becomes."""
        return len(self.element_names())

    @property
    def count(self) -> int:
        """The number of different indices of a category, for ``input_dim``."""
        return 1 + len(self.categories) + (self.missing == "indicator")

    def element_names(self) -> list[str]:
        """The elements of the input that it becomes: ``age``, ``town=Oslo``, ``sold.year``."""
        names: list[str]
        if self.fills_input or self.holds_categories:
            if self.is_index or self.fills_input:
                return [self.name]
            others = ["other"] if self.others else []
            gap = ["missing"] if self.missing == "indicator" else []
            return [f"{self.name}={word}" for word in (*self.categories, *others, *gap)]
        if self.type == "date":
            names = []
            for part in self.parts:
                count = ONE_HOT_PARTS.get(part)
                names += [f"{self.name}.{part}"] if count is None else [f"{self.name}.{part}={i}" for i in range(count)]
        elif self.type == "list":
            names = [f"{self.name}[{i}]" for i in range(self.size)]
        else:
            names = [self.name]
        return [*names, f"{self.name} missing"] if self.missing == "indicator" else names

    def unseen(self, values: TypedValues) -> np.ndarray:
        """True where a category is one that the training has not seen, or that was rare there [rows]."""
        seen_words = {*self.categories, None}
        if values.words is None or not self.holds_categories or self.type == "text":
            return np.zeros(0, bool)
        if self.type == "list":
            lists = ((word for word in row or ()) for row in values.words)
            return np.fromiter((any(w not in seen_words for w in row) for row in lists), bool, len(values.words))
        return np.fromiter((word not in seen_words for word in values.words), bool, len(values.words))

    def encode(self, values: TypedValues, origin: Origin) -> np.ndarray:
        """The elements, float32 [rows, width], or int32 [rows, 1] of indices. Gaps that are an error, and rows that are
        to be left out, are those of the caller.

        origin: of the row with this index. Raises DataError for a number that ``scale: log`` does not take.
        """
        gaps = values.gaps()
        if self.type == "category":
            return self._encode_words(values, gaps)
        if self.holds_categories:
            return self._encode_word_lists(values)
        assert values.numbers is not None
        numbers = values.numbers
        if gaps.any():
            fill = float(self.fill) if self.fill is not None else 0.0
            numbers = np.where(gaps if numbers.ndim == 1 else gaps[:, None], fill, numbers)
        parts = date_parts(numbers, self.parts, self.first_date) if self.type == "date" else {"": numbers}
        if self.type == "list":
            if numbers.shape[1] != self.size and not gaps.all():
                row = int(np.flatnonzero(~gaps)[0])
                raise DataError(
                    f"{origin(row)}: has a list of {numbers.shape[1]} numbers, expected {self.size} as in the training"
                )
            numbers = np.broadcast_to(numbers[:, :1], (len(gaps), self.size)) if gaps.all() else numbers
            parts = {f"{index}": column for index, column in enumerate(numbers.T)}
        scaling, columns = iter(self.scaling), []
        for part, array in parts.items():
            if part in ONE_HOT_PARTS:
                columns += [array == i for i in range(ONE_HOT_PARTS[part])]
                continue
            if self.scale == "log":
                array = log_numbers(array, origin)
            shift, factor = next(scaling, (0.0, 1.0))
            columns.append((array - shift) * factor)
        if self.missing == "indicator":
            columns.append(gaps)
        return np.stack(columns, 1).astype(np.float32)

    def _encode_words(self, values: TypedValues, gaps: np.ndarray) -> np.ndarray:
        assert values.words is not None
        index: dict[Any, int] = {word: 1 + at for at, word in enumerate(self.categories)}
        index[None] = 1 + len(self.categories) if self.missing == "indicator" else index.get(self.fill, 0)
        indices = np.fromiter((index.get(word, 0) for word in values.words), np.int32, len(values.words))
        if self.is_index:
            return indices[:, None]
        width = self.width
        places = np.full(self.count, -1)  # the element of each index; -1: all are 0
        places[1 : 1 + len(self.categories)] = np.arange(len(self.categories))
        places[0] = len(self.categories) if self.others else -1
        if self.missing == "indicator":
            places[-1] = width - 1
        elements = np.zeros((len(indices), width), np.float32)
        at = places[indices]
        rows = np.flatnonzero(at >= 0)
        elements[rows, at[rows]] = 1
        return elements

    def _encode_word_lists(self, values: TypedValues) -> np.ndarray:
        """1 where a list or a text has a category or word, float32 [rows, width]."""
        assert values.words is not None
        places = {word: at for at, word in enumerate(self.categories)}
        other = len(places) if self.others else None
        elements = np.zeros((len(values.words), self.width), np.float32)
        for row, cell in enumerate(values.words):
            if cell is None and self.missing == "indicator":
                elements[row, -1] = 1
            cell = self.fill if cell is None else cell
            words = split_words(cell) if isinstance(cell, str) else cell
            for word in words if isinstance(words, list | tuple) else ():
                place = places.get(word, other)
                if place is not None:
                    elements[row, place] = 1
        return elements

    def to_json(self) -> dict[str, Any]:
        """As JSON values; fields with their defaults are left out."""
        items = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        items.update({name: list(items[name]) for name in ("categories", "parts") if name in items})
        return {**items, **({"scaling": [list(pair) for pair in self.scaling]} if self.scaling else {})}

    @staticmethod
    def from_json(value: object) -> ColumnEncoding:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        if not isinstance(value, Mapping) or not {"name", "type", "input"} <= set(value):
            raise ValueError("a column of a table must have name, type and input")
        names = {f.name for f in fields(ColumnEncoding)}
        if not set(value) <= names:
            raise ValueError(f"a column of a table has the unknown field {sorted(set(value) - names)[0]!r:.40}")
        items = {**value}
        for name in ("categories", "parts"):
            items[name] = _read_words(items.get(name, []), name)
        scaling = items.get("scaling", [])
        if not isinstance(scaling, list) or len(scaling) > MAX_CATEGORIES:
            raise ValueError("scaling must be a list of pairs")
        items["scaling"] = tuple(_read_pair(pair) for pair in scaling)
        encoding = ColumnEncoding(**items)
        encoding._check()
        return encoding

    def _check(self) -> None:
        """Raise ValueError for fields of other types or values."""
        texts = (self.name, self.input, self.type, self.missing, self.scale)
        numbers = (self.others, self.rows, self.gaps, self.size)
        is_valid = (
            all(isinstance(text, str) for text in texts)
            and self.type in get_args(ValueType)
            and self.missing in ("fill", "indicator", "drop", "error")
            and self.scale in ("standard", "minmax", "log", "none")
            and isinstance(self.is_index, bool)
            and (not self.is_index or self.type in ("category", "text"))
            and (self.elements in ("number", "category")) == (self.type == "list")
            and (self.separator is None or (isinstance(self.separator, str) and self.type == "list"))
            and (self.size == 0 or self.elements == "number")
            and self.size <= MAX_CATEGORIES
            and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**53 for n in numbers)
            and _is_finite(self.first_date)
            and (self.date_format is None or isinstance(self.date_format, str))
            and set(self.parts) <= set(get_args(DatePart))
            and len(set(self.categories)) == len(self.categories)
            and (
                self.fill is None
                or (isinstance(self.fill, str) if self.type in ("category", "text") else _is_finite(self.fill))
            )
        )
        if is_valid and not self.holds_categories and not self.fills_input:
            dated = sum(part not in ONE_HOT_PARTS for part in self.parts)
            counts = {"date": dated, "boolean": 0, "list": self.size}
            is_valid = len(self.scaling) == counts.get(self.type, 1)
            is_valid = is_valid and (self.fill is not None or self.missing in ("drop", "error"))
        if not is_valid:
            raise ValueError(f"the column {self.name!r:.40} of a table has a value of another kind")


def log_numbers(numbers: np.ndarray, origin: Origin) -> np.ndarray:
    wrong = np.flatnonzero(numbers <= -1)
    if len(wrong):
        raise DataError(
            f"{origin(int(wrong[0]))}: scale: log is log(1 + x), which needs numbers above -1; write scale: standard"
        )
    return np.log1p(numbers)


def date_parts(seconds: np.ndarray, parts: tuple[DatePart, ...], first_date: float) -> dict[str, np.ndarray]:
    """What dates [rows] become, by part; months and weekdays (Monday: 0) count from 0."""
    days = np.floor(seconds / DAY).astype(np.int64).astype("datetime64[D]")
    months = days.astype("datetime64[M]").astype(np.int64)
    values = {
        "year": lambda: (months // 12 + 1970).astype(np.float64),
        "month": lambda: months % 12,
        "weekday": lambda: (days.astype(np.int64) + 3) % 7,  # 1970-01-01 was a Thursday
        "hour": lambda: (seconds % DAY) / 3600,
        "elapsed": lambda: (seconds - first_date) / DAY,
    }
    return {part: values[part]() for part in parts}


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_words(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_CATEGORIES or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{name} must be a list of texts")
    return tuple(value)


def _read_pair(pair: object) -> tuple[float, float]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_finite, pair)):
        raise ValueError("scaling must be a list of pairs of numbers")
    return float(pair[0]), float(pair[1])
