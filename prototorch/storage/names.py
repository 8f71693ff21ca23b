"""Names inside a file: paths such as ``stage1/conv/kernel``, and which of them are refused."""

from __future__ import annotations

import unicodedata

META = "@meta"  # the group that holds the scalars and texts of a file
Scalar = str | int | float | bool
LONGEST_PART = 255
LONGEST_PATH = 4096
DEEPEST = 64
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def fault_of_part(part: str) -> str | None:
    """What is wrong with one part of a path, in words, or None."""
    if not part:
        return "has an empty part"
    if part in (".", ".."):
        return f"has the part {part!r}"
    if "/" in part:
        return "has a part with a '/'"
    if len(part) > LONGEST_PART:
        return f"has a part of {len(part):,} characters (at most {LONGEST_PART})"
    for character in part:
        if character in _BIDI or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            return f"has the control character U+{ord(character):04X}"
    return None


def fault_of_path(path: str) -> str | None:
    """What is wrong with a path, in words, or None."""
    if len(path) > LONGEST_PATH:
        return f"has {len(path):,} characters (at most {LONGEST_PATH})"
    parts = path.split("/")
    if len(parts) > DEEPEST:
        return f"has {len(parts)} parts (at most {DEEPEST})"
    return next((fault for part in parts if (fault := fault_of_part(part))), None)
