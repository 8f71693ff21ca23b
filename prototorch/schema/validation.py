"""Validation errors of field types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, ListValue, Scalar, TypedBlock, Word


class ValidationError(Exception):
    """A value that a field does not take.

    ``message`` completes ``Dense.units ...``; without it the sentence is made from what the type wants. ``hint``
    follows the sentence; a function is called when the hint is first read, for a union of types drops most errors.
    ``right_kind`` says that the value was of the right kind (so a union of types reports this one).
    """

    def __init__(
        self,
        message: str = "",
        *,
        hint: str | Callable[[], str] = "",
        span: Span | None = None,
        right_kind: bool = False,
    ):
        super().__init__(message)
        self.message = message
        self._hint = hint
        self.span = span
        self.right_kind = right_kind

    @property
    def hint(self) -> str:
        """The hint, "" where there is none."""
        if not isinstance(self._hint, str):
            self._hint = self._hint()
        return self._hint

    @hint.setter
    def hint(self, hint: str) -> None:
        self._hint = hint


class ReportedError(Exception):
    """The errors are already in the report."""


def describe_value(value: Any, limit: int = 60) -> str:
    """A value as a message shows it: strings quoted, words bare, long ones cut."""
    if isinstance(value, Scalar):
        text = (
            value.text
            if value.text is not None and not isinstance(value.value, str)
            else _describe_python_value(value.value)
        )
    elif isinstance(value, Word):
        text = f"the word {value.text}"
    elif isinstance(value, ListValue):
        text = (
            "["
            + ", ".join(describe_value(item, 20) for item in value.items[:12])
            + (", ..." * (len(value.items) > 12))
            + "]"
        )
    elif isinstance(value, TypedBlock):
        text = f"the block {value.word} {{ ... }}"
    elif isinstance(value, Body):
        text = "a block { ... }"
    else:
        text = _describe_python_value(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _describe_python_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, str):
        return '"' + value[:80].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    try:
        return repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
