"""The alphabet of names: of models, layers, inputs and outputs.

Names become paths in saved files, columns of CSV files, folders of runs and words on a terminal. They may contain
letters of all scripts with their combining marks, digits, and ``/ . - : _``, which covers the names that Caffe, Keras
and PyTorch use. The name of a model may contain spaces as well: it is a title, and
part of no path but the run folder's.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from prototorch.schema.types import Str
from prototorch.schema.validation import ReportedError, ValidationError
from prototorch.text.diagnostics import Report
from prototorch.text.limits import MAX_NAME_LENGTH
from prototorch.text.syntax_tree import Value

__all__ = ["Identifier", "find_name_error", "to_name"]

_PUNCTUATION = frozenset("/.-:_")
MAX_LENGTH, MAX_PARTS = 200, 32  # of a name, so that what it becomes in a file, with the names of weights, can be saved


def find_name_error(name: str, is_title: bool = False) -> str | None:
    """Why a name is invalid, as a predicate ("may contain only ..."); None if it is valid. A title may have spaces."""
    limit = MAX_NAME_LENGTH if is_title else MAX_LENGTH
    if len(name) > limit:
        return f"may have up to {limit} characters, not {len(name)}"
    if name.isascii() and name.isidentifier():
        return None
    character = next((c for c in name if not (_is_allowed(c) or (is_title and c == " "))), None)
    if character is None:
        return None if is_title or not name else _find_part_error(name.split("/"))
    shown_character = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    return f"may contain only letters, digits{', spaces' if is_title else ''} and / . - : _ , not {shown_character}"


def _find_part_error(parts: list[str]) -> str | None:
    """Why the parts of a name between its ``/`` are invalid: they are groups in a saved file."""
    if len(parts) > MAX_PARTS:
        return f"may have up to {MAX_PARTS} parts between its /, not {len(parts)}"
    wrong = next((part for part in parts if part in ("", ".", "..")), None)
    return None if wrong is None else f"may not have the part {wrong!r} before, between or after its /"


def to_name(text: str) -> str:
    """The text with each character that a name may not contain replaced by ``_``."""
    return "".join(c if _is_allowed(c) else "_" for c in text)


def _is_allowed(character: str) -> bool:
    return character in _PUNCTUATION or unicodedata.category(character)[0] in "LMN"


@dataclass(frozen=True)
class Identifier(Str):
    """A string that is a valid name."""

    def convert(self, value: Any) -> str:
        name = super().convert(value)
        error = find_name_error(name)
        if error is not None:
            raise ValidationError(error, right_kind=True)
        return name

    def read(self, value: Value, report: Report) -> str:
        if report.has_within(value.span):  # a string literal that is not valid: its text is not what was meant
            raise ReportedError
        return super().read(value, report)
