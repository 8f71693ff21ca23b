"""The encoding of a column of a table, which its training rows decide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from prototorch.data.tables.column_block import Column, Scale
from prototorch.data.tables.column_encoding import DAY, ONE_HOT_PARTS, ColumnEncoding, date_parts, log_numbers
from prototorch.data.tables.typed_values import FALSE_WORDS, TRUE_WORDS, TypedValues, ValueType, parse_date
from prototorch.data.words import split_words
from prototorch.errors import DataError

__all__ = ["fit_column", "fit_scaling"]

Origin = Callable[[int], str]
MAX_WORDS = 1000  # of texts that have an element, without a statement


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
    if is_index and type_ not in ("category", "text"):
        raise DataError(
            f"{label}: its type is {type_}, and the input {input_!r} is made of integers, which are for categories and "
            "texts: write type: category there, or another input"
        )
    policy, fill = _fill(values, "error" if statement.missing is None else statement.missing, gaps, label)
    counts = {"rows": len(gaps), "gaps": count}
    common: dict[str, Any] = {"name": name, "type": type_, "input": input_, "missing": policy, **counts}
    if type_ == "image" or (type_ == "text" and is_index):
        return ColumnEncoding(**common, fill=fill, is_index=is_index)
    if values.words is not None:
        cells = [cell for cell in values.words if cell is not None]
        if type_ == "text":
            return ColumnEncoding(**common, fill=fill, categories=_frequent_words(map(split_words, cells), statement))
        if type_ == "list":
            kind: dict[str, Any] = {"elements": "category", "separator": values.separator}
            categories, others = _frequent([word for cell in cells for word in set(cell)], statement, label)
            return ColumnEncoding(**common, **kind, categories=categories, others=others)
        categories, others = _frequent([*cells, *([fill] * count if isinstance(fill, str) else ())], statement, label)
        return ColumnEncoding(**common, fill=fill, is_index=is_index, categories=categories, others=others)
    assert values.numbers is not None
    if type_ == "list":
        return _fit_number_lists(values, statement, gaps, common, fill, origin)
    numbers = np.where(gaps, fill, values.numbers) if fill is not None else values.numbers[~gaps]
    numbers = numbers.astype(np.float64)
    if type_ == "boolean":
        return ColumnEncoding(**common, fill=fill)
    scale = statement.scale
    if type_ == "number":
        rows = np.flatnonzero(~gaps) if fill is None else np.arange(len(gaps))
        factors = fit_scaling(numbers, scale, lambda at: origin(int(rows[at])))
        return ColumnEncoding(**common, fill=fill, scale=scale, scaling=(factors,))
    if scale == "log":
        raise DataError(f"{label}: scale: log is for numbers, and these are dates")
    first_date = float(numbers.min())
    parts = tuple(statement.parts) or ("year", "month", "weekday", "elapsed")
    if not statement.parts and (numbers % DAY != 0).any():
        parts = ("year", "month", "weekday", "hour", "elapsed")
    arrays = date_parts(numbers, parts, first_date)
    scaling = tuple(fit_scaling(array, scale, origin) for part, array in arrays.items() if part not in ONE_HOT_PARTS)
    return ColumnEncoding(
        **common,
        fill=fill,
        scale=scale,
        scaling=scaling,
        date_format=statement.format,
        parts=parts,
        first_date=first_date,
    )


def _frequent(words: list[str], statement: Column, label: str) -> tuple[tuple[str, ...], int]:
    """The categories that have an element, sorted, and the number of occurrences of others."""
    frequencies = Counter(words)
    categories = sorted(
        (w for w, n in frequencies.items() if n >= statement.min_count), key=lambda w: (-frequencies[w], w)
    )
    categories = sorted(categories[: statement.max_categories])
    if not categories:
        raise DataError(f"{label}: no category has min_count: {statement.min_count} training rows")
    return tuple(categories), sum(frequencies.values()) - sum(frequencies[w] for w in categories)


def _frequent_words(texts: Iterable[list[str]], statement: Column) -> tuple[str, ...]:
    """The words of texts that have an element, those of most texts first."""
    counts = Counter(word for words in texts for word in set(words))
    words = sorted((w for w, n in counts.items() if n >= statement.min_count), key=lambda w: (-counts[w], w))
    return tuple(words[: statement.max_categories or MAX_WORDS])


def _fit_number_lists(
    values: TypedValues, statement: Column, gaps: np.ndarray, common: dict[str, Any], fill: Any, origin: Origin
) -> ColumnEncoding:
    assert values.numbers is not None
    rows = np.flatnonzero(~gaps)
    columns = values.numbers[rows].T
    scaling = tuple(fit_scaling(c, statement.scale, lambda at: origin(int(rows[at]))) for c in columns)
    kind: dict[str, Any] = {"elements": "number", "separator": values.separator, "size": len(columns)}
    return ColumnEncoding(**common, **kind, fill=fill, scale=statement.scale, scaling=scaling)


def _fill(values: TypedValues, missing: str | float, gaps: np.ndarray, label: str) -> tuple[str, float | str | None]:
    """The treatment of a gap, "fill", "indicator", "drop" or "error", and the value."""
    if missing in ("drop", "error"):
        return str(missing), None
    type_ = values.type
    if type_ == "image":
        raise DataError(f"{label}: a row without an image is left out with missing: drop, and has no other value")
    if type_ == "list" or (type_ == "text" and missing == "indicator"):
        return _fill_list(values, missing, label)
    if type_ == "text":
        if missing in ("mean", "median", "most_frequent"):
            raise DataError(f'{label}: missing: {missing} is not for texts; write a text, as missing: ""')
        return "fill", str(missing)
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


def _fill_list(values: TypedValues, missing: str | float, label: str) -> tuple[str, float | str | None]:
    """What a list or a text without a value becomes: an element that marks it, or a number in the place of each."""
    if values.numbers is None:
        if missing != "indicator":
            raise DataError(
                f"{label}: missing: {missing} is not for lists of categories; write indicator, drop or error"
            )
        return "indicator", None
    if missing == "indicator":
        return "indicator", 0.0
    if isinstance(missing, float):
        return "fill", missing
    raise DataError(f"{label}: missing: {missing} is not for lists; write a number, indicator, drop or error")


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


def fit_scaling(numbers: np.ndarray, scale: Scale, origin: Origin) -> tuple[float, float]:
    """Shift and factor of numbers, (value - shift) * factor; those of a constant are made 0."""
    if scale == "none":
        return 0.0, 1.0
    if scale == "log":
        numbers = log_numbers(numbers, origin)
    shift, extent = (
        (float(numbers.min()), float(np.ptp(numbers)))
        if scale == "minmax"
        else (float(numbers.mean()), float(numbers.std()))
    )
    return shift, 1.0 / extent if extent > 1e-12 * max(abs(shift), 1e-300) else 1.0
