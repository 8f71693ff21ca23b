"""Files of tables by their content: CSV and JSON lines, also compressed by gzip, Parquet, Feather, Excel, SQLite."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.base.index import Entry, entries
from prototorch.data.csv_reader import first_row, read_cells
from prototorch.data.safe_io import (
    decode_text,
    inflate_head,
    is_gzip,
    is_text,
    printable_path,
    read_head,
    read_text_bytes,
)
from prototorch.data.tables.raw_table import RawTable, raw_column
from prototorch.data.tables.table_format import TableFormat
from prototorch.errors import DataError

__all__ = ["TABLE_SUFFIXES", "is_table_name", "is_workbook", "read_header", "read_table_file", "table_kind"]

HEAD_BYTES = 4096
#: what the name of a text file that is read by type ends in: messages name its columns, and others may hold anything
TABLE_SUFFIXES = (".csv", ".tsv", ".tab")
MAX_LINE_BYTES = 1 << 24


def table_kind(path: str | os.PathLike[str]) -> str | None:
    """The format of a file that may be a table: "csv", "jsonl", or the kind of a `TableFormat`; None for other content.

    Any text that does not begin with ``{"`` counts as CSV.
    """
    head = read_head(path, HEAD_BYTES)
    format_entry = _find_format(head)
    if format_entry is not None:
        return str(format_entry.facts["kind"])
    if is_gzip(head):
        head = inflate_head(head, HEAD_BYTES, printable_path(path))
    is_utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    if is_utf16:
        head = head[: len(head) // 2 * 2].decode("utf-16", "ignore").encode("utf-8", "ignore")
    if not is_table_name(path) and (b"\0" in head or not is_text(head)):
        return None
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return "jsonl" if start.startswith(b"{") and start[1:].lstrip()[:1] in (b'"', b"}") else "csv"


def read_table_file(path: str | os.PathLike[str], has_header: bool, table: str | None = None) -> RawTable:
    """The columns of a table. has_header: whether the first line of a CSV file is a header whatever stands there.
    table: the name of one of several tables or sheets of the file.

    Raises DataError for a damaged file, ResourceError where a package is missing.
    """
    format_entry = _find_format(read_head(path, HEAD_BYTES))
    file_format = None if format_entry is None else format_entry.load()
    if table is not None and (file_format is None or not file_format.has_tables):
        raise DataError(f"{printable_path(path)}: table: {table!r} is for SQLite and Excel files, which have several")
    if file_format is not None:
        content: RawTable = file_format.read(Path(path), *(() if table is None else (table,)))
        return content
    if table_kind(path) == "jsonl":
        return _read_json_lines(path)
    return read_cells(path, printable_path(path), has_header)


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file says that it is a table of text."""
    return Path(str(path).lower().removesuffix(".gz")).suffix in TABLE_SUFFIXES


def _find_format(head: bytes) -> Entry | None:
    """The format whose signature begins a file; what reads it is imported when it reads."""
    for entry in entries(TableFormat.__name__):
        marks = entry.facts.get("marks", ())
        if head.startswith(entry.facts["signature"]) and (not marks or any(mark in head for mark in marks)):
            return entry
    return None


def is_workbook(head: bytes) -> bool:
    """Whether a file that begins so is a table, and no file of arrays although it is an archive."""
    return _find_format(head) is not None


def read_header(path: str | os.PathLike[str], table: str | None = None) -> tuple[tuple[str, ...], bool]:
    """The names of the columns and True; of a CSV file without a header, see `first_row`."""
    if table_kind(path) in (None, "csv"):
        return first_row(path)
    return tuple(read_table_file(path, True, table).columns), True


def _read_json_lines(path: str | os.PathLike[str]) -> RawTable:
    """A JSON object a line: its names are the columns; one that a line leaves out is a gap."""
    name = printable_path(path)
    text = decode_text(read_text_bytes(path, MAX_LINE_BYTES), name)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{name}, line {number}: is no JSON object: {error!s:.100}") from None
        if not isinstance(row, dict):
            raise DataError(f"{name}, line {number}: expected a JSON object, got {type(row).__name__}")
        for column, value in row.items():
            if not isinstance(value, str | int | float | list | None):
                raise DataError(
                    f"{name}, line {number}, column {column!r}: expected a number, a text, a list, true, false or "
                    "null, got an object"
                )
        rows.append(row)
        lines.append(number)
    names = list(dict.fromkeys(column for row in rows for column in row))
    if len(names) * len(rows) > 1 << 31:
        raise DataError(f"{name}: has {len(names):,} different names in {len(rows):,} lines")
    columns = {column: raw_column([row.get(column) for row in rows], column, name) for column in names}
    return RawTable(name, columns, np.array(lines))


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")
