"""Formats of files that hold a table, beside texts: each is found by the signature of its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prototorch.base.index import Extension
from prototorch.data.tables.raw_table import RawTable

__all__ = ["TableFormat"]


@dataclass(frozen=True)
class TableFormat(Extension):
    """A format of tables. signature: the first bytes of its files. read: the columns by name."""

    kind: str
    signature: bytes
    read: Callable[[Path], RawTable]
