"""Where a text has a block and its fields: kept beside the values, no part of equality, of copies with other values, of
pickles."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from prototorch.text.source import Span
from prototorch.text.syntax_tree import Field

_KEY = "_source"  # in a block's __dict__: (span, fields by name)


def set_source(block: Any, span: Span | None, fields: Mapping[str, Sequence[Field]]) -> None:
    """Store where a text has a block: the span of its name, and its fields."""
    if span is not None:
        block.__dict__[_KEY] = span, {name: entries[0].value.span for name, entries in fields.items()}


def copy_source(block: Any, other: Any, changed: Container[str]) -> None:
    """The source of a block for its copy, without the fields that were changed in Python."""
    if _KEY in block.__dict__:
        span, fields = block.__dict__[_KEY]
        other.__dict__[_KEY] = span, {name: at for name, at in fields.items() if name not in changed}


def find_span(block: Any, field: str | None = None) -> Span | None:
    """Where a text has the value of a block's field, else the block's name; None for a block made in Python."""
    span, fields = getattr(block, "__dict__", {}).get(_KEY, (None, {}))
    return fields.get(field) or span


def without_source(values: Mapping[str, Any]) -> dict[str, Any]:
    """A block's ``__dict__`` without its source."""
    return {name: value for name, value in values.items() if name != _KEY}
