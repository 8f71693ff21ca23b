"""What was learned of one column of a table: how its values become elements of an input."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import numpy as np

from prototorch.data.tables.column_block import Column, DatePart, Scale
from prototorch.data.tables.typed_values import FALSE_WORDS, TRUE_WORDS, TypedValues, ValueType, parse_date
from prototorch.errors import DataError

__all__ = ["ColumnEncoding", "fit_column"]

Origin = Callable[[int], str]
_ONE_HOT_PARTS = {"month": 12, "weekday": 7}
MAX_CATEGORIES = 1 << 20
DAY = 86400.0


@dataclass(frozen=True)
class ColumnEncoding:
    """How a column becomes elements of an input, by the rows of its training.

    Attributes:
        name: of the column; type: of its values; input: of the model, which reads it.
        is_index: whether a category is its number (0: any that the training has not seen, or that is rare), for an
            input of integers; else it has an element of its own.
        missing: "fill", "indicator", "drop" or "error"; fill: what a gap becomes, a number (of a date seconds since
            1970), or a category; None for "drop", "error" and an indicator of categories.
        scale: of its numbers; scaling: shift and factor of each of them, (value - shift) * factor.
        categories: in the order of their elements; others: the number of training rows with other ones, which share an
            element.
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
    rows: int = 0
    gaps: int = 0

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
        if self.type == "category":
            if self.is_index:
                return [self.name]
            others = ["other"] if self.others else []
            gap = ["missing"] if self.missing == "indicator" else []
            return [f"{self.name}={word}" for word in (*self.categories, *others, *gap)]
        if self.type == "date":
            names = []
            for part in self.parts:
                count = _ONE_HOT_PARTS.get(part)
                names += [f"{self.name}.{part}"] if count is None else [f"{self.name}.{part}={i}" for i in range(count)]
        else:
            names = [self.name]
        return [*names, f"{self.name} missing"] if self.missing == "indicator" else names

    def unseen(self, values: TypedValues) -> np.ndarray:
        """True where a category is one that the training has not seen, or that was rare there [rows]."""
        seen_words = {*self.categories, None}
        if values.words is None:
            return np.zeros(0, bool)
        return np.fromiter((word not in seen_words for word in values.words), bool, len(values.words))

    def encode(self, values: TypedValues, origin: Origin) -> np.ndarray:
        """The elements, float32 [rows, width], or int32 [rows, 1] of indices. Gaps that are an error, and rows that are
        to be left out, are those of the caller.

        origin: of the row with this index. Raises DataError for a number that ``scale: log`` does not take.
        """
        gaps = values.gaps()
        if self.type == "category":
            return self._encode_words(values, gaps)
        assert values.numbers is not None
        numbers = values.numbers
        if gaps.any():
            numbers = np.where(gaps, float(self.fill) if self.fill is not None else 0.0, numbers)
        parts = _date_parts(numbers, self.parts, self.first_date) if self.type == "date" else {"": numbers}
        scaling, columns = iter(self.scaling), []
        for part, array in parts.items():
            if part in _ONE_HOT_PARTS:
                columns += [array == i for i in range(_ONE_HOT_PARTS[part])]
                continue
            if self.scale == "log":
                array = _log(array, origin)
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
        if not isinstance(scaling, list) or len(scaling) > len(get_args(DatePart)):
            raise ValueError("scaling must be a list of pairs")
        items["scaling"] = tuple(_read_pair(pair) for pair in scaling)
        encoding = ColumnEncoding(**items)
        encoding._check()
        return encoding

    def _check(self) -> None:
        """Raise ValueError for fields of other types or values."""
        texts = (self.name, self.input, self.type, self.missing, self.scale)
        numbers = (self.others, self.rows, self.gaps)
        is_valid = (
            all(isinstance(text, str) for text in texts)
            and self.type in get_args(ValueType)
            and self.missing in ("fill", "indicator", "drop", "error")
            and self.scale in ("standard", "minmax", "log", "none")
            and isinstance(self.is_index, bool)
            and (not self.is_index or self.type == "category")
            and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**53 for n in numbers)
            and _is_finite(self.first_date)
            and (self.date_format is None or isinstance(self.date_format, str))
            and set(self.parts) <= set(get_args(DatePart))
            and len(set(self.categories)) == len(self.categories)
            and (
                self.fill is None or (isinstance(self.fill, str) if self.type == "category" else _is_finite(self.fill))
            )
        )
        if is_valid and self.type != "category":
            count = sum(part not in _ONE_HOT_PARTS for part in self.parts) if self.type == "date" else 1
            is_valid = len(self.scaling) == (count if self.type != "boolean" else 0)
            is_valid = is_valid and (self.fill is not None or self.missing in ("drop", "error"))
        if not is_valid:
            raise ValueError(f"the column {self.name!r:.40} of a table has a value of another kind")


def fit_column(
    name: str, values: TypedValues, statement: Column, input_: str, is_index: bool, origin: Origin, label: str
) -> ColumnEncoding:
    """The encoding of a column by its training rows.

    name: of the column; values: of these rows. statement: with its ``missing`` and ``scale``. input_: of the model;
    is_index: whether it takes integers. origin: of the row with this index; label: of the column, for messages.
    Raises DataError for statements that the values do not go with, and gaps that nothing is said of.
    """
    gaps, type_ = values.gaps(), values.type
    count = int(gaps.sum())
    if count == len(gaps):
        raise DataError(f"{label}: has no value in the training rows; leave it out: type: ignore")
    if is_index and type_ != "category":
        raise DataError(
            f"{label}: its type is {type_}, and the input {input_!r} is made of integers, which are for categories: "
            "write type: category there, or another input"
        )
    policy, fill = _fill(values, statement.missing or "error", gaps, label)
    counts = {"rows": len(gaps), "gaps": count}
    common: dict[str, Any] = {"name": name, "type": type_, "input": input_, "missing": policy, **counts}
    if type_ == "category":
        assert values.words is not None
        words = [word for word in values.words if word is not None]
        if isinstance(fill, str):
            words += [fill] * count
        frequencies = Counter(words)
        categories = sorted(
            (w for w, n in frequencies.items() if n >= statement.min_count), key=lambda w: (-frequencies[w], w)
        )
        categories = sorted(categories[: statement.max_categories])
        if not categories:
            raise DataError(f"{label}: no category has min_count: {statement.min_count} training rows")
        others = sum(frequencies.values()) - sum(frequencies[w] for w in categories)
        return ColumnEncoding(**common, fill=fill, is_index=is_index, categories=tuple(categories), others=others)
    assert values.numbers is not None
    numbers = np.where(gaps, fill, values.numbers) if fill is not None else values.numbers[~gaps]
    numbers = numbers.astype(np.float64)
    if type_ == "boolean":
        return ColumnEncoding(**common, fill=fill)
    scale = statement.scale
    if type_ == "number":
        rows = np.flatnonzero(~gaps) if fill is None else np.arange(len(gaps))
        factors = _scaling(numbers, scale, lambda at: origin(int(rows[at])))
        return ColumnEncoding(**common, fill=fill, scale=scale, scaling=(factors,))
    if scale == "log":
        raise DataError(f"{label}: scale: log is for numbers, and these are dates")
    first_date = float(numbers.min())
    parts = tuple(statement.parts) or ("year", "month", "weekday", "elapsed")
    if not statement.parts and (numbers % DAY != 0).any():
        parts = ("year", "month", "weekday", "hour", "elapsed")
    arrays = _date_parts(numbers, parts, first_date)
    scaling = tuple(_scaling(array, scale, origin) for part, array in arrays.items() if part not in _ONE_HOT_PARTS)
    return ColumnEncoding(
        **common,
        fill=fill,
        scale=scale,
        scaling=scaling,
        date_format=statement.format,
        parts=parts,
        first_date=first_date,
    )


def _fill(values: TypedValues, missing: str | float, gaps: np.ndarray, label: str) -> tuple[str, float | str | None]:
    """What a gap becomes: "fill", "indicator", "drop" or "error", and the value."""
    if missing in ("drop", "error"):
        return str(missing), None
    type_ = values.type
    if type_ == "category":
        assert values.words is not None
        if missing == "indicator":
            return "indicator", None
        if missing in ("mean", "median"):
            raise DataError(f"{label}: missing: {missing} is for numbers, and these are categories: most_frequent")
        if missing == "most_frequent":
            return "fill", _most_frequent([word for word in values.words if word is not None])
        return "fill", str(int(missing)) if isinstance(missing, float) and missing.is_integer() else str(missing)
    assert values.numbers is not None
    present = values.numbers[~gaps]
    if type_ == "boolean" and missing in ("mean", "median"):
        raise DataError(f"{label}: missing: {missing} is for numbers, and these are true and false: most_frequent")
    if missing == "indicator":
        return "indicator", float(_most_frequent(present.tolist()) if type_ == "boolean" else present.mean())
    if missing in ("mean", "median"):
        return "fill", float(present.mean() if missing == "mean" else np.median(present))
    if missing == "most_frequent":
        return "fill", float(_most_frequent(present.tolist()))
    try:
        return "fill", _parse_fill(missing, type_)
    except ValueError:
        expected = {"date": "a date in quotes", "boolean": "true or false"}.get(type_, "a number")
        raise DataError(f"{label}: missing: {missing!r} is no value of a {type_}; expected {expected}") from None


def _parse_fill(missing: str | float, type_: ValueType) -> float:
    """A value that stands in a text in the origin of gaps. Raises ValueError for one of another type."""
    if type_ == "date":
        return parse_date(str(missing))
    if type_ == "boolean":
        word = str(int(missing)) if isinstance(missing, float) else missing.lower()
        if word not in TRUE_WORDS and word not in FALSE_WORDS:
            raise ValueError(word)
        return float(word in TRUE_WORDS)
    number = float(missing)
    if not math.isfinite(number):
        raise ValueError(missing)
    return number


def _most_frequent(values: list[Any]) -> Any:
    """The value that occurs most often; of several the smallest, as in scikit-learn."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def _scaling(numbers: np.ndarray, scale: Scale, origin: Origin) -> tuple[float, float]:
    """Shift and factor of numbers, (value - shift) * factor; those of a constant are made 0."""
    if scale == "none":
        return 0.0, 1.0
    if scale == "log":
        numbers = _log(numbers, origin)
    shift, extent = (
        (float(numbers.min()), float(np.ptp(numbers)))
        if scale == "minmax"
        else (float(numbers.mean()), float(numbers.std()))
    )
    return shift, 1.0 / extent if extent > 1e-12 * max(abs(shift), 1e-300) else 1.0


def _log(numbers: np.ndarray, origin: Origin) -> np.ndarray:
    wrong = np.flatnonzero(numbers <= -1)
    if len(wrong):
        raise DataError(
            f"{origin(int(wrong[0]))}: scale: log is log(1 + x), which needs numbers above -1; write scale: standard"
        )
    return np.log1p(numbers)


def _date_parts(seconds: np.ndarray, parts: tuple[DatePart, ...], first_date: float) -> dict[str, np.ndarray]:
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
