"""Overrides from the command line: ``classes=10`` sets a param, ``fit.epochs=3`` a field of a block or of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.errors import ModelWarning, TextError, UsageError, did_you_mean, warn_user
from prototorch.text.diagnostics import SETTING, Report
from prototorch.text.expressions import Name
from prototorch.text.name_resolution import string_values
from prototorch.text.operands import to_operand
from prototorch.text.reader import parse_value
from prototorch.text.source import Source, Span
from prototorch.text.syntax_tree import (
    Body,
    Document,
    Expression,
    Field,
    ListValue,
    Param,
    Scalar,
    ShellWord,
    TypedBlock,
    Value,
    Word,
)

BLOCKS = ("preprocess", "augment", "weights", "compile", "fit", "data")  # made where the text has none


@dataclass(frozen=True, slots=True)
class Override:
    """``path=value``: the parts of the path, the value, and where the path's last part was written."""

    path: tuple[str, ...]
    value: Value
    span: Span


def parse_overrides(settings: Sequence[str]) -> tuple[dict[str, Any], list[Override]]:
    """Settings as values for params (a path of one part) and the others; UsageError for what is no setting."""
    params: dict[str, Any] = {}
    others: list[Override] = []
    for text in settings:
        path, sign, value_text = text.partition("=")
        parts = tuple(part.strip() for part in path.split("."))
        if not sign or not all(parts):
            raise UsageError(f"--set takes name=value or block.field=value, not {text!r}.")
        value = _parse_override_value(value_text, text)
        if len(parts) == 1:
            params[parts[0]] = to_operand(value)
        else:
            others.append(Override(parts, value, Span(Source(text, SETTING), 0, len(path))))
    return params, others


def strings_in(settings: Sequence[str]) -> list[str]:
    """All strings in the values of settings: what the command line itself names."""
    return [text for setting in parse_overrides(settings)[1] for text in _strings_in(setting.value)]


def _strings_in(value: Any) -> list[str]:
    """The strings and words in a value, its lists and its blocks."""
    if isinstance(value, Body):
        return [text for field in value.fields for text in _strings_in(field.value)]
    if isinstance(value, TypedBlock):
        return _strings_in(value.body)
    if isinstance(value, ListValue):
        return [text for item in value.items for text in _strings_in(item)]
    return [value.text] if isinstance(value, Word) else string_values(value)


def _parse_override_value(value_text: str, text: str) -> Value:
    """The value; what is none in the model language is a string."""
    start = len(text) - len(value_text)
    span = Span(Source(text, SETTING), start, len(text))
    try:
        value = parse_value(value_text)
    except TextError:
        return Scalar(value_text, span)
    if isinstance(value, Expression):
        raise UsageError(f"--set takes a plain value, not an expression: {text!r}.")
    return ShellWord(value.text, span) if isinstance(value, Word) else replace(value, span=span)


def set_epochs_param(
    document: Document, params: dict[str, Any], settings: list[Override]
) -> tuple[dict[str, Any], list[Override]]:
    """Params and settings, where ``fit.epochs`` of a text with ``fit { epochs: $epochs }`` sets that param, so that
    what else is computed from it (a schedule) follows.

    Warns (ModelWarning) if the text has a param ``epochs`` that ``fit.epochs`` does not read, with another value.
    """
    setting = next((one for one in settings if one.path == ("fit", "epochs")), None)
    if setting is None or not isinstance(setting.value, Scalar):
        return params, settings
    own = {s.name: s for s in document.statements if isinstance(s, Param)}
    fits = [s.value for s in document.statements if isinstance(s, Field) and s.name == "fit"]
    fields = [f for body in fits if isinstance(body, Body) for f in body.fields if f.name == "epochs"]
    root = fields[0].value.root if len(fields) == 1 and isinstance(fields[0].value, Expression) else None
    if isinstance(root, Name) and root.name in own and root.name not in params:
        return {**params, root.name: setting.value.value}, [one for one in settings if one is not setting]
    param = own.get("epochs")
    value = params.get("epochs", getattr(param.value, "value", None)) if param is not None else setting.value.value
    if value != setting.value.value:
        warn_user(
            f"fit.epochs is set to {setting.value.value}, and the text's param epochs stays {value}: what is computed "
            "from it, such as a schedule, is for that many epochs; --set epochs=N sets the param",
            ModelWarning,
        )
    return params, settings


def apply_overrides(document: Document, settings: Sequence[Override], report: Report) -> Document:
    """The expanded document with the settings in it; what cannot be found goes to the report."""
    statements: tuple[Any, ...] = document.statements
    for setting in settings:
        statements = _apply_override(statements, setting, report)
    return replace(document, statements=statements)


def _apply_override(statements: tuple[Any, ...], setting: Override, report: Report) -> tuple[Any, ...]:
    first = setting.path[0]
    for number, f in enumerate(statements):
        if f.name == first and isinstance(f.value, Body) and first in BLOCKS:
            changed = replace(f, value=_set_field(f.value, setting.path[1:], setting, report))
            return (*statements[:number], changed, *statements[number + 1 :])
    if first in BLOCKS:
        return (
            *statements,
            Field(first, _set_field(Body(()), setting.path[1:], setting, report), setting.span, setting.span),
        )
    names: list[str] = []
    changed_all = _set_in_layers(statements, setting, report, names)
    if changed_all is None:
        hint = did_you_mean(first, [*names, *BLOCKS])
        report.add(f"There is no layer and no block named {first!r} to set.{hint}", setting.span)
        return statements
    return changed_all


def _set_in_layers(
    statements: tuple[Any, ...], setting: Override, report: Report, names: list[str]
) -> tuple[Any, ...] | None:
    """The statements with the setting in the layer of that name, branches searched too; None where there is none."""
    for number, f in enumerate(statements):
        if not isinstance(f.value, Body):
            continue
        name = next((n for g in f.value.fields if g.name == "name" for n in string_values(g.value)), "")
        names.append(name)
        depth = name.count(".") + 1
        if name and ".".join(setting.path[:depth]) == name and len(setting.path) > depth:
            inner: Any = _set_field(f.value, setting.path[depth:], setting, report)
        else:
            fields = _set_in_layers(f.value.fields, setting, report, names)
            if fields is None:
                continue
            inner = replace(f.value, statements=fields)
        return (*statements[:number], replace(f, value=inner), *statements[number + 1 :])
    return None


def _set_field(body: Body, path: tuple[str, ...], setting: Override, report: Report) -> Body:
    """A body with one field set; fields of the same name after the first are dropped."""
    name, rest = path[0], path[1:]
    statements: list[Any] = []
    is_set = False
    for f in body.statements:
        if f.name != name:
            statements.append(f)
        elif not is_set:
            statements.append(_replace_value(f, rest, setting, report))
            is_set = True
    if not is_set:
        statements.append(_replace_value(Field(name, Body(()), setting.span, setting.span), rest, setting, report))
    return replace(body, statements=tuple(statements))


def _replace_value(f: Field, rest: tuple[str, ...], setting: Override, report: Report) -> Field:
    if not rest:
        return Field(f.name, setting.value, setting.span, setting.span, f.trivia, f.chain)
    value = f.value
    if isinstance(value, Body):
        return replace(f, value=_set_field(value, rest, setting, report))
    if isinstance(value, TypedBlock):
        return replace(f, value=replace(value, body=_set_field(value.body, rest, setting, report)))
    if isinstance(value, Word) or string_values(value):
        word = value.text if isinstance(value, Word) else string_values(value)[0]
        return replace(f, value=TypedBlock(word, _set_field(Body(()), rest, setting, report), value.span, value.span))
    report.add(f"{f.name!r} has no fields, so that {rest[0]!r} cannot be set in it.", setting.span)
    return f
