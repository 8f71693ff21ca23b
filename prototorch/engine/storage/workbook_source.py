"""Reader of Excel and SQLite files that are not trusted: a process of its own reads them."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.data.safe_io import check_memory, open_file, printable_path
from prototorch.data.tables.raw_table import RawTable, raw_column
from prototorch.data.tables.table_format import TableFormat
from prototorch.engine.storage.reading_process import ask_reading_process
from prototorch.errors import DataError, ResourceError

__all__ = ["EXCEL", "EXCEL_HINT", "SQLITE", "read_workbook"]

EXCEL_HINT = 'Excel needs the package openpyxl: pip install "prototorch-dl[excel]"; or save it as CSV UTF-8'
_MAX_EXPANSION = 64  # bytes of cells for each byte of a file
_MIN_BYTES = 1 << 27  # of cells, which any file may have
_BYTES_OF_CELL = 100  # of memory, in the process that reads
_SLACK_BYTES = 1 << 29  # of address space beyond what the cells take
_BASE_TIMEOUT, _MIN_READ_SPEED = 60.0, 1 << 19  # seconds for a small file; bytes per second in the worst case
_TITLES = {"excel": "an Excel workbook", "sqlite": "an SQLite database"}


def read_workbook(path: str | os.PathLike[str], table: str | None = None, *, kind: str) -> RawTable:
    """The columns of a sheet or a table. table: its name; None: the first sheet, or the only table.

    Raises DataError for a damaged file and for what is no table, ResourceError without the package openpyxl and for a
    file that does not fit in memory.
    """
    name = printable_path(path)
    with open_file(path) as (_, size):
        pass
    check_memory(size, name)
    max_bytes = max(_MIN_BYTES, _MAX_EXPANSION * size)
    limits = {"max_bytes": max_bytes, "max_cells": max_bytes // 8}
    request = {"path": str(Path(path).resolve()), "kind": kind, "table": table, **limits}
    request["address_space"] = min(_BYTES_OF_CELL * limits["max_cells"], 16 * max_bytes) + _SLACK_BYTES
    answer = ask_reading_process("workbook_sandbox.py", request, _BASE_TIMEOUT + size / _MIN_READ_SPEED)
    title = _TITLES[kind]
    if answer is None:
        raise DataError(f"{name}: reading it took too long; it was given up")
    if answer[:1] == b"\2":
        raise ResourceError(f"{name}: {EXCEL_HINT}")
    if answer[:1] == b"\1":
        message = answer[1:].decode("utf-8", "replace").removeprefix("ValueError: ")
        raise DataError(f"{name}: cannot be read as {title}: {message}")
    if answer[:1] != b"\0":
        raise DataError(f"{name}: cannot be read as {title}: the process that reads it has ended (it is damaged)")
    try:
        header, values, rows = json.loads(answer[1:])
        if not header or not rows or any(len(column) != len(rows) for column in values):
            raise ValueError("it has no rows")
    except (ValueError, TypeError) as error:
        raise DataError(f"{name}: cannot be read as {title}: {error!s:.200}") from None
    twice = next((column for column in header if header.count(column) > 1), None)
    if twice is not None:
        raise DataError(f"{name}: has {header.count(twice)} columns named {twice!r}; give each a name of its own")
    columns = {column: _column(cells, column, name) for column, cells in zip(header, values, strict=True)}
    return RawTable(name, columns, np.array(rows, np.int64))


def _column(cells: list[Any], column: str, name: str) -> np.ndarray:
    """The values of a column; one that holds texts and other values holds texts, whose types are found as in CSV."""
    if any(isinstance(cell, str) for cell in cells) and any(not isinstance(cell, str | None) for cell in cells):
        cells = [cell if isinstance(cell, str | None) else _text(cell) for cell in cells]
    return raw_column(cells, column, name)


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


EXCEL = TableFormat(
    kind="excel",
    signature=b"PK\x03\x04",
    read=partial(read_workbook, kind="excel"),
    marks=(b"[Content_Types].xml", b"xl/", b"docProps/", b"_rels/.rels"),
    has_tables=True,
)
SQLITE = TableFormat(
    kind="sqlite", signature=b"SQLite format 3\0", read=partial(read_workbook, kind="sqlite"), has_tables=True
)
