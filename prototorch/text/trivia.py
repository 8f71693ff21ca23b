"""Trivia: comments and empty lines, attached to the statements they belong to, for the writer."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Any

from prototorch.text.source import Source
from prototorch.text.syntax_tree import Body, CallBody, Document, Field, If, Trivia, TypedBlock


def attach_trivia(document: Document, comments: list[tuple[int, int]]) -> Document:
    """The document with each statement's comments and empty lines in its ``trivia``."""
    source = document.source
    if source is None:
        return document
    walker = _TriviaAttacher(source, comments)
    statements = walker.statements(document.statements, 0)
    last = statements[-1].span.end if statements else 0
    return replace(document, statements=statements, closing=walker.closing(last, len(source.text)))


class _TriviaAttacher:
    """Goes over the statements in the order of the text, handing out the comments as it passes them."""

    def __init__(self, source: Source, comments: list[tuple[int, int]]):
        self.source = source
        self.starts = [start for start, _ in comments]
        self.lines = [self.line(start) for start in self.starts]
        self.texts = [source.text[start:end].rstrip() for start, end in comments]
        self.next = 0

    def rest(self, end: int) -> tuple[str, ...]:
        """All comments before ``end`` that were not handed out; an empty line between two of them is an empty text."""
        stop = bisect_left(self.starts, end)
        comments: list[str] = []
        for at in range(self.next, stop):
            if comments and self.lines[at] > self.lines[at - 1] + 1:
                comments.append("")
            comments.append(self.texts[at])
        self.next = max(self.next, stop)
        return tuple(comments)

    def closing(self, last: int, end: int) -> tuple[str, ...]:
        """The comments after the statement that ends at ``last`` (0: there is none), up to ``end``."""
        first = self.next
        comments = self.rest(end)
        blank = bool(comments) and last > 0 and self.lines[first] > self.line(last - 1) + 1
        return ("", *comments) if blank else comments

    def line(self, offset: int) -> int:
        return self.source.position(offset)[0]

    def statements(self, statements: tuple[Any, ...], begin: int) -> tuple[Any, ...]:
        """The statements of one level, which starts at ``begin``."""
        attached = []
        last = self.line(begin) if begin else 0
        for number, statement in enumerate(statements):
            first = self.next
            before = self.rest(statement.span.start)
            start = self.line(statement.span.start)
            top = self.lines[first] if before else start
            blank = top > last + 1 and bool(number or begin == 0) and last > 0
            if before and start > self.lines[self.next - 1] + 1:
                before = (*before, "")
            statement = self.inside(statement)
            end = statement.span.end
            stray = self.rest(end)  # comments inside a value go before the statement
            following = statements[number + 1].span.start if number + 1 < len(statements) else None
            trailing = self.trailing(end, following)
            trivia = Trivia((*before, *stray), trailing, blank)
            attached.append(replace(statement, trivia=trivia) if trivia != _NO_TRIVIA else statement)
            last = self.line(end - 1)
        return tuple(attached)

    def trailing(self, end: int, following: int | None) -> str | None:
        """The comment after a statement on its last line, if nothing else follows there."""
        if self.next >= len(self.starts):
            return None
        at = self.starts[self.next]
        same = self.lines[self.next] == self.line(end - 1) and (following is None or at < following)
        if not same or self.source.text[end:at].strip(" \t,;"):
            return None
        self.next += 1
        return self.texts[self.next - 1]

    def inside(self, statement: Any) -> Any:
        """The statement with the comments of its bodies in place."""
        if isinstance(statement, Field):
            value = self.inside_value(statement.value)
            return statement if value is statement.value else replace(statement, value=value)
        if isinstance(statement, If):
            arms = tuple((condition, self.body(body)) for condition, body in statement.arms)
            else_body = self.body(statement.else_body) if statement.else_body is not None else None
            return replace(statement, arms=arms, else_body=else_body)
        if hasattr(statement, "body"):
            return replace(statement, body=self.body(statement.body))
        return statement

    def inside_value(self, value: Any) -> Any:
        """The value with the comments of its bodies in place."""
        if isinstance(value, Body):
            return self.body(value)
        if isinstance(value, TypedBlock):
            return replace(value, body=self.inside_value(value.body))
        if isinstance(value, CallBody):
            arguments = tuple(replace(a, value=self.inside_value(a.value)) for a in value.arguments)
            return replace(value, arguments=arguments, body=value.body and self.body(value.body))
        return value

    def body(self, body: Body) -> Body:
        span = body.span
        if span is None:
            return body
        opening = None
        if self.next < len(self.starts) and self.starts[self.next] < span.end:
            at = self.starts[self.next]
            first = at > span.start and not self.source.text[span.start + 1 : at].strip()
            if first and self.line(at) == self.line(span.start):
                opening = self.texts[self.next]
                self.next += 1
        statements = self.statements(body.statements, span.start)
        last = statements[-1].span.end if statements else 0
        return Body(statements, span, opening, self.closing(last, span.end))


_NO_TRIVIA = Trivia()
