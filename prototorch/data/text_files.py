"""Texts in files: whole files, a text per line, a column of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from prototorch.data.csv_reader import read_rows
from prototorch.data.image_folder import find_image_files
from prototorch.data.safe_io import expand_path, printable_path, read_file, read_lines
from prototorch.errors import DataError

__all__ = ["TEXT_SUFFIXES", "read_text", "read_text_lines", "read_texts"]

TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".rst"})
TABLE_SUFFIXES = frozenset({".csv", ".tsv"})
MAX_TEXT_BYTES = 1 << 31  # of one text file
MAX_LINE_BYTES = 1 << 24
MAX_NAME = 60  # characters of a text that names its sample


def read_text(path: Path) -> str:
    """A UTF-8 text file. Raises DataError for what is no text, ResourceError for what does not fit in memory."""
    return _decode(read_file(path, MAX_TEXT_BYTES), path).replace("\r\n", "\n")


def read_text_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file that are not empty. Raises as `read_text`."""
    text = _decode(read_lines(path, MAX_LINE_BYTES, MAX_TEXT_BYTES), path)
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def read_texts(what: Sequence[str], columns: Sequence[str | int] = ()) -> tuple[list[str], list[str]]:
    """Texts for prediction, with names: of each item the lines of a text file, the ``columns`` of a table (.csv, .tsv)
    whose header names them, the files of a folder, or the item itself, which is a text.

    Raises DataError for an item that looks like a path and is none.
    """
    names, texts = [], []
    for item in what:
        path = expand_path(item)
        try:
            exists = os.path.lexists(path)
        except ValueError:
            exists = False
        if not exists:
            if path.suffix.lower() in TEXT_SUFFIXES | TABLE_SUFFIXES and " " not in item:
                raise DataError(f"{printable_path(path)}: no such file or folder")
            texts_of_item = [item]
        elif path.is_dir():
            files = find_image_files(path, TEXT_SUFFIXES)
            if not files:
                raise DataError(f"{printable_path(path)}: has no text files ({', '.join(sorted(TEXT_SUFFIXES))})")
            names += [printable_path(file) for file in files]
            texts += [read_text(Path(file)) for file in files]
            continue
        elif path.suffix.lower() in TABLE_SUFFIXES:
            texts_of_item = _read_column(path, columns)
        else:
            texts_of_item = read_text_lines(path)
        texts += texts_of_item
        names += [text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}..." for text in texts_of_item]
    if not texts:
        raise DataError(f"{', '.join(map(printable_path, what))}: no texts")
    return names, texts


def _read_column(path: Path, columns: Sequence[str | int]) -> list[str]:
    """The texts of a table: of the one column that it has, or that its header names."""
    name = printable_path(path)
    rows, lines = read_rows(path, name, prefers_tabs=True)
    header = [cell.strip() for cell in rows[0]]
    at = next((header.index(str(c)) for c in columns if str(c) in header), None)
    if at is None and len(header) > 1:
        raise DataError(f"{name}: has {len(header)} columns, and none is named {', '.join(map(repr, columns)) or '?'}")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise DataError(f"{name}, line {line}: has {len(row)} fields, expected {len(header)}")
    return [row[at or 0] for row in (rows if at is None else rows[1:])]


def _decode(data: bytes | bytearray, path: Path) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{printable_path(path)}: is not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise DataError(f"{printable_path(path)}: has NUL characters, so it is not a text file")
    return text
