"""Checks of the layout of a CSV file: each mistake with its line and its remedy."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.data.label_words import MISSING, is_number
from prototorch.errors import DataError

__all__ = ["DELIMITERS", "check_widths", "drop_empty_column", "find_delimiter", "one_column_hint", "refuse_header_rows"]

DELIMITERS = ",;\t|"
LOOKED_AT = 20  # rows behind a second header
HINTS = {
    "<": "is HTML or XML, and no table; save it as CSV",
    "[": "begins as a JSON list; write a JSON object on each line (JSON lines), or CSV",
}


def find_delimiter(first_line: str, prefers_tabs: bool = False) -> str:
    """The delimiter that is most frequent in the first line, of equally frequent ones the first of `DELIMITERS`."""
    return "\t" if prefers_tabs and "\t" in first_line else max(DELIMITERS, key=first_line.count)


def one_column_hint(names: Sequence[str]) -> str:
    """The hint for a table of one column in which another one is missing."""
    if len(names) != 1:
        return ""
    return ". It has one column: columns are separated by a comma, a semicolon, a tab or |"


def drop_empty_column(rows: list[list[str]]) -> None:
    """Leave out, in place, what a delimiter at the end of lines makes: a last field that is empty everywhere."""
    width = len(rows[0])
    if width > 1 and all(len(row) == width and not row[-1].strip() for row in rows):
        for row in rows:
            del row[-1]
    elif len(rows) > 1 and all(len(row) == width + 1 and not row[-1].strip() for row in rows[1:]):
        for row in rows[1:]:
            del row[-1]


def check_widths(rows: Sequence[Sequence[str]], lines: Sequence[int], width: int, name: str) -> None:
    """Raise DataError for a row with another number of fields than ``width``, that of the first one."""
    for at, (row, line) in enumerate(zip(rows, lines, strict=True)):
        if len(row) == width:
            continue
        hint = ""
        if width == 1 and at == 0:
            hint = "; is the line above a title or a comment? Remove it, so that the names of the columns come first"
        elif len(row) > width:
            hint = "; a field that holds the delimiter stands in double quotes"
        raise DataError(f"{name}, line {line}: has {len(row)} fields, expected {width} as in the lines before it{hint}")


def refuse_header_rows(header: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int], name: str) -> None:
    """Raise DataError for a column that is there twice, a second header, or a line that repeats the header.

    rows, lines: without the header.
    """
    if len(set(header)) < len(header) and not all(map(is_number, header)):
        twice = next(word for word in header if header.count(word) > 1)
        places = " and ".join(str(at + 1) for at, word in enumerate(header) if word == twice)
        raise DataError(f"{name}: the columns {places} have one name; give each a name of its own")
    words = list(header)
    for row, line in zip(rows, lines, strict=True):
        if row[0].strip() == words[0] and [cell.strip() for cell in row] == words and not all(map(is_number, words)):
            raise DataError(f"{name}, line {line}: repeats the header; remove the line")
    if len(rows) > 1 and not any(is_number(cell) or cell.strip().lower() in MISSING for cell in rows[0]):
        behind = rows[1 : 1 + LOOKED_AT]
        if all(all(is_number(row[at]) for row in behind) for at in range(len(words))):
            raise DataError(
                f"{name}, line {lines[0]}: holds texts where all lines after it hold numbers: a second header, or the "
                "units of the columns? Remove the line"
            )
