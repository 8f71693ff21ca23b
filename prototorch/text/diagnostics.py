"""Errors in a text: collected by a `Report`, shown with location, source line and caret, raised together."""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prototorch.errors import PrototorchError, TextError
from prototorch.text.source import Span
from prototorch.text.syntax_tree import ExpansionFrame

EXCERPT_WIDTH = 110  # characters of a source line that a message shows
SETTING = "--set"  # the name of the text of a setting of the command line
MAX_DIAGNOSTICS = 50  # mistakes that one report takes
MAX_REPEATED = 1000  # mistakes that it has already, as a repeat makes them
MAX_MESSAGE = 2000  # characters of a message; names in it may be as long as a text
_BIDI_CONTROLS = ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI")


@dataclass(slots=True)
class Diagnostic:
    """One error: its message, its location, and the chain of blocks it was expanded from.

    is_provisional: a later error that begins at the same place knows more, and replaces it.
    """

    message: str
    span: Span | None = None
    chain: ExpansionFrame | None = None
    is_provisional: bool = False

    @property
    def location(self) -> str:
        """``path:line:column``, or an empty string without a span."""
        return str(self.span) if self.span is not None else ""

    def __str__(self) -> str:
        parts = [f"{self.location}: {self.message}" if self.span is not None else self.message]
        if self.span is not None:
            parts.append(format_excerpt(self.span))
        if self.chain is not None:
            parts.append("   " + format_chain(self.chain))
        return "\n".join(parts)


def locate(error: PrototorchError, span: Span | None, chain: ExpansionFrame | None = None) -> PrototorchError:
    """The error with its place in the text; the error itself where it has one already, or the text is a setting."""
    if span is None or span.path == SETTING or error.diagnostic is not None or isinstance(error, TextError):
        return error
    diagnostic = Diagnostic(str(error), span, chain)
    located_error = copy.copy(error)
    located_error.args = (str(diagnostic), *error.args[1:])
    located_error.diagnostic = diagnostic
    return located_error


@contextmanager
def located(span: Span | None, chain: ExpansionFrame | None = None) -> Iterator[None]:
    """Errors that are raised inside get this place in the text, if they have none."""
    try:
        yield
    except PrototorchError as error:
        raise locate(error, span, chain) from error.__cause__


def format_chain(chain: ExpansionFrame) -> str:
    """``in bottleneck at line 31, in repeat at line 44``, the innermost first."""
    frames = list(chain)
    home = frames[-1].span.path if frames[-1].span is not None else None
    words = []
    for frame in frames:
        if frame.span is None:
            words.append(f"in {frame.label}")
        elif frame.span.path == home:
            words.append(f"in {frame.label} at line {frame.span.line}")
        else:
            words.append(f"in {frame.label} at {frame.span.path}:{frame.span.line}")
    return ", ".join(words)


def format_excerpt(span: Span) -> str:
    """The line a span starts on, with carets under it. Long lines are cut, control characters are shown as ``?``."""
    number, column = span.source.position(span.start)
    line = span.source.line(number)
    begin = column - 1
    length = max(1, min(span.end, span.start + len(line) - begin) - span.start)
    left, prefix = 0, ""
    if len(line) > EXCERPT_WIDTH:
        left = max(0, min(begin - EXCERPT_WIDTH // 3, len(line) - EXCERPT_WIDTH))
        prefix = "..." if left else ""
        suffix = "..." if left + EXCERPT_WIDTH < len(line) else ""
        line = line[left : left + EXCERPT_WIDTH]
        length = max(1, min(length, left + EXCERPT_WIDTH - begin))
    else:
        suffix = ""
    printable_line = "".join(" " if c == "\t" else c if _is_printable(c) else "?" for c in line)
    gutter = f"   {number} | "
    below = " " * (len(gutter) - 2) + "| " + " " * (len(prefix) + begin - left) + "^" * length
    return f"{gutter}{prefix}{printable_line}{suffix}".rstrip() + "\n" + below


def _is_printable(c: str) -> bool:
    return c.isprintable() and unicodedata.bidirectional(c) not in _BIDI_CONTROLS


class Report:
    """Collects errors. ``with_chain(chain)`` is a view of the same report for expanded statements."""

    __slots__ = ("_repeat_count", "chain", "diagnostics", "imported_classes")

    def __init__(self, view_of: Report | None = None, chain: ExpansionFrame | None = None):
        self.diagnostics: list[Diagnostic] = [] if view_of is None else view_of.diagnostics
        self._repeat_count: list[int] = [0] if view_of is None else view_of._repeat_count  # a counter that views share
        self.chain = chain
        #: the classes that the text's ``import:`` lines brought: the names that it uses may mean them
        self.imported_classes: set[type] = set() if view_of is None else view_of.imported_classes

    def add(
        self,
        message: str,
        span: Span | None = None,
        chain: ExpansionFrame | None = None,
        is_provisional: bool = False,
    ) -> None:
        """Add an error; the same error at the same location is added once. It replaces a provisional one there.

        Raises TextError with all of them, and the note that there are more, where there are too many: a text of
        100,000 mistakes takes no longer than one of 50.
        """
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE // 2]} ... {message[-MAX_MESSAGE // 4 :]}"
        new = Diagnostic(message, span, chain if chain is not None else self.chain, is_provisional)
        for at, old in enumerate(self.diagnostics):
            if old.is_provisional and not is_provisional and _begin_together(old.span, span):
                self.diagnostics[at] = new
                return
        if any(m.message == message and (m.span is span or m.span == span) for m in self.diagnostics):
            self._repeat_count[0] += 1
        elif len(self.diagnostics) < MAX_DIAGNOSTICS:
            self.diagnostics.append(new)
            return
        else:
            self._repeat_count[0] = MAX_REPEATED
        if self._repeat_count[0] >= MAX_REPEATED:
            more = Diagnostic("There are too many mistakes: what comes after these has not been checked.")
            raise TextError([*self._in_order(), more])

    def with_chain(self, chain: ExpansionFrame | None) -> Report:
        """The same report, whose errors carry ``chain``."""
        return Report(self, chain) if chain is not None else self

    def has_within(self, span: Span | None) -> bool:
        """Whether a mistake inside this part of the text is in the report."""
        return span is not None and any(
            d.span is not None and d.span.source is span.source and span.start <= d.span.start < span.end
            for d in self.diagnostics
        )

    def __len__(self) -> int:
        return len(self.diagnostics)

    def raise_if_any(self) -> None:
        """Raise `TextError` with all errors, in the order of the text."""
        if self.diagnostics:
            raise TextError(self._in_order())

    def _in_order(self) -> list[Diagnostic]:
        return sorted(self.diagnostics, key=_sort_key)


def _begin_together(a: Span | None, b: Span | None) -> bool:
    return a is not None and b is not None and a.source is b.source and a.start == b.start


def _sort_key(mistake: Diagnostic) -> tuple[str, int]:
    return (mistake.span.path, mistake.span.start) if mistake.span is not None else ("", 0)
