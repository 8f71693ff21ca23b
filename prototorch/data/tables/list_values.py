"""Cells that hold lists: numbers of one length, or any number of categories."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch.data.label_words import describe_word, is_number, parse_number
from prototorch.errors import DataError

__all__ = ["parse_lists"]

Origin = Callable[[int], str]
SEPARATORS = ("|", ";", ",", " ")
MAX_ELEMENTS = 1 << 20  # of a list
_GAPS = frozenset({"", "na", "n/a", "nan", "null", "#n/a"})


def parse_lists(
    values: np.ndarray, origin: Origin, separator: str | None, elements: str | None
) -> tuple[np.ndarray | None, np.ndarray | None, str | None]:
    """Lists as numbers, float64 [rows, n] with NaN for a gap, or as categories, tuples of texts [rows] with None for a
    gap; and what separates the elements.

    values: lists (tuples), or texts: ``[1, 2]``, or elements with a separator; None for a gap. separator: None: the
    first of ``| ; ,`` and a space that occurs. elements: "number", "category", or None: numbers where all are numbers
    and all lists have one length. Raises DataError for lists of numbers of several lengths, and other elements.
    """
    if separator is None:
        separator = _find_separator(values)
    rows = [_split(cell, separator, row, origin) for row, cell in enumerate(values)]
    present = [row for row in rows if row is not None]
    if elements is None:
        is_numeric = bool(present) and len({len(row) for row in present}) == 1 and len(present[0]) > 0
        is_numeric = is_numeric and all(is_number(word) for row in present for word in row)
        elements = "number" if is_numeric else "category"
    if elements == "category":
        words = np.empty(len(rows), object)
        for at, row in enumerate(rows):  # one by one: NumPy takes tuples of one length for an axis
            words[at] = row
        return None, words, separator
    length = len(present[0]) if present else 0
    numbers = np.full((len(rows), length), np.nan)
    for at, row in enumerate(rows):
        if row is None:
            continue
        if len(row) != length:
            raise DataError(
                f"{origin(at)}: has a list of {len(row)} numbers, expected {length} as in the rows before it; lists of "
                "categories are declared: elements: category"
            )
        for index, word in enumerate(row):
            numbers[at, index] = _parse(word, at, origin)
    return numbers, None, separator


def _parse(word: str, row: int, origin: Origin) -> float:
    try:
        number = parse_number(word)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise DataError(f"{origin(row)}: expected a list of numbers, got {describe_word(word)} in it")
    return number


def _find_separator(values: np.ndarray) -> str | None:
    texts = [cell for cell in values if isinstance(cell, str) and not cell.lstrip().startswith("[")]
    return next((mark for mark in SEPARATORS if any(mark in text.strip() for text in texts)), None)


def _split(cell: Any, separator: str | None, row: int, origin: Origin) -> tuple[str, ...] | None:
    """The elements of a cell as texts; None for a gap."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _GAPS):
        return None
    if not isinstance(cell, str):
        return _checked([_word(element, row, origin) for element in cell], row, origin)
    text = cell.strip()
    if text.startswith("["):
        try:
            items = json.loads(text)
        except (ValueError, RecursionError):
            raise DataError(f"{origin(row)}: expected a list as [1, 2, 3], got text that is no JSON") from None
        return _checked([_word(element, row, origin) for element in items], row, origin)
    parts = text.split() if separator == " " else [text] if separator is None else text.split(separator)
    return _checked([part.strip() for part in parts if part.strip()], row, origin)


def _checked(words: list[str], row: int, origin: Origin) -> tuple[str, ...]:
    if len(words) > MAX_ELEMENTS:
        raise DataError(f"{origin(row)}: has a list of {len(words):,} elements, more than {MAX_ELEMENTS:,}")
    return tuple(words)


def _word(element: Any, row: int, origin: Origin) -> str:
    """An element of a list as text; numbers without a fraction have no decimal point."""
    if isinstance(element, str):
        return element.strip()
    if isinstance(element, bool | np.bool_):
        return "true" if element else "false"
    if isinstance(element, int | np.integer):
        return str(int(element))
    if isinstance(element, float | np.floating):
        return str(int(element)) if element.is_integer() else repr(float(element))
    raise DataError(f"{origin(row)}: expected a list of numbers or texts, got {type(element).__name__} in it")
