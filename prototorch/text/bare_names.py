"""Where a name alone, ``x = ...``, ``... -> (x, y)`` and ``input "x"`` may stand: only where layers stand. There a
name is a layer or a block without fields, and an output has a name; anywhere else it is a field without a value, or one
with ``=`` for ``:``, or with a string behind a missing ``:``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from prototorch.text.call_schema import schema_at
from prototorch.text.diagnostics import Report
from prototorch.text.lexer import EQUALS_SIGN
from prototorch.text.name_resolution import BODIES_OF_LAYERS, TOP_LEVEL_BLOCKS, TOP_LEVEL_FIELDS
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    Body,
    CallBody,
    Field,
    If,
    InvalidValue,
    Let,
    ListValue,
    Param,
    Scalar,
    TypedBlock,
    Word,
)

__all__ = ["explain_field_without_value", "refuse_bare_names"]

_INPUTS = ("input", "Input")  # what a bare name of is followed by its own, in a text of mistakes


def refuse_bare_names(
    statements: tuple[Any, ...], report: Report, layers_stand: bool | None = True, bodies: Collection[str] = ()
) -> tuple[Any, ...]:
    """The statements of a text, or of a body; a bare name that is none of a layer is reported, and becomes a field
    without a value.

    layers_stand: whether they are layers; None in the braces of what may be a block's use, where both may stand: what
    is used decides. bodies: names of fields that hold layers in braces.
    """
    if layers_stand is None:
        return _check_all(statements, report, None)
    new_statements: list[Any] = []
    explained_line = 0  # the line of the last mistake: what follows on it belongs to it
    for number, s in enumerate(statements):
        if isinstance(s, Field) and s.outputs:
            s = _check_outputs(s, report, layers_stand)
        following = statements[number + 1] if number + 1 < len(statements) else None
        if layers_stand and following is not None and _names_several(s, following):
            names = ", ".join((s.name, following.outputs[0].text))
            report.add(f"Several outputs are named behind the layer: {following.name}(...) -> ({names}).", s.name_span)
            new_statements.append(Field("", InvalidValue(s.span), s.span, s.span))
            continue
        is_bare = isinstance(s, Field) and isinstance(s.value, CallBody) and s.value.is_bare
        behind = statements[number + 1 : number + 2]
        if is_bare and (not layers_stand or _has_fields_behind(s, behind) or _has_name_behind(s, behind)):
            if explained_line != s.span.line:
                message = _explain(s, statements[number + 1 :])
                report.add(message, s.name_span)
                explained_line = s.span.line
            new_statements.append(Field("", InvalidValue(s.span), s.span, s.span))
        elif isinstance(s, Field) and s.name in bodies:
            new_statements.append(s)
        else:
            new_statements.append(_check_statement(s, report, layers_stand))
    same = all(new is old for new, old in zip(new_statements, statements, strict=True))
    return statements if same else tuple(new_statements)


def _check_all(statements: tuple[Any, ...], report: Report, layers_stand: bool | None) -> tuple[Any, ...]:
    new_statements = tuple(_check_statement(s, report, layers_stand) for s in statements)
    same = all(new is old for new, old in zip(new_statements, statements, strict=True))
    return statements if same else new_statements


def _names_several(s: Any, following: Any) -> bool:
    """Whether two statements are ``x, y = Layer(...)``."""
    if not isinstance(s, Field) or not isinstance(s.value, CallBody) or not s.value.is_bare or s.outputs:
        return False
    if not isinstance(following, Field) or not following.outputs or s.span is None or following.span is None:
        return False
    between = s.span.source.text[s.span.end : following.span.start]
    first = following.outputs[0].span
    return first is not None and first.start == following.span.start and between.strip(" \t") == ","


def _check_outputs(s: Field, report: Report, layers_stand: bool) -> Field:
    """Report names of outputs where there are none; the statement without them."""
    fields = [word for word in s.outputs if word.text in TOP_LEVEL_FIELDS]
    if layers_stand and not fields:
        return s
    first = s.outputs[0]
    if first.span is None or s.name_span is None or first.span.start < s.name_span.start:
        return _read_as_field(s, first, report)
    if layers_stand:
        message = f"{fields[0].text!r} is a field of the text, and no name of an output."
        report.add(message, fields[0].span)
    else:
        report.add("Only outputs of the net's layers and blocks are named by '->'.", first.span)
    return replace(s, outputs=())


def _read_as_field(s: Field, output: Word, report: Report) -> Field:
    """Report ``activation = relu``, where a field stands; the field."""
    at = output.span.source.text.find("=", output.span.end) if output.span is not None else 0
    report.add(EQUALS_SIGN, output.span and Span(output.span.source, at, at + 1))
    value: Any = TypedBlock(s.name, s.value, s.span, s.name_span)
    if isinstance(s.value, CallBody) and s.value.is_bare:
        is_truth = s.name in ("true", "false")
        value = Scalar(s.name == "true", s.name_span, s.name) if is_truth else Word(s.name, s.name_span)
    return Field(output.text, value, s.span, output.span)


def explain_field_without_value(name: str) -> str:
    """The message for a field, or a layer where none can stand, that has a name only."""
    hint = f"{name} {{ }}" if name[0].isupper() else f"{name}: ... or {name} {{ ... }}"
    return f"{name} needs a value: {hint}."


def _explain(s: Field, rest: Sequence[Any]) -> str:
    next_statement = rest[0] if rest else None
    name = getattr(next_statement, "name", "")
    if s.name in _INPUTS and name and next_statement is not None and _is_on_line_of(s.span, next_statement.span):
        return f'The name of an {s.name} is written in quotes: {s.name} "{name}" {{ ... }}.'
    if next_statement is None or not name or not _is_on_line_of(s.span, next_statement.span):
        return explain_field_without_value(s.name)
    if s.name[0].isupper():
        return f"A '{{' is missing after {s.name}: {s.name} {{ {name}: ... }}."
    return f"A ':' is missing between {s.name} and {name!r}."


def _has_fields_behind(s: Field, rest: Sequence[Any]) -> bool:
    """Whether a field with a value follows on the line of a layer: its brace is missing."""
    return any(
        isinstance(f, Field)
        and bool(f.name)
        and not isinstance(f.value, Body | CallBody)
        and _is_on_line_of(s.span, f.span)
        for f in rest
    )


def _has_name_behind(s: Field, rest: Sequence[Any]) -> bool:
    """Whether an input and the name that follows on its line are ``input image { ... }``."""
    return (
        s.name in _INPUTS
        and not s.outputs
        and any(isinstance(f, Field) and _is_on_line_of(s.span, f.span) for f in rest)
    )


def _is_on_line_of(first: Span | None, second: Span | None) -> bool:
    return first is not None and second is not None and first.line == second.line


def _check_statement(s: Any, report: Report, layers_stand: bool | None) -> Any:
    if isinstance(s, Field):
        stand: bool | None = isinstance(s.value, Body) and s.name in BODIES_OF_LAYERS
        if not stand and layers_stand is not False and isinstance(s.value, Body | CallBody | TypedBlock):
            is_block = layers_stand is None if isinstance(s.value, TypedBlock) else _may_be_block(s.name)
            stand = None if is_block else False
        value = _check_value(s.value, report, stand)
        return s if value is s.value else replace(s, value=value)
    if isinstance(s, Param | Let):
        value = _check_value(s.value, report, False)
        return s if value is s.value else replace(s, value=value)
    if isinstance(s, If):
        arms = tuple((condition, _check_body(body, report, layers_stand)) for condition, body in s.arms)
        else_body = _check_body(s.else_body, report, layers_stand) if s.else_body is not None else None
        same = else_body is s.else_body and all(a[1] is b[1] for a, b in zip(arms, s.arms, strict=True))
        return s if same else replace(s, arms=arms, else_body=else_body)
    if hasattr(s, "body"):
        body = _check_body(s.body, report, layers_stand)
        return s if body is s.body else replace(s, body=body)
    return s


def _may_be_block(name: str) -> bool:
    return name not in TOP_LEVEL_BLOCKS and schema_at((name,)) is None


def _check_value(value: Any, report: Report, layers_stand: bool | None) -> Any:
    if isinstance(value, Body):
        return _check_body(value, report, layers_stand)
    if isinstance(value, TypedBlock):
        body = _check_value(value.body, report, None if layers_stand is None and _may_be_block(value.word) else False)
        return value if body is value.body else replace(value, body=body)
    if isinstance(value, CallBody):
        values = [_check_value(a.value, report, None if layers_stand is None else False) for a in value.arguments]
        arguments = tuple(_replace_value(a, new) for a, new in zip(value.arguments, values, strict=True))
        body = _check_body(value.body, report, layers_stand) if value.body is not None else None
        same = body is value.body and all(a is b for a, b in zip(arguments, value.arguments, strict=True))
        return value if same else replace(value, arguments=arguments, body=body)
    if isinstance(value, ListValue):
        items = tuple(_check_value(item, report, False) for item in value.items)
        same = all(a is b for a, b in zip(items, value.items, strict=True))
        return value if same else ListValue(items, value.span)
    return value


def _replace_value(argument: Any, value: Any) -> Any:
    return argument if value is argument.value else replace(argument, value=value)


def _check_body(body: Body, report: Report, layers_stand: bool | None) -> Body:
    statements = refuse_bare_names(body.statements, report, layers_stand)
    return body if statements is body.statements else replace(body, statements=statements)
