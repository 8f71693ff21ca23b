"""Formats of files that hold a table, beside texts: each is found by the signature of its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prototorch.base.index import Extension
from prototorch.data.tables.raw_table import RawTable

__all__ = ["TableFormat"]


@dataclass(frozen=True)
class TableFormat(Extension):
    """A format of tables.

    Attributes:
        kind: its name. signature: the first bytes of its files; marks: one of which is behind them, where there are.
        read: the columns by name, of the table of the name that follows the path where it has several.
        has_tables: whether a file may have several tables.
    """

    kind: str
    signature: bytes
    read: Callable[..., RawTable]
    marks: tuple[bytes, ...] = ()
    has_tables: bool = False
