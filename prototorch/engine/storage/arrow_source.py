"""Reader of Parquet and Feather files that are not trusted: Arrow's library reads them in a process of its own."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.data.safe_io import check_memory, open_file, printable_path
from prototorch.data.tables.raw_table import SECONDS, RawTable
from prototorch.data.tables.table_format import TableFormat
from prototorch.engine.storage.reading_process import ask_reading_process
from prototorch.errors import DataError, ResourceError

__all__ = ["FEATHER", "INSTALL_HINT", "PARQUET", "read_arrow"]

INSTALL_HINT = 'Parquet and Feather need the package pyarrow: pip install "prototorch-dl[data]"'
_SLACK_BYTES = 1 << 30  # of address space beyond what the columns take
_MAX_EXPANSION = 64  # bytes of columns for each byte of a compressed file
_MIN_BYTES = 1 << 28  # of columns, which any file may have
_BASE_TIMEOUT, _MIN_READ_SPEED = 60.0, 5 << 20  # seconds for a small file; bytes per second in the worst case
_SIZES = {"boolean": 1, "integer": 8, "number": 8, "date": 8}


def read_arrow(path: str | os.PathLike[str], kind: str) -> RawTable:
    """The columns of a file: "parquet" or "feather".

    Raises DataError for a damaged file and for columns of lists and structures, ResourceError without the package
    pyarrow and for a file that does not fit in memory.
    """
    name = printable_path(path)
    with open_file(path) as (_, size):
        pass
    check_memory(size, name)
    max_bytes = max(_MIN_BYTES, _MAX_EXPANSION * size)
    limits = {"max_bytes": max_bytes, "address_space": 4 * max_bytes + _SLACK_BYTES}
    request = {"path": str(Path(path).resolve()), "kind": kind, **limits}
    answer = ask_reading_process("arrow_sandbox.py", request, _BASE_TIMEOUT + size / _MIN_READ_SPEED)
    if answer is None:
        raise DataError(f"{name}: reading it took too long; it was given up")
    if answer[:1] == b"\2":
        raise ResourceError(f"{name}: {INSTALL_HINT}")
    if answer[:1] == b"\1":
        raise DataError(f"{name}: cannot be read as {kind}: {answer[1:].decode('utf-8', 'replace')}")
    if answer[:1] != b"\0":
        raise DataError(f"{name}: cannot be read as {kind}: the process that reads it has ended (it is damaged)")
    try:
        return _read_answer(memoryview(answer)[1:], name)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{name}: cannot be read as {kind}: {error!s:.200}") from None


def _read_answer(answer: memoryview, name: str) -> RawTable:
    """The table of an answer. Raises ValueError, KeyError or TypeError for one that is not as it should be."""
    end = bytes(answer).index(b"\n")
    head = json.loads(bytes(answer[:end]))
    rows, rest, columns = int(head["rows"]), answer[end + 1 :], {}
    for description in head["columns"]:
        parts = []
        for size in description["sizes"]:
            if not 0 <= size <= len(rest):
                raise ValueError("its columns are cut off")
            parts.append(rest[:size])
            rest = rest[size:]
        column = str(description["name"])
        if column in columns:
            raise ValueError(f"it has several columns named {column!r}")
        columns[column] = _read_column(description["kind"], parts, rows)
    return RawTable(name, columns)


def _read_column(kind: str, parts: list[Any], rows: int) -> np.ndarray:
    if kind in ("text", "list"):
        lengths, data = np.frombuffer(parts[0], "<i8"), bytes(parts[1])
        if len(lengths) != rows or int(np.maximum(lengths, 0).sum()) != len(data):
            raise ValueError("a column of texts is cut off")
        values, start = np.empty(rows, object), 0
        for row, length in enumerate(lengths):
            if length >= 0:
                text = data[start : start + length].decode("utf-8")
                values[row] = text if kind == "text" else tuple(json.loads(text))
                start += int(length)
        return values
    if len(parts[0]) != rows * _SIZES[kind]:
        raise ValueError("a column is cut off")
    if kind == "boolean":
        flags = np.frombuffer(parts[0], np.uint8)
        if not (flags > 1).any():
            return flags.astype(bool)
        words = np.where(flags == 1, "true", "false").astype(object)
        words[flags > 1] = None
        return words
    if kind == "date":
        return np.frombuffer(parts[0], "<i8").astype(np.int64).view(SECONDS)
    return np.frombuffer(parts[0], "<i8" if kind == "integer" else "<f8").copy()


PARQUET = TableFormat(kind="parquet", signature=b"PAR1", read=partial(read_arrow, kind="parquet"))
FEATHER = TableFormat(kind="feather", signature=b"ARROW1", read=partial(read_arrow, kind="feather"))
