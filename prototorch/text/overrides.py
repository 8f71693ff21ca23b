"""Overrides from the command line: ``classes=10`` sets a param, ``fit.epochs=3`` a field of a block or of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import TextError, UsageError, did_you_mean
from .evaluate import to_python
from .mistakes import Report
from .naming import strings
from .reader import parse_value
from .source import Source, Span
from .tree import Body, Document, Expression, Field, LooseWord, Scalar, Typed, Value, Word

BLOCKS = ("preprocess", "augment", "compile", "fit", "data")  # made where the text has none


@dataclass(frozen=True, slots=True)
class Setting:
    """``path=value``: the parts of the path, the value, and where the path's last part was written."""

    path: tuple[str, ...]
    value: Value
    span: Span


def split(settings: Sequence[str]) -> tuple[dict[str, Any], list[Setting]]:
    """Settings as values for params (a path of one part) and the others; UsageError for what is no setting."""
    params: dict[str, Any] = {}
    others: list[Setting] = []
    for text in settings:
        path, sign, written = text.partition("=")
        parts = tuple(part.strip() for part in path.split("."))
        if not sign or not all(parts):
            raise UsageError(f"--set takes name=value or block.field=value, not {text!r}.")
        value = _value(written, text)
        if len(parts) == 1:
            params[parts[0]] = to_python(value)
        else:
            others.append(Setting(parts, value, Span(Source(text, "--set"), 0, len(path))))
    return params, others


def _value(written: str, text: str) -> Value:
    """The value; what is none in the model language is a string."""
    start = len(text) - len(written)
    span = Span(Source(text, "--set"), start, len(text))
    try:
        value = parse_value(written)
    except TextError:
        return Scalar(written, span)
    if isinstance(value, Expression):
        raise UsageError(f"--set takes a plain value, not an expression: {text!r}.")
    return LooseWord(value.text, span) if isinstance(value, Word) else replace(value, span=span)


def apply(document: Document, settings: Sequence[Setting], report: Report) -> Document:
    """The expanded document with the settings in it; what cannot be found goes to the report."""
    statements: tuple[Any, ...] = document.statements
    for setting in settings:
        statements = _apply(statements, setting, report)
    return replace(document, statements=statements)


def _apply(statements: tuple[Any, ...], setting: Setting, report: Report) -> tuple[Any, ...]:
    first = setting.path[0]
    for number, f in enumerate(statements):
        if f.name == first and isinstance(f.value, Body) and first in BLOCKS:
            changed = replace(f, value=_set(f.value, setting.path[1:], setting, report))
            return (*statements[:number], changed, *statements[number + 1 :])
    if first in BLOCKS:
        return (
            *statements,
            Field(first, _set(Body(()), setting.path[1:], setting, report), setting.span, setting.span),
        )
    names: list[str] = []
    changed_all = _in_layers(statements, setting, report, names)
    if changed_all is None:
        hint = did_you_mean(first, [*names, *BLOCKS])
        report.add(f"There is no layer and no block named {first!r} to set.{hint}", setting.span)
        return statements
    return changed_all


def _in_layers(
    statements: tuple[Any, ...], setting: Setting, report: Report, names: list[str]
) -> tuple[Any, ...] | None:
    """The statements with the setting in the layer of that name, branches searched too; None where there is none."""
    for number, f in enumerate(statements):
        if not isinstance(f.value, Body):
            continue
        name = next((n for g in f.value.fields if g.name == "name" for n in strings(g.value)), "")
        names.append(name)
        depth = name.count(".") + 1
        if name and ".".join(setting.path[:depth]) == name and len(setting.path) > depth:
            inner: Any = _set(f.value, setting.path[depth:], setting, report)
        else:
            found = _in_layers(f.value.fields, setting, report, names)
            if found is None:
                continue
            inner = replace(f.value, statements=found)
        return (*statements[:number], replace(f, value=inner), *statements[number + 1 :])
    return None


def _set(body: Body, path: tuple[str, ...], setting: Setting, report: Report) -> Body:
    """A body with one field set; fields of the same name after the first are dropped."""
    name, rest = path[0], path[1:]
    made: list[Any] = []
    done = False
    for f in body.statements:
        if f.name != name:
            made.append(f)
        elif not done:
            made.append(_changed(f, rest, setting, report))
            done = True
    if not done:
        made.append(_changed(Field(name, Body(()), setting.span, setting.span), rest, setting, report))
    return replace(body, statements=tuple(made))


def _changed(f: Field, rest: tuple[str, ...], setting: Setting, report: Report) -> Field:
    if not rest:
        return Field(f.name, setting.value, setting.span, setting.span, f.trivia, f.chain)
    value = f.value
    if isinstance(value, Body):
        return replace(f, value=_set(value, rest, setting, report))
    if isinstance(value, Typed):
        return replace(f, value=replace(value, body=_set(value.body, rest, setting, report)))
    if isinstance(value, Word) or strings(value):
        word = value.text if isinstance(value, Word) else strings(value)[0]
        return replace(f, value=Typed(word, _set(Body(()), rest, setting, report), value.span, value.span))
    report.add(f"{f.name!r} has no fields, so that {rest[0]!r} cannot be set in it.", setting.span)
    return f
