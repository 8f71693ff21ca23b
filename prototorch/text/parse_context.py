"""What the lexer and the parser of one text share: its context, its tokens, and the end of a hopeless text."""

from __future__ import annotations

from prototorch.text.diagnostics import Report
from prototorch.text.source import Source, Span

__all__ = ["ParseAborted", "ParseContext", "Token"]


class ParseContext:
    """The state of parsing one text: its source, its report, and the offsets (start, end) of its comments.

    is_protobuf: whether strings and numbers are those of protobuf's text format only: ``${...}`` has no meaning, and
    infinity has more spellings. has_calls: whether a call or a bare name has been read.
    """

    __slots__ = ("comments", "has_calls", "is_protobuf", "report", "source")

    def __init__(self, source: Source, report: Report, is_protobuf: bool = False):
        self.source = source
        self.report = report
        self.is_protobuf = is_protobuf
        self.comments: list[tuple[int, int]] = []
        self.has_calls = False

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)


class Token:
    """A token. The parser uses ``type``, the tree builder the rest."""

    __slots__ = ("ctx", "end", "start", "type", "value")

    def __init__(self, type: str, value: str, start: int, end: int, ctx: ParseContext):
        self.type = type
        self.value = value
        self.start = start
        self.end = end
        self.ctx = ctx

    @property
    def span(self) -> Span:
        return Span(self.ctx.source, self.start, self.end)


class ParseAborted(Exception):
    """The text cannot be parsed any further; the report has the error."""
