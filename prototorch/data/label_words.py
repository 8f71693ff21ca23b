"""Labels as a text file writes them: numbers or class names; one rule for tables and lists of images."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from prototorch.errors import DataError, did_you_mean

__all__ = [
    "DECIMAL_COMMA",
    "GROUPED_NUMBER",
    "MISSING",
    "describe_word",
    "encode_labels",
    "is_number",
    "looks_like_data",
    "number_hint",
    "number_labels",
    "number_pattern",
    "parse_number",
]

SPACES = "\u00a0\u202f"  # that stand between thousands, too
MAX_NUMBER = 4096  # characters of a number
#: cells that stand for no value, in lower case
MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "missing", "?", "-", "--", ".", "#n/a")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+", re.ASCII)
GROUPED_NUMBER = re.compile(r"[-+]?\d{1,3}([,.' \u00a0\u202f]\d{3})+([.,]\d+)?", re.ASCII)


def encode_labels(
    words: Sequence[str], classes: Sequence[str], origin: Callable[[int], str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The labels [n] of n words, and the class names: int64 of integers and of class names, float32 of other numbers.

    Class names are numbered in the order of ``classes``, by default sorted. Words of which at least half (without
    missing values) are meant as numbers are not taken for class names.

    Args:
        words: without spaces around them.
        classes: the class names in label order; empty: those in the words, if they are not numbers.
        origin: gives the file and line of the word with this index, for messages.

    Raises:
        DataError: a missing label, one that is not a number among numbers, or not one of ``classes``.
    """
    are_numbers = [is_number(word) for word in words]
    if all(are_numbers) and not all(word in classes for word in words):
        values = number_labels(np.array([parse_number(word) for word in words]))
        if values.dtype == np.int64 or not classes:
            return values, tuple(classes) if values.dtype == np.int64 else ()
    if not classes and not all(are_numbers):
        _check_no_numbers(words, are_numbers, origin)
    names = tuple(classes) or tuple(sorted(set(words)))
    index = {name: label for label, name in enumerate(names)}
    for at, word in enumerate(words):
        if not word:
            raise DataError(f"{origin(at)}: the target is missing")
        if word not in index:
            raise DataError(
                f"{origin(at)}: expected one of the classes {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}, "
                f"got {describe_word(word)}.{did_you_mean(word, names)}"
            )
    return np.array([index[word] for word in words], np.int64), names


def number_labels(values: np.ndarray) -> np.ndarray:
    """Labels that are numbers [n]: int64 where all are integers, else float32."""
    are_integers = np.isfinite(values).all() and (values == np.floor(values)).all() and (abs(values) < 2**53).all()
    return values.astype(np.int64 if are_integers else np.float32)


def _check_no_numbers(words: Sequence[str], are_numbers: Sequence[bool], origin: Callable[[int], str]) -> None:
    """Raises DataError for the first word that is no number, where most words are meant as numbers."""
    present = [word for word in words if word.lower() not in MISSING]
    if 2 * sum(is_number(word) or bool(DECIMAL_COMMA.fullmatch(word)) for word in present) < max(len(present), 1):
        return
    at = are_numbers.index(False)
    what = f"expected a number, got {describe_word(words[at])}" if words[at] else "the target is missing"
    raise DataError(
        f"{origin(at)}: {what} (most of the labels are numbers; if they are class names, list them in "
        "data { classes: [...] })"
    )


def describe_word(word: str) -> str:
    """What a word or a cell holds, not quoted: the file may be of another kind, and errors go into logs."""
    text = word.strip()
    if not text:
        return "an empty cell"
    if text.lower() in MISSING:
        return f"{text!r}"
    if DECIMAL_COMMA.fullmatch(text):
        return "a number with a decimal comma"
    if GROUPED_NUMBER.fullmatch(text):
        return "a number with separated thousands"
    if is_number(text) and not math.isfinite(parse_number(text)):
        return "a number that is not finite"
    return f"{'a number' if is_number(text) else 'text'} of {len(text):,} character{'s' * (len(text) != 1)}"


def number_hint(cell: str) -> str:
    """The hint for a cell of a column of numbers that is none."""
    text = cell.strip()
    if DECIMAL_COMMA.fullmatch(text):
        return '; a comma is declared: data { decimal: "," }, or thousands: "," where 1,234 is more than a thousand'
    if GROUPED_NUMBER.fullmatch(text):
        return '; what separates thousands is declared: data { thousands: "," }'
    if is_number(text):
        return "; a value that is missing is an empty cell"
    return "; a column of texts is declared: type: category"


def number_pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """The numbers with this decimal point, and this between groups of three digits."""
    groups = (
        r"\d+" if thousands is None else rf"(\d+|\d{{1,3}}([{thousands}{SPACES if thousands == ' ' else ''}]\d{{3}})+)"
    )
    return re.compile(rf"[-+]?({groups}({re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)([eE][-+]?\d+)?", re.ASCII)


def looks_like_data(cell: str) -> bool:
    """Whether a cell holds a number or stands for a missing one, so that it is no column name."""
    text = cell.strip()
    return (bool(text) and text.lower() in MISSING) or is_number(text) or bool(DECIMAL_COMMA.fullmatch(text))


def parse_number(word: str) -> float:
    """Raises ValueError for what is not a number."""
    if len(word) > MAX_NUMBER or "_" in word:
        raise ValueError(word)
    return float(word)


def is_number(word: str) -> bool:
    """Whether a word is a number, NaN and infinity included."""
    try:
        parse_number(word)
    except ValueError:
        return False
    return True
