"""The values of a column by its type: cells of texts become numbers, categories, yes and no, or dates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np

from prototorch.data.label_words import DECIMAL_COMMA, MISSING, describe_word, is_number, number_hint, parse_number
from prototorch.data.tables.list_values import parse_lists
from prototorch.data.tables.raw_table import SECONDS
from prototorch.errors import DataError

__all__ = ["TypedValues", "ValueType", "guess_type", "is_gap", "parse_date", "parse_values", "to_words"]

ValueType = Literal["number", "category", "boolean", "date", "text", "image", "list"]
Origin = Callable[[int], str]

TRUE_WORDS, FALSE_WORDS = ("true", "yes", "1", "t", "y"), ("false", "no", "0", "f", "n")
_BOOLEAN_WORDS = frozenset({"true", "false", "yes", "no"})  # that are taken for yes and no without a statement
_TEXT_GAPS = frozenset({"", "na", "n/a", "nan", "null", "#n/a"})  # "none", "-" and the like may be categories
_ISO_DATE = re.compile(r"\d{4}[-/]\d{2}[-/]\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[-+]\d{2}:?\d{2})?)?", re.ASCII)
MAX_WORD = 1 << 16  # characters of a category


@dataclass(frozen=True)
class TypedValues:
    """The values of a column.

    Attributes:
        type: of the column.
        numbers: float64 [rows], NaN for a gap: numbers, 1 and 0 for yes and no, seconds since 1970 of dates; [rows, n]
            of lists of n numbers.
        words: the texts of categories, the texts themselves, the paths of images, and tuples of the categories of a
            list [rows], None for a gap; None for other types.
        separator: of the elements of lists that are texts.
    """

    type: ValueType
    numbers: np.ndarray | None = None
    words: np.ndarray | None = None
    separator: str | None = None

    def gaps(self) -> np.ndarray:
        """True where a row has no value [rows]."""
        if self.words is not None:
            return np.fromiter((word is None for word in self.words), bool, len(self.words))
        assert self.numbers is not None
        gaps = np.isnan(self.numbers)
        return gaps if gaps.ndim == 1 else gaps.any(1)

    def take(self, rows: np.ndarray) -> TypedValues:
        """The values of the rows with these indices."""
        numbers = None if self.numbers is None else self.numbers[rows]
        return replace(self, numbers=numbers, words=None if self.words is None else self.words[rows])


def is_gap(cell: str | None, is_text: bool = False) -> bool:
    """Whether a cell stands for no value. is_text: of a column of texts, in which fewer words do."""
    return cell is None or cell.strip().lower() in (_TEXT_GAPS if is_text else MISSING)


def guess_type(values: np.ndarray) -> ValueType | None:
    """The type of a column of a `RawTable` by its values; None for a column of gaps alone. Texts of which at least half
    are meant as numbers are a column of numbers."""
    kind = values.dtype.kind
    if kind == "b":
        return "boolean"
    if kind in "iuf":
        return "number" if kind != "f" or not np.isnan(values).all() else None
    if kind == "M":
        return "date" if not np.isnat(values).all() else None
    if any(isinstance(cell, tuple) for cell in values):
        return "list"
    present = [cell.strip() for cell in values if not is_gap(cell)]
    if not present:
        return None
    count = sum(is_number(cell) or bool(DECIMAL_COMMA.fullmatch(cell)) for cell in present)
    if 2 * count >= len(present):
        return "number"
    if all(_ISO_DATE.fullmatch(cell) for cell in present):
        return "date"
    return "boolean" if all(cell.lower() in _BOOLEAN_WORDS for cell in present) else "category"


def parse_values(
    values: np.ndarray,
    type_: ValueType,
    origin: Origin,
    date_format: str | None = None,
    separator: str | None = None,
    elements: str | None = None,
) -> TypedValues:
    """The values of a column of a `RawTable` as this type.

    origin: gives the file, line and column of the row with this index, for messages. date_format: how texts are written
    that are dates, as of strptime; None: 2024-01-31. separator, elements: of lists, see `parse_lists`. Raises DataError
    for a value of another type.
    """
    kind = values.dtype.kind
    has_lists = kind == "O" and any(isinstance(cell, tuple) for cell in values)
    if type_ == "list":
        if kind != "O":
            raise DataError(f"{origin(0)}: expected a list, got {_KINDS[kind]}; write another type")
        numbers, words, separator = parse_lists(values, origin, separator, elements)
        return TypedValues(type_, numbers, words, separator)
    if has_lists:
        raise DataError(f"{origin(0)}: expected {_EXPECTED[type_]}, got lists: write type: list")
    if type_ == "category":
        return TypedValues(type_, words=to_words(values, origin))
    if type_ in ("text", "image"):
        return TypedValues(type_, words=_to_texts(values, type_, origin))
    if type_ == "date" and kind == "M":
        numbers = values.astype("int64") / 1e6
        numbers[np.isnat(values)] = np.nan
        return TypedValues(type_, numbers)
    if type_ == "number" and kind in "iuf":
        numbers = values.astype(np.float64)
        infinite = np.flatnonzero(np.isinf(numbers))
        if len(infinite):
            raise DataError(f"{origin(int(infinite[0]))}: expected a finite number, got {numbers[infinite[0]]}")
        return TypedValues(type_, numbers)
    if type_ == "boolean" and kind in "biuf":
        numbers = values.astype(np.float64)
        wrong = np.flatnonzero(~(np.isnan(numbers) | (numbers == 0) | (numbers == 1)))
        if len(wrong):
            raise DataError(f"{origin(int(wrong[0]))}: expected 0, 1, true or false, got another number")
        return TypedValues(type_, numbers)
    if kind != "O":
        raise DataError(f"{origin(0)}: expected {_EXPECTED[type_]}, got {_KINDS[kind]}; write another type")
    parse = {"number": _parse_number, "boolean": _parse_boolean, "date": lambda cell: parse_date(cell, date_format)}[
        type_
    ]
    numbers = np.full(len(values), np.nan)
    for row, cell in enumerate(values):
        if is_gap(cell):
            continue
        try:
            numbers[row] = parse(cell.strip())
        except (ValueError, OverflowError):
            expected = _EXPECTED[type_] if date_format is None else f"a date written as {date_format!r}"
            hint = number_hint(cell) if type_ == "number" else ""
            if type_ == "date" and date_format is None:
                hint = '; another form is declared: format: "%d.%m.%Y"'
            raise DataError(f"{origin(row)}: expected {expected}, got {describe_word(cell)}{hint}") from None
    return TypedValues(type_, numbers)


_EXPECTED = {
    "number": "a number", "boolean": "true or false", "date": "a date as 2024-01-31", "category": "a text",
    "text": "a text", "image": "the path of an image",
}  # fmt: skip
_KINDS = {"b": "true and false", "i": "numbers", "u": "numbers", "f": "numbers", "M": "dates"}


def to_words(values: np.ndarray, origin: Origin) -> np.ndarray:
    """The values of a column as the texts of categories [rows], None for a gap. A number without a fraction has no
    decimal point, so that 3 of one file and 3.0 of another are one category."""
    words = np.empty(len(values), object)
    kind = values.dtype.kind
    if kind == "f":
        words[:] = [
            None if np.isnan(v) else str(int(v)) if np.isfinite(v) and v == int(v) else repr(float(v)) for v in values
        ]
    elif kind in "iu":
        words[:] = [str(int(v)) for v in values]
    elif kind == "b":
        words[:] = ["true" if v else "false" for v in values]
    elif kind == "M":
        words[:] = [None if np.isnat(v) else str(v.astype("datetime64[D]")) for v in values]
    else:
        at = next((row for row, cell in enumerate(values) if isinstance(cell, tuple)), None)
        if at is not None:
            raise DataError(f"{origin(at)}: expected a category, got a list: write type: list")
        words[:] = [None if is_gap(cell, is_text=True) else cell.strip() for cell in values]
        for row, word in enumerate(words):
            if word is not None and len(word) > MAX_WORD:
                raise DataError(f"{origin(row)}: expected a category, got a text of {len(word):,} characters")
    return words


def _to_texts(values: np.ndarray, type_: ValueType, origin: Origin) -> np.ndarray:
    """Texts, or the paths of images [rows], None for a gap."""
    if values.dtype.kind != "O":
        raise DataError(f"{origin(0)}: expected {_EXPECTED[type_]}, got {_KINDS[values.dtype.kind]}")
    texts = np.empty(len(values), object)
    texts[:] = [None if cell is None or not cell.strip() else cell for cell in values]
    return texts


def parse_date(cell: str, date_format: str | None = None) -> float:
    """A date in seconds since 1970, at UTC where the text has a time zone. Raises ValueError for another text."""
    if date_format is not None:
        date = datetime.strptime(cell, date_format)
    elif _ISO_DATE.fullmatch(cell):
        date = datetime.fromisoformat(cell.replace("/", "-"))
    else:
        raise ValueError(cell)
    offset = date.utcoffset()
    seconds = np.datetime64(date.replace(tzinfo=None), "us").astype(SECONDS).astype("int64") / 1e6
    return float(seconds) - (0.0 if offset is None else offset.total_seconds())


def _parse_number(cell: str) -> float:
    number = parse_number(cell)
    if not np.isfinite(number):
        raise ValueError(cell)
    return number


def _parse_boolean(cell: str) -> float:
    word = cell.lower()
    if word not in TRUE_WORDS and word not in FALSE_WORDS:
        raise ValueError(cell)
    return float(word in TRUE_WORDS)
