"""Locations in a text: sources and spans."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from prototorch.base.terminal import escape_line

_LINE = re.compile("\n")


class Source:
    """A text with the path it came from (``None`` for a text given as a string: it is then called ``<text>``)."""

    __slots__ = ("_starts", "path", "text")

    def __init__(self, text: str, path: str | None = None):
        self.text = text
        self.path = path
        self._starts: list[int] | None = None

    @property
    def name(self) -> str:
        """The path, as messages show it: one line."""
        return escape_line(self.path) if self.path is not None else "<text>"

    def _lines(self) -> list[int]:
        if self._starts is None:
            self._starts = [0, *(m.end() for m in _LINE.finditer(self.text))]
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        starts = self._lines()
        line = bisect_right(starts, offset) - 1
        return line + 1, offset - starts[line] + 1

    def line(self, number: int) -> str:
        """A line by its number (from 1), without its line end."""
        starts = self._lines()
        begin = starts[number - 1]
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[begin:end].rstrip("\r\n")


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """A piece of a source, from character ``start`` to before ``end``; lines and columns count from 1."""

    source: Source
    start: int
    end: int

    @property
    def path(self) -> str:
        return self.source.name

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def end_line(self) -> int:
        return self.source.position(max(self.start, self.end - 1))[0]

    @property
    def end_column(self) -> int:
        """The column after the last character."""
        return self.source.position(max(self.start, self.end - 1))[1] + 1

    @property
    def text(self) -> str:
        """The text of the span."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span | None) -> Span:
        """From the start of this span to the end of another in the same source."""
        return self if other is None or other.source is not self.source else Span(self.source, self.start, other.end)

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.path}:{line}:{column}"

    def __repr__(self) -> str:
        return f"Span({self!s})"
