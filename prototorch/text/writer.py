"""From tree to text: one canonical layout, comments kept. ``read(write(tree)) == tree``; writing twice changes nothing.

A body stands on one line where it is short and holds plain fields only, or one statement; else each statement has its
line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .expression_text import expression_text
from .strings import quote
from .tree import (
    BlockDef,
    Body,
    Document,
    Expression,
    Field,
    If,
    Include,
    ListValue,
    Param,
    Repeat,
    Scalar,
    Trivia,
    Typed,
    Value,
    Word,
)

WIDTH = 110  # columns of a line
STEP = "  "
_NONE = Trivia()


def write(document: Document) -> str:
    """The canonical text of a document, with a line end at its end."""
    lines = _lines(document.statements, 0)
    lines.extend(document.closing)
    return "\n".join(lines) + "\n" if lines else ""


def write_fields(fields: Iterable[Field]) -> str:
    """The canonical text of some fields."""
    return write(Document(tuple(fields)))


def value_text(value: Value) -> str:
    """A value on one line, comments left out."""
    if isinstance(value, Scalar):
        return scalar_text(value)
    if isinstance(value, Word):
        return value.text
    if isinstance(value, ListValue):
        return "[" + ", ".join(map(value_text, value.items)) + "]"
    if isinstance(value, Expression):
        return expression_text(value.root)
    if isinstance(value, Typed):
        return f"{value.word} {_braces(value.body)}"
    return _braces(value)


def scalar_text(value: Scalar) -> str:
    """A number as it was spelled, a string quoted."""
    found = value.value
    if isinstance(found, str):
        return quote(found)
    if value.text is not None:
        return value.text
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, float) and math.isnan(found):
        return "nan"
    return repr(found)


def _braces(body: Body) -> str:
    return "{ " + "  ".join(map(_one_line, body.statements)) + " }" if body.statements else "{ }"


def _one_line(s: Any) -> str:
    """A statement on one line, comments left out."""
    if isinstance(s, Field):
        if isinstance(s.value, Body):
            return f"{s.name} {_braces(s.value)}"
        return f"{s.name}: {value_text(s.value)}"
    if isinstance(s, If):
        text = " else ".join(f"if {value_text(c)} {_braces(b)}" for c, b in s.arms)
        return text + (f" else {_braces(s.otherwise)}" if s.otherwise is not None else "")
    if isinstance(s, Param):
        return f"param {s.name}: {value_text(s.value)}"
    if isinstance(s, Include):
        return f"include {quote(s.path)}"
    return f"{_head(s)} {_braces(s.body)}"


def _head(s: Repeat | BlockDef) -> str:
    if isinstance(s, Repeat):
        over = value_text(s.count)
        return f"repeat {over}" if s.variable is None else f"repeat {s.variable} in {over}"
    arguments = (a.name if a.default is None else f"{a.name}: {value_text(a.default)}" for a in s.arguments)
    return f"block {s.name}({', '.join(arguments)})"


def _short(body: Body) -> bool:
    """Whether a body may stand on one line, if it fits."""
    if body.opening is not None or body.closing:
        return False
    if any(s.trivia is not None and (s.trivia.before or s.trivia.behind) for s in body.statements):
        return False
    if len(body.statements) > 1:
        return all(isinstance(s, Field) and _simple(s.value) for s in body.statements)
    return all(all(map(_short, _bodies(s))) for s in body.statements)


def _simple(value: Value) -> bool:
    if isinstance(value, ListValue):
        return all(map(_simple, value.items))
    return not isinstance(value, Body) and not (isinstance(value, Typed) and value.body.statements)


def _bodies(s: Any) -> list[Body]:
    """The bodies directly inside a statement."""
    if isinstance(s, Field):
        return _value_bodies(s.value)
    if isinstance(s, If):
        return [b for _, b in s.arms] + ([s.otherwise] if s.otherwise is not None else [])
    if isinstance(s, Param):
        return _value_bodies(s.value)
    return [s.body] if isinstance(s, Repeat | BlockDef) else []


def _value_bodies(value: Value) -> list[Body]:
    if isinstance(value, Body):
        return [value]
    if isinstance(value, Typed):
        return [value.body]
    return [b for item in value.items for b in _value_bodies(item)] if isinstance(value, ListValue) else []


def _fits(s: Any, indent: int) -> str | None:
    """A statement's one line, where it may have one."""
    if isinstance(s, BlockDef) and s.body.statements:
        return None
    if not all(map(_short, _bodies(s))):
        return None
    if isinstance(s, If) and any(len(b.statements) > 1 for b in _bodies(s)):
        return None
    line = _one_line(s)
    return line if len(line) + len(STEP) * indent <= WIDTH else None


def _lines(statements: tuple[Any, ...], indent: int) -> list[str]:
    """The lines of some statements, indented."""
    lines: list[str] = []
    pad = STEP * indent
    for number, s in enumerate(statements):
        trivia = s.trivia or _NONE
        if trivia.blank and number:
            lines.append("")
        lines.extend(pad + comment for comment in trivia.before)
        line = _fits(s, indent)
        made = [pad + line] if line is not None else _long(s, indent)
        if trivia.behind:
            made[-1] += "  " + trivia.behind
        lines.extend(made)
    return lines


def _long(s: Any, indent: int) -> list[str]:
    """A statement over several lines."""
    pad = STEP * indent
    if isinstance(s, Field | Param):
        head = s.name if isinstance(s, Field) else f"param {s.name}"
        if isinstance(s.value, Body):
            return _block(pad + head, s.value, indent)
        return _long_value(f"{pad}{head}: ", s.value, indent)
    if isinstance(s, If):
        lines: list[str] = []
        for number, (condition, body) in enumerate(s.arms):
            head = f"if {value_text(condition)}"
            made = _block(pad + head if not number else f"{lines.pop()} else {head}", body, indent)
            lines.extend(made)
        if s.otherwise is not None:
            lines.extend(_block(f"{lines.pop()} else", s.otherwise, indent))
        return lines
    if isinstance(s, Include):
        return [pad + _one_line(s)]
    return _block(pad + _head(s), s.body, indent)


def _long_value(head: str, value: Value, indent: int) -> list[str]:
    if isinstance(value, Typed):
        return _block(f"{head}{value.word}", value.body, indent)
    if isinstance(value, ListValue) and value.items:
        return _long_list(head, value, indent)
    if isinstance(value, Body):  # a head of spaces alone is that of an item, whose brace stands where they end
        return _block(head.rstrip() or head[:-1], value, indent)
    return [head + value_text(value)]


def _long_list(head: str, value: ListValue, indent: int) -> list[str]:
    """Simple items fill the lines; any other has lines of its own."""
    pad = STEP * (indent + 1)
    lines = [head + "["]
    filling = False
    for number, item in enumerate(value.items):
        comma = "," if number < len(value.items) - 1 else ""
        text = value_text(item) + comma
        if not _simple(item):
            fits = len(pad) + len(text) <= WIDTH and all(map(_short, _value_bodies(item)))
            lines.extend([pad + text] if fits else _long_value(pad, item, indent + 1))
            if not fits:
                lines[-1] += comma
            filling = False
        elif filling and len(lines[-1]) + 1 + len(text) <= WIDTH:
            lines[-1] += " " + text
        else:
            lines.append(pad + text)
            filling = True
    return [*lines, STEP * indent + "]"]


def _block(head: str, body: Body, indent: int) -> list[str]:
    """``head {``, the statements, ``}``."""
    if not body.statements and body.opening is None and not body.closing:
        return [head + " { }"]
    opening = "  " + body.opening if body.opening else ""
    pad = STEP * (indent + 1)
    inner = _lines(body.statements, indent + 1) + [pad + comment for comment in body.closing]
    return [head + " {" + opening, *inner, STEP * indent + "}"]
