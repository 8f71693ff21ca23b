"""From text to syntax tree: `parse`, `parse_value`, `read_file`.

After a syntax error the statement that contains it is skipped and parsing continues, so that one run reports several
errors.

lark builds its LALR tables from the grammar once per process, at the first text that is read: 55 ms of CPU time, 12 %
of `prototorch check lenet`. Tables stored ahead of time saved 50 ms of it; lark's own cache does so through pickle.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark
from lark.lexer import PatternRE

from prototorch.base.package_files import package_folder
from prototorch.errors import FileError
from prototorch.text import limits
from prototorch.text.bare_names import refuse_bare_names
from prototorch.text.diagnostics import Report
from prototorch.text.error_recovery import find_damaged_range, repair_token, starts_new_statement
from prototorch.text.expression_builder import ExpressionError, ExpressionWithDepth
from prototorch.text.foreign_formats import find_foreign_format, replace_call_errors
from prototorch.text.gc_pause import pause_gc
from prototorch.text.lexer import INVALID_TOKEN, Lexer
from prototorch.text.parse_context import ParseAborted, ParseContext, Token
from prototorch.text.parse_tables import ParseTables, UnexpectedTokenError
from prototorch.text.source import Source
from prototorch.text.syntax_errors import explain_unexpected_token
from prototorch.text.syntax_tree import Document, Value
from prototorch.text.tree_builder import ERROR_FIELD, TreeBuilder
from prototorch.text.trivia import attach_trivia

__all__ = ["START_RULES", "decode_utf8", "is_name", "keywords", "parse", "parse_value", "read_file", "read_grammar"]

START_RULES = ["document", "only_value", "only_expression"]
_MAX_RECOVERIES = 20  # syntax errors that one run reports
_MAX_RECOVERY_TOKENS = 50_000  # above this size only one, so that a large broken file does not take long


def read_grammar(is_protobuf: bool = False) -> str:
    """The grammar of our texts, or of Caffe's (``is_protobuf``): the lines of the other are left out."""
    lines = (package_folder("grammars") / "model.lark").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.endswith("// ours" if is_protobuf else "// caffe"))


@cache
def _parser(is_protobuf: bool) -> tuple[ParseTables, Lexer]:
    """Parser and lexer, built once per process."""
    lark = Lark(read_grammar(is_protobuf), parser="lalr", lexer="basic", start=START_RULES, maybe_placeholders=False)
    terminals = [(t.name, t.pattern.value, isinstance(t.pattern, PatternRE)) for t in lark.terminals]
    return ParseTables(lark, START_RULES, TreeBuilder(_parse_placeholder)), Lexer(terminals)


def parse(
    text: str,
    path: str | None = None,
    report: Report | None = None,
    *,
    trivia: bool = False,
    is_protobuf: bool = False,
) -> Document:
    """The syntax tree of a text.

    path: the file the text came from, for messages.
    report: receives the errors, and the document holds the statements that could be parsed; without a report, errors
    are raised as one TextError.
    trivia: attach comments and empty lines to the tree, for the writer.
    is_protobuf: whether strings and numbers are those of protobuf's text format only, as in a text of Caffe.
    """
    diagnostics = Report() if report is None else report
    before = len(diagnostics)
    source = Source(text, path)
    ctx = ParseContext(source, diagnostics, is_protobuf)
    statements: Any = ()
    try:
        _check_characters(ctx)
        with pause_gc():
            statements = _parse_with_recovery("document", ctx)
            if ctx.has_calls and statements:
                statements = refuse_bare_names(statements, diagnostics)
    except ParseAborted:
        pass
    if len(diagnostics) > before and _explain_foreign_text(source, diagnostics, before, is_protobuf):
        statements = ()  # what could be read means nothing
    document = Document(
        statements or (), source, complete=all(e.is_provisional for e in diagnostics.diagnostics[before:])
    )
    if trivia and not diagnostics.diagnostics:
        document = attach_trivia(document, ctx.comments)
    if report is None:
        diagnostics.raise_if_any()
    return document


def _explain_foreign_text(source: Source, report: Report, before: int, is_protobuf: bool) -> bool:
    """Replace the syntax errors of a text in another language, which follow from each other, by one that names it;
    whether it is another language."""
    foreign = find_foreign_format(source, is_protobuf)
    errors = report.diagnostics[before:]
    if foreign is not None:
        errors = [foreign]
    elif is_protobuf:
        errors = replace_call_errors(source, errors)
    report.diagnostics[before:] = errors
    return foreign is not None


def keywords() -> tuple[str, ...]:
    """The words of the grammar."""
    return tuple(_parser(False)[1].keywords)


def is_name(word: str) -> bool:
    """Whether a text can write a name as a bare word: letters a-z, digits, ``_``, and no keyword."""
    return word.isidentifier() and word.isascii() and word not in _parser(False)[1].keywords


def parse_value(text: str, name: str | None = None) -> Value:
    """The value node of a text such as ``[1, 2]``: what may follow ``name:``. Raises TextError if it is not a value."""
    report = Report()
    ctx = ParseContext(Source(text, name), report)
    value: Value = None
    try:
        _check_characters(ctx)
        tokens = list(_parser(False)[1].tokens(ctx))
        value = _parse_tokens(tokens, "only_value", ctx)[0] if tokens else None
        if value is None and not report.diagnostics:
            report.add("This is not a value.", ctx.span(0, len(text)))
    except ParseAborted:
        pass
    report.raise_if_any()
    return value


def decode_utf8(data: bytes, path: str, report: Report) -> str | None:
    """The text of a file's bytes: UTF-8 with an optional byte order mark. None after an error, which is reported."""
    if len(data) > limits.MAX_FILE_BYTES:
        report.add(f"{path}: the file has {len(data)} bytes; the limit is {limits.MAX_FILE_BYTES} (16 MiB).")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        column = bad.start - data.rfind(b"\n", 0, bad.start)
        report.add(f"{path}:{line}:{column}: the byte 0x{data[bad.start]:02x} is not UTF-8. Save the file as UTF-8.")
        return None


def read_file(path: str | os.PathLike[str]) -> str:
    """The text of a file. Raises FileError if it cannot be read, TextError if it is too long or not UTF-8."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(limits.MAX_FILE_BYTES + 1)
    except OSError as error:
        raise FileError(f"{name}: cannot be read: {error.strerror or error}.") from None
    report = Report()
    text = decode_utf8(data, name, report)
    report.raise_if_any()
    assert text is not None
    return text


def _check_characters(ctx: ParseContext) -> None:
    text = ctx.source.text
    if len(text) > limits.MAX_FILE_BYTES:
        ctx.report.add(f"The text has {len(text)} characters; the limit is {limits.MAX_FILE_BYTES}.")
        raise ParseAborted
    for bad, what in (("\0", "A NUL character"),):
        at = text.find(bad)
        if at >= 0:
            ctx.report.add(f"{what} is not allowed in a text. Is this a text file?", ctx.span(at, at + 1))
            raise ParseAborted
    at = text.find("\r")
    while at >= 0:
        if text[at + 1 : at + 2] != "\n":
            ctx.report.add("A carriage return must be followed by a line feed.", ctx.span(at, at + 1))
            raise ParseAborted
        at = text.find("\r", at + 1)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as bad_one:
            at = bad_one.start
            ctx.report.add("Half a character (a lone surrogate) is not allowed in a text.", ctx.span(at, at + 1))
            raise ParseAborted from None


def _parse_with_recovery(start: str, ctx: ParseContext) -> Any:
    """Parse; after a syntax error skip the statement that contains it and parse again."""
    lexer = _parser(ctx.is_protobuf)[1]
    result, fits = _parse_stream(lexer.tokens(ctx), start, ctx)
    if fits:
        return result
    tokens = list(lexer.tokens(ctx))
    for _ in range(_MAX_RECOVERIES):
        result, failure = _parse_tokens(tokens, start, ctx)
        if failure is None:
            return result
        if len(tokens) > _MAX_RECOVERY_TOKENS or not tokens:
            return None
        if repair_token(tokens, failure.at):
            continue
        begin, end = find_damaged_range(tokens, failure.at, failure.complete)
        tokens = tokens[:begin] + ([] if failure.complete else _error_field_tokens(tokens[begin])) + tokens[end:]
    return None


def _error_field_tokens(token: Token) -> list[Token]:
    """Tokens that replace a skipped statement by an error field, so that its absence is not reported again."""
    kinds = (("NAME", ERROR_FIELD), ("COLON", ":"), ("NAME", ERROR_FIELD))
    return [Token(kind, value, token.start, token.start + 1, token.ctx) for kind, value in kinds]


def _parse_stream(tokens: Iterator[Token], start: str, ctx: ParseContext) -> tuple[Any, bool]:
    """The result and True if every token fits; the tokens are not stored."""
    try:
        return _parser(ctx.is_protobuf)[0].parse(tokens, start), True
    except (UnexpectedTokenError, ExpressionError):
        return None, False


@dataclass(frozen=True, slots=True)
class _SyntaxFailure:
    """The index of the unexpected token, and whether the statement before it is complete."""

    at: int
    complete: bool


def _parse_tokens(tokens: list[Token], start: str, ctx: ParseContext) -> tuple[Any, _SyntaxFailure | None]:
    """The result, or None and the failure, which is explained in the report."""
    try:
        return _parser(ctx.is_protobuf)[0].parse(tokens, start), None
    except UnexpectedTokenError as unexpected:
        at, accepts = unexpected.at, unexpected.accepts
        near = tokens[max(0, at - 1) : at + 1]
        if (
            not any(t.value == ERROR_FIELD for t in near)
            and near[-1:]
            and (near[-1].type != INVALID_TOKEN or at == len(tokens))
        ):
            message, span = explain_unexpected_token(tokens, at, accepts, ctx)
            ctx.report.add(message, span)
        return None, _SyntaxFailure(at, {"IF", "PARAM"} <= accepts and starts_new_statement(near))
    except ExpressionError as wrong:
        ctx.report.add(str(wrong), wrong.span)
        wrong_start = wrong.span.start if wrong.span is not None else 0
        at = min(bisect_right(tokens, wrong_start, key=lambda t: t.start), len(tokens) - 1)
        return None, _SyntaxFailure(at, False)


def _parse_placeholder(ctx: ParseContext, start: int, end: int) -> ExpressionWithDepth:
    """The expression inside a ``${...}`` of a string."""
    inner = ParseContext(ctx.source, ctx.report)  # with comments of its own
    result, failure = _parse_tokens(list(_parser(False)[1].tokens(inner, start, end)), "only_expression", inner)
    if failure is not None:
        raise ParseAborted
    return result
