"""From text to tree: ``parse``, ``parse_value``, ``read_file``. This module and `tables` alone know lark.

A mistake in the grammar is explained, the statement it stands in is left out, and the rest is read again, so that one
run finds several.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedToken
from lark.lexer import PatternRE

from ..errors import FileError
from . import limits
from .build import DAMAGED, Builder, Depth, TooDeep
from .collection import no_collection
from .explain import explain
from .lexer import ODD, Broken, Job, Lexer, Token
from .mistakes import Report
from .recover import damaged, starts_anew
from .source import Source
from .tables import parser
from .tree import Document, Value
from .trivia import attach

_RETRIES = 20  # mistakes in the grammar that one run looks for
_RETRY_TOKENS = 50_000  # above this size only one, so that a large broken file does not take long


@cache
def _parser() -> tuple[Lark, Lexer]:
    """Parser and lexer, made once a process."""
    lark = parser(Builder(_fill))
    terminals = [(t.name, t.pattern.value, isinstance(t.pattern, PatternRE)) for t in lark.terminals]
    return lark, Lexer(terminals)


def parse(text: str, path: str | None = None, report: Report | None = None, *, trivia: bool = False) -> Document:
    """The tree of a text.

    path: the file it came from, for messages.
    report: takes the mistakes, and the document holds what could be read; without one they are raised as TextError.
    trivia: keep comments and empty lines, for the writer.
    """
    mine = Report() if report is None else report
    before = len(mine)
    source = Source(text, path)
    job = Job(source, mine)
    statements: Any = ()
    try:
        _check_characters(job)
        with no_collection():
            statements = _run("document", job)
    except Broken:
        pass
    document = Document(statements or (), source, complete=len(mine) == before)
    if trivia and not mine.mistakes:
        document = attach(document, job.comments)
    if report is None:
        mine.raise_if_any()
    return document


def parse_value(text: str, name: str | None = None) -> Value:
    """One value, as it may stand behind a ``name:``; TextError where it is none."""
    report = Report()
    job = Job(Source(text, name), report)
    value: Value = None
    try:
        _check_characters(job)
        tokens = list(_parser()[1].tokens(job))
        value = _feed(tokens, "only_value", job)[0] if tokens else None
        if value is None and not report.mistakes:
            report.add("This is not a value.", job.span(0, len(text)))
    except Broken:
        pass
    report.raise_if_any()
    return value


def decode(data: bytes, path: str, report: Report) -> str | None:
    """The text of a file's bytes: UTF-8 with an optional byte order mark; None with the mistake in the report."""
    if len(data) > limits.FILE_BYTES:
        report.add(f"{path}: the file has {len(data)} bytes; the limit is {limits.FILE_BYTES} (16 MiB).")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        column = bad.start - data.rfind(b"\n", 0, bad.start)
        report.add(f"{path}:{line}:{column}: the byte 0x{data[bad.start]:02x} is not UTF-8. Save the file as UTF-8.")
        return None


def read_file(path: str | os.PathLike[str]) -> str:
    """The text of a file. Raises FileError where it cannot be read, TextError where it is too long or not UTF-8."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(limits.FILE_BYTES + 1)
    except OSError as error:
        raise FileError(f"{name}: cannot be read: {error.strerror or error}.") from None
    report = Report()
    text = decode(data, name, report)
    report.raise_if_any()
    assert text is not None
    return text


def _check_characters(job: Job) -> None:
    text = job.source.text
    if len(text) > limits.FILE_BYTES:
        job.report.add(f"The text has {len(text)} characters; the limit is {limits.FILE_BYTES}.")
        raise Broken
    for bad, what in (("\0", "A NUL character"),):
        at = text.find(bad)
        if at >= 0:
            job.report.add(f"{what} cannot stand in a text. Is this a text file?", job.span(at, at + 1))
            raise Broken
    at = text.find("\r")
    while at >= 0:
        if text[at + 1 : at + 2] != "\n":
            job.report.add("A carriage return stands only before a line feed.", job.span(at, at + 1))
            raise Broken
        at = text.find("\r", at + 1)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as bad_one:
            at = bad_one.start
            job.report.add("Half a character (a lone surrogate) cannot stand in a text.", job.span(at, at + 1))
            raise Broken from None


def _run(start: str, job: Job) -> Any:
    """Parse; after a mistake leave out the statement it stands in and parse again."""
    lexer = _parser()[1]
    result, fits = _stream(lexer.tokens(job), start, job)
    if fits:
        return result
    tokens = list(lexer.tokens(job))
    for _ in range(_RETRIES):
        result, failure = _feed(tokens, start, job)
        if failure is None:
            return result
        if len(tokens) > _RETRY_TOKENS or not tokens:
            return None
        begin, end = damaged(tokens, failure.at, failure.complete)
        tokens = tokens[:begin] + ([] if failure.complete else _marker(tokens[begin])) + tokens[end:]
    return None


def _marker(token: Token) -> list[Token]:
    """``damaged: damaged`` in the place of a statement, so that nobody misses what stood there."""
    kinds = (("NAME", DAMAGED), ("COLON", ":"), ("NAME", DAMAGED))
    return [Token(kind, value, token.start, token.start + 1, token.job) for kind, value in kinds]


def _stream(tokens: Iterator[Token], start: str, job: Job) -> tuple[Any, bool]:
    """The result and True, where every token fits: no list of them is kept."""
    feed = _parser()[0].parse_interactive("", start).feed_token
    try:
        for token in tokens:
            feed(token)  # type: ignore[arg-type]
        return feed(Token("$END", "", 0, 0, job)), True  # type: ignore[arg-type]
    except (UnexpectedToken, TooDeep):
        return None, False


@dataclass(frozen=True, slots=True)
class _Failure:
    """The number of the token that does not fit, and whether the statement before it is complete."""

    at: int
    complete: bool


def _feed(tokens: list[Token], start: str, job: Job) -> tuple[Any, _Failure | None]:
    """The result, or None and the failure, with its explanation in the report."""
    state = _parser()[0].parse_interactive("", start)
    feed = state.feed_token
    at = 0
    try:
        for token in tokens:
            feed(token)  # type: ignore[arg-type]
            at += 1
        return feed(Token("$END", "", 0, 0, job)), None  # type: ignore[arg-type]
    except UnexpectedToken:
        accepts = set(state.accepts())
        near = tokens[max(0, at - 1) : at + 1]
        if not any(t.value == DAMAGED for t in near) and near[-1:] and (near[-1].type != ODD or at == len(tokens)):
            message, span = explain(tokens, at, accepts, job)
            job.report.add(message, span)
        return None, _Failure(at, {"IF", "PARAM"} <= accepts and starts_anew(near))
    except TooDeep as deep:
        job.report.add(f"This expression has more than {limits.NESTING} parts inside each other.", deep.span)
        at = min(bisect_right(tokens, deep.span.start, key=lambda t: t.start), len(tokens) - 1)
        return None, _Failure(at, False)


def _fill(job: Job, start: int, end: int) -> Depth:
    """The expression inside ``${...}`` of a string."""
    comments = list(job.comments)
    tokens = list(_parser()[1].tokens(job, start, end))
    job.comments[:] = comments
    result, failure = _feed(tokens, "only_expression", job)
    if failure is not None:
        raise Broken
    return result
