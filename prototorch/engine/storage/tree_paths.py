"""Paths of arrays inside a file, such as ``stage1/conv/kernel``: limits and validation."""

from __future__ import annotations

import unicodedata

__all__ = ["MAX_DEPTH", "META_GROUP", "Scalar", "find_name_error", "find_path_error"]

META_GROUP = "@meta"  # the group of a file's scalars and strings
Scalar = str | int | float | bool
MAX_NAME_LENGTH = 255
MAX_PATH_LENGTH = 4096
MAX_DEPTH = 64
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def find_name_error(part: str) -> str | None:
    """Why a component of a path is invalid, as a predicate ('has ...'); None if it is valid."""
    if not part:
        return "has an empty part"
    if part in (".", ".."):
        return f"has the part {part!r}"
    if "/" in part:
        return "has a part with a '/'"
    if len(part) > MAX_NAME_LENGTH:
        return f"has a part of {len(part):,} characters (at most {MAX_NAME_LENGTH})"
    for character in part:
        if character in _BIDI or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            return f"has the control character U+{ord(character):04X}"
    return None


def find_path_error(path: str) -> str | None:
    """Why a path is invalid, as a predicate ('has ...'); None if it is valid."""
    if len(path) > MAX_PATH_LENGTH:
        return f"has {len(path):,} characters (at most {MAX_PATH_LENGTH})"
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        return f"has {len(parts)} parts (at most {MAX_DEPTH})"
    return next((error for part in parts if (error := find_name_error(part))), None)
