"""Reading of the parts of a tokenizer.json: each value is checked, and what is not supported is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prototorch.errors import DataError

__all__ = ["Part", "affix", "kind_of", "make_part", "value"]

Part = Mapping[str, Any]
MAX_PARTS = 64  # of a sequence of normalizers, pre-tokenizers, or decoders
MAX_NESTING = 8
MAX_AFFIX = 64  # characters of what is added to each part of a word


def kind_of(part: Any, what: str) -> str:
    """The ``type`` of a part. Raises DataError for what is no part."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str):
        raise DataError(f"tokenizer file: the {what} must be an object with a type, got {type(part).__name__}")
    return kind


def value(part: Part, name: str, expected: type, default: Any = None) -> Any:
    """A field of a part. Raises DataError where it has another type; a missing one, or null, is the default."""
    entry = part.get(name)
    if entry is None:
        if default is None:
            raise DataError(f"tokenizer file: {part.get('type', 'a part')} needs {name!r}")
        return default
    if not isinstance(entry, expected) or (expected is int and isinstance(entry, bool)):
        raise DataError(
            f"tokenizer file: {name!r} of {part.get('type', 'a part')} must be {expected.__name__}, "
            f"got {type(entry).__name__}"
        )
    return entry


def affix(part: Part, name: str, default: str) -> str:
    """A prefix or suffix that is added to each part of a word. Raises DataError for a long one."""
    text: str = value(part, name, str, default)
    if len(text) > MAX_AFFIX:
        raise DataError(f"tokenizer file: {name!r} must have at most {MAX_AFFIX} characters, got {len(text):,}")
    return text


def make_part(part: Any, what: str, table: Mapping[str, Callable[[Part], Any]], list_name: str, depth: int = 0) -> Any:
    """The functions that a part, or a sequence of parts, stands for, as a list. Raises DataError for unknown types."""
    if part is None:
        return []
    kind = kind_of(part, what)
    if kind == "Sequence":
        parts = part.get(list_name)
        if not isinstance(parts, list) or len(parts) > MAX_PARTS or depth > MAX_NESTING:
            raise DataError(f"tokenizer file: a sequence of {what}s is a list of at most {MAX_PARTS}, {list_name!r}")
        return [one for inner in parts for one in make_part(inner, what, table, list_name, depth + 1)]
    if kind not in table:
        raise DataError(
            f"tokenizer file: the {what} {kind[:60]!r} is not supported; those that are: {', '.join(sorted(table))}"
        )
    return [table[kind](part)]
