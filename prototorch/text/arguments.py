"""Params and arguments: checks against their declarations, and binding."""

from __future__ import annotations

from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text.operands import render_value
from prototorch.text.source import Span
from prototorch.text.syntax_tree import BlockDef, Field, InvalidValue


def check_param(name: str, old: Any, new: Any) -> str | None:
    """The error message for a caller's value of a param whose default is ``old``; None if it fits."""
    if old is None or new is None or isinstance(old, InvalidValue) or _type_name(old) == _type_name(new):
        return None
    if isinstance(old, float) and _type_name(new) == "an integer":
        return None
    return f"The param {name!r} is {_type_name(old)} ({render_value(old)}), and was given {render_value(new)}."


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number"
    return "a string" if isinstance(value, str) else "a list" if isinstance(value, list) else "a block"


def check_arguments(block: BlockDef) -> list[tuple[str, Span | None]]:
    """Errors in the argument list of a block."""
    errors: list[tuple[str, Span | None]] = []
    names: set[str] = set()
    for argument in block.arguments:
        if argument.name in ("name", "bottom"):
            message = f"An argument cannot be called {argument.name!r}: every use of a block has it."
            errors.append((message, argument.span))
        if argument.name in names:
            errors.append((f"The argument {argument.name!r} is given twice.", argument.span))
        names.add(argument.name)
    return errors


def bind_arguments(use: Field, block: BlockDef) -> tuple[dict[str, Field], list[tuple[str, Span | None]]]:
    """The fields of a use by name, and what is wrong with them.

    An unknown field is stored under its hint, so that the argument it meant is not reported as missing.
    """
    names = {a.name: a for a in block.arguments}
    fields: dict[str, Field] = {}
    errors: list[tuple[str, Span | None]] = []
    for f in use.value.statements:
        if not isinstance(f, Field):
            errors.append((f"A use of a block holds its arguments only: {block.name} {{ name: value }}.", f.span))
        elif not f.name:
            fields["?"] = f  # a statement with a syntax error: its field is unknown
        elif f.name in fields:
            errors.append((f"{block.name}.{f.name} is given twice.", f.name_span))
        elif f.name in names or f.name in ("name", "bottom"):
            fields[f.name] = f
        else:
            hint = did_you_mean(f.name, names) or (f" It has {', '.join(names)}." if names else " It has none.")
            errors.append((f"The block {block.name} has no argument {f.name!r}.{hint}", f.name_span))
            fields[hint] = f
    return fields, errors
