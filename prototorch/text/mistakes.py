"""Mistakes in a text: collected by a :class:`Report`, shown with place, line and caret, raised together."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from ..errors import TextError
from .source import Span
from .tree import Frame

WIDTH = 110  # characters of a source line that a message shows
MOST = 50  # mistakes that one report keeps
_REORDERING = ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI")


@dataclass(slots=True)
class Mistake:
    """One mistake: what is wrong (in words), where, and the chain of blocks it was expanded from."""

    message: str
    span: Span | None = None
    chain: Frame | None = None

    @property
    def place(self) -> str:
        """``path:line:column``, or an empty string where there is no text."""
        return str(self.span) if self.span is not None else ""

    def __str__(self) -> str:
        parts = [f"{self.place}: {self.message}" if self.span is not None else self.message]
        if self.span is not None:
            parts.append(excerpt(self.span))
        if self.chain is not None:
            parts.append("   " + chain_text(self.chain))
        return "\n".join(parts)


def chain_text(chain: Frame) -> str:
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


def excerpt(span: Span) -> str:
    """The line a span starts on, with carets under it. Long lines are cut, control characters are shown as ``?``."""
    number, column = span.source.position(span.start)
    line = span.source.line(number)
    begin = column - 1
    length = max(1, min(span.end, span.start + len(line) - begin) - span.start)
    left, prefix = 0, ""
    if len(line) > WIDTH:
        left = max(0, min(begin - WIDTH // 3, len(line) - WIDTH))
        prefix = "..." if left else ""
        suffix = "..." if left + WIDTH < len(line) else ""
        line = line[left : left + WIDTH]
        length = max(1, min(length, left + WIDTH - begin))
    else:
        suffix = ""
    shown = "".join(" " if c == "\t" else c if _harmless(c) else "?" for c in line)
    gutter = f"   {number} | "
    below = " " * (len(gutter) - 2) + "| " + " " * (len(prefix) + begin - left) + "^" * length
    return f"{gutter}{prefix}{shown}{suffix}".rstrip() + "\n" + below


def _harmless(c: str) -> bool:
    return c.isprintable() and unicodedata.bidirectional(c) not in _REORDERING


class Report:
    """Collects mistakes. ``within(chain)`` gives a view of the same report for something that was expanded."""

    __slots__ = ("chain", "mistakes")

    def __init__(self, mistakes: list[Mistake] | None = None, chain: Frame | None = None):
        self.mistakes: list[Mistake] = [] if mistakes is None else mistakes
        self.chain = chain

    def add(self, message: str, span: Span | None = None, chain: Frame | None = None) -> None:
        """Note a mistake; the same one at the same place is noted once."""
        new = Mistake(message, span, chain if chain is not None else self.chain)
        if len(self.mistakes) < MOST and not any(
            m.message == new.message and (m.span is new.span or m.span == new.span) for m in self.mistakes
        ):
            self.mistakes.append(new)

    def within(self, chain: Frame | None) -> Report:
        """The same report, whose mistakes carry ``chain``."""
        return Report(self.mistakes, chain) if chain is not None else self

    def __len__(self) -> int:
        return len(self.mistakes)

    def raise_if_any(self) -> None:
        """Raise :class:`TextError` with every mistake, in the order of the text."""
        if self.mistakes:
            raise TextError(sorted(self.mistakes, key=_order))


def _order(mistake: Mistake) -> tuple[str, int]:
    return (mistake.span.path, mistake.span.start) if mistake.span is not None else ("", 0)
