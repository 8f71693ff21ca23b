"""Cells of CSV files that spreadsheets must not take for formulas."""

from __future__ import annotations

__all__ = ["escape_cell"]

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def escape_cell(value: object) -> object:
    """The value of a cell; a string that a spreadsheet would evaluate gets a leading apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
