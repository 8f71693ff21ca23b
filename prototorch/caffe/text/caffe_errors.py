"""One mistake at a place of a text, raised."""

from __future__ import annotations

from typing import NoReturn

from prototorch.errors import TextError
from prototorch.text.diagnostics import Diagnostic
from prototorch.text.source import Span

__all__ = ["fail_at"]


def fail_at(message: str, span: Span | None) -> NoReturn:
    """Raise TextError with one mistake at a place of the text, if that is known."""
    raise TextError([Diagnostic(message, span)])
