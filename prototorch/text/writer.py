"""From tree to text: one canonical layout, comments kept. ``read(write(tree)) == tree``; writing twice changes nothing.

A body of plain values stands on one line where it fits; where it does not, its fields fill the lines. A body that holds
several statements with bodies of their own (branches, layers, losses) stays on one line where the text has it so and it
fits; else each statement has its line. A comment or an empty line inside a body keeps it on several lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from prototorch.text import expressions as ex
from prototorch.text.expression_writer import format_expression
from prototorch.text.string_literals import quote
from prototorch.text.syntax_tree import (
    Assert,
    BlockDef,
    Body,
    CallArgument,
    CallBody,
    CallWord,
    Document,
    Expression,
    Field,
    If,
    Include,
    Let,
    ListValue,
    Param,
    Repeat,
    Scalar,
    Trivia,
    TypedBlock,
    Value,
    Word,
)

LINE_WIDTH = 140  # columns of a line
ROW_WIDTH = 100  # columns of the rows that a repeat goes over, where they have lines of their own
INDENT = "  "
#: expressions that a call holds with their "$": without it they would be words, numbers, lists of values
_NOT_BARE = (ex.Name, ex.Literal, ex.ListExpression, ex.CallValue)
_NO_TRIVIA = Trivia()


def format_document(document: Document) -> str:
    """The canonical text of a document, with a line end at its end."""
    lines = _format_statements(document.statements, 0)
    lines.extend(document.closing)
    return "\n".join(lines) + "\n" if lines else ""


def format_fields(fields: Iterable[Field]) -> str:
    """The canonical text of some fields."""
    return format_document(Document(tuple(fields)))


def format_value(value: Value) -> str:
    """A value on one line, comments left out."""
    if isinstance(value, Scalar):
        return format_scalar(value)
    if isinstance(value, Word):
        return value.text
    if isinstance(value, ListValue):
        return "[" + ", ".join(map(format_value, value.items)) + "]"
    if isinstance(value, Expression):
        return format_expression(value.root)
    if isinstance(value, TypedBlock):
        return value.word + _format_after_name(value.body)
    if isinstance(value, CallWord):
        return value.text
    return _format_braces(value)


def format_call_value(value: Value) -> str:
    """A value in a call on one line: expressions stand bare there."""
    if isinstance(value, ListValue):
        return "[" + ", ".join(map(format_call_value, value.items)) + "]"
    if isinstance(value, Expression) and not _is_value(value.root):
        text = format_expression(value.root)
        return text[2:-1] if text.startswith("$(") else text.removeprefix("$")
    return format_value(value)


def _is_value(root: Any) -> bool:
    """Whether an expression alone would be a word, a number or a list of values in a call."""
    if isinstance(root, ex.UnaryExpression) and root.operator == "-":
        operand = root.operand
        return isinstance(operand, ex.Literal) or (isinstance(operand, ex.Name) and operand.name in ("inf", "nan"))
    return isinstance(root, _NOT_BARE)


def format_scalar(value: Scalar) -> str:
    """A number as it was spelled, a string quoted."""
    content = value.value
    if isinstance(content, str):
        return quote(content)
    if value.text is not None:
        return value.text
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, float) and math.isnan(content):
        return "nan"
    return repr(content)


def _format_after_name(value: Body | CallBody) -> str:
    """A body or a call behind its name, on one line."""
    if isinstance(value, Body):
        return " " + _format_braces(value)
    return _format_call(value) + (f" {_format_braces(value.body)}" if value.body is not None else "")


def _format_call(call: CallBody) -> str:
    """A call behind its name without its body."""
    if call.is_bare:
        return ""
    return "(" + ", ".join(map(_format_argument, call.arguments)) + ")"


def _format_argument(argument: CallArgument) -> str:
    value = format_call_value(argument.value)
    return value if argument.name is None else f"{argument.name}: {value}"


def _format_braces(body: Body) -> str:
    return "{ " + "  ".join(map(_format_one_line, body.statements)) + " }" if body.statements else "{ }"


def _format_one_line(s: Any) -> str:
    """A statement on one line, comments left out."""
    if isinstance(s, Field):
        if isinstance(s.value, Body | CallBody):
            is_label_alone = s.label is not None and isinstance(s.value, Body) and not s.value.statements
            after = "" if is_label_alone else _format_after_name(s.value)
            return _format_field_name(s) + after + _format_outputs(s)
        return f"{s.name}: {format_value(s.value)}"
    if isinstance(s, If):
        text = " else ".join(f"if {format_header_value(c)} {_format_braces(b)}" for c, b in s.arms)
        return text + (f" else {_format_braces(s.else_body)}" if s.else_body is not None else "")
    if isinstance(s, Param | Let):
        return f"{_format_value_name(s)}: {format_value(s.value)}"
    if isinstance(s, Assert):
        message = "" if s.message is None else f", {format_value(s.message)}"
        return f"assert {format_header_value(s.condition)}{message}"
    if isinstance(s, Include):
        picks = "" if s.names is None else ", ".join(name.text for name in s.names) + " from "
        return f"include {picks}{quote(s.path)}"
    return f"{_format_head(s)} {_format_braces(s.body)}"


def _format_field_name(s: Field) -> str:
    name = s.name if s.label is None else f"{s.name} {format_value(s.label)}"
    return name if len(s.outputs) != 1 else f"{s.outputs[0].text} = {name}"


def _format_outputs(s: Field) -> str:
    """The names of several outputs, behind the layer."""
    return f" -> ({', '.join(word.text for word in s.outputs)})" if len(s.outputs) > 1 else ""


def _format_value_name(s: Param | Let) -> str:
    return f"{'let' if isinstance(s, Let) else 'param'} {s.name}"


def format_header_value(value: Value) -> str:
    """A count, a series or a condition: a name stands there without "$" where it was written so."""
    if isinstance(value, Expression) and value.is_bare and isinstance(value.root, ex.Name):
        return value.root.name
    return format_value(value)


def _format_head(s: Repeat | BlockDef) -> str:
    if isinstance(s, Repeat):
        over = format_header_value(s.count)
        return f"repeat {over}" if s.target is None else f"repeat {s.target} in {over}"
    arguments = (a.name if a.default is None else f"{a.name}: {format_value(a.default)}" for a in s.arguments)
    return f"block {s.name}({', '.join(arguments)})"


def _may_be_inline(body: Body) -> bool:
    """Whether a body may stand on one line, if it fits."""
    if body.opening is not None or body.closing:
        return False
    if any(s.trivia is not None and s.trivia != _NO_TRIVIA for s in body.statements):
        return False
    if len(body.statements) > 1 and not _holds_plain_values(body) and not _is_on_one_line(body):
        return False
    return all(all(map(_may_be_inline, _nested_bodies(s))) for s in body.statements)


def _holds_plain_values(body: Body) -> bool:
    return all(isinstance(s, Field) and _is_simple(s.value) for s in body.statements)


def _is_on_one_line(body: Body) -> bool:
    """Whether a body stands on one line of its text; without a text, whether it holds no blocks but typed values."""
    if body.span is None:
        return all(isinstance(s, Field) and not isinstance(s.value, Body) for s in body.statements)
    return body.span.line == body.span.end_line


def _is_section_without_text(s: Any) -> bool:
    """Whether a statement is a block such as compile and fit, made in Python: a line for each of its fields."""
    is_block = isinstance(s, Field) and isinstance(s.value, Body) and s.name.islower()
    return is_block and s.value.span is None and any(map(_nested_bodies, s.value.statements))


def _is_simple(value: Value) -> bool:
    if isinstance(value, ListValue):
        return all(map(_is_simple, value.items))
    if isinstance(value, TypedBlock):
        body = value.body
        return not body.statements if isinstance(body, Body) else body.body is None and not body.arguments
    return not isinstance(value, Body | CallBody)


def _nested_bodies(s: Any) -> list[Body]:
    """The bodies directly inside a statement."""
    if isinstance(s, Field):
        return _value_bodies(s.value)
    if isinstance(s, If):
        return [b for _, b in s.arms] + ([s.else_body] if s.else_body is not None else [])
    if isinstance(s, Param | Let):
        return _value_bodies(s.value)
    return [s.body] if isinstance(s, Repeat | BlockDef) else []


def _value_bodies(value: Value) -> list[Body]:
    if isinstance(value, Body):
        return [value]
    if isinstance(value, TypedBlock):
        return _value_bodies(value.body)
    if isinstance(value, CallBody):
        inside = [b for a in value.arguments for b in _value_bodies(a.value)]
        return inside if value.body is None else [*inside, value.body]
    return [b for item in value.items for b in _value_bodies(item)] if isinstance(value, ListValue) else []


def _format_if_fits(s: Any, indent: int) -> str | None:
    """A statement's one line, where it may have one."""
    if isinstance(s, BlockDef) and s.body.statements and (s.body.span is None or not _is_on_one_line(s.body)):
        return None
    if not indent and _is_section_without_text(s) and len(s.value.statements) > 1:
        return None
    if not all(map(_may_be_inline, _nested_bodies(s))):
        return None
    if isinstance(s, If) and any(len(b.statements) > 1 for b in _nested_bodies(s)):
        return None
    line = _format_one_line(s)
    return line if len(line) + len(INDENT) * indent <= LINE_WIDTH else None


def _format_statements(statements: tuple[Any, ...], indent: int) -> list[str]:
    """The lines of some statements, indented."""
    lines: list[str] = []
    pad = INDENT * indent
    for number, s in enumerate(statements):
        trivia = s.trivia or _NO_TRIVIA
        if trivia.blank_before and number:
            lines.append("")
        lines.extend(pad + comment if comment else "" for comment in trivia.leading)
        line = _format_if_fits(s, indent)
        formatted = [pad + line] if line is not None else _format_multiline(s, indent)
        if trivia.trailing:
            formatted[-1] += "  " + trivia.trailing
        lines.extend(formatted)
    return lines


def _format_multiline(s: Any, indent: int) -> list[str]:
    """A statement over several lines."""
    pad = INDENT * indent
    if isinstance(s, Field | Param | Let):
        head = _format_field_name(s) if isinstance(s, Field) else _format_value_name(s)
        end = _format_outputs(s) if isinstance(s, Field) else ""
        if isinstance(s.value, Body):
            *rest, last = _format_block(pad + head, s.value, indent)
            return [*rest, last + end]
        if isinstance(s.value, CallBody):
            *rest, last = _format_multiline_call(pad + head, s.value, indent)
            return [*rest, last + end]
        return _format_multiline_value(f"{pad}{head}: ", s.value, indent)
    if isinstance(s, If):
        lines: list[str] = []
        for number, (condition, body) in enumerate(s.arms):
            head = f"if {format_header_value(condition)}"
            block = _format_block(pad + head if not number else f"{lines.pop()} else {head}", body, indent)
            lines.extend(block)
        if s.else_body is not None:
            lines.extend(_format_block(f"{lines.pop()} else", s.else_body, indent))
        return lines
    if isinstance(s, Include | Assert):
        return [pad + _format_one_line(s)]
    head = pad + _format_head(s)
    if isinstance(s, Repeat) and isinstance(s.count, ListValue) and len(head) + 2 > ROW_WIDTH:
        *rows, end = _format_multiline_list(f"{pad}repeat {s.target} in ", s.count, indent, ROW_WIDTH)
        return [*rows, *_format_block(end, s.body, indent)]
    return _format_block(head, s.body, indent)


def _format_multiline_value(head: str, value: Value, indent: int) -> list[str]:
    if isinstance(value, TypedBlock):
        if isinstance(value.body, CallBody):
            return _format_multiline_call(f"{head}{value.word}", value.body, indent)
        return _format_block(f"{head}{value.word}", value.body, indent)
    if isinstance(value, ListValue) and value.items:
        return _format_multiline_list(head, value, indent)
    if isinstance(value, Body):  # a head of spaces alone is that of an item, whose brace stands where they end
        return _format_block(head.rstrip() or head[:-1], value, indent)
    return [head + format_value(value)]


def _format_multiline_call(head: str, call: CallBody, indent: int) -> list[str]:
    """A call and its name on one line where that fits, its body behind it; else its values fill lines of their own."""
    text = head + _format_call(call)
    has_bodies = any(_value_bodies(a.value) for a in call.arguments)
    if not call.arguments or (len(text) <= LINE_WIDTH and not has_bodies):
        return [text] if call.body is None else _format_block(text, call.body, indent)
    pad = INDENT * (indent + 1)
    lines = [head + "("]
    filling = False
    for a in call.arguments:
        text = _format_argument(a) + ","
        bodies = _value_bodies(a.value)
        fits = len(pad) + len(text) <= LINE_WIDTH and all(map(_may_be_inline, bodies))
        if not fits and (bodies or isinstance(a.value, ListValue | TypedBlock)):
            lines.extend(_format_multiline_value(pad if a.name is None else f"{pad}{a.name}: ", a.value, indent + 1))
            lines[-1] += ","
            filling = False
        elif filling and len(lines[-1]) + 1 + len(text) <= LINE_WIDTH:
            lines[-1] += " " + text
        else:
            lines.append(pad + text)
            filling = True
    end = INDENT * indent + ")"
    return [*lines, end] if call.body is None else [*lines, *_format_block(end, call.body, indent)]


def _format_multiline_list(head: str, value: ListValue, indent: int, width: int = LINE_WIDTH) -> list[str]:
    """Simple items fill the lines; any other has lines of its own."""
    pad = INDENT * (indent + 1)
    lines = [head + "["]
    filling = False
    for number, item in enumerate(value.items):
        comma = "," if number < len(value.items) - 1 else ""
        text = format_value(item) + comma
        if not _is_simple(item):
            fits = len(pad) + len(text) <= LINE_WIDTH and all(map(_may_be_inline, _value_bodies(item)))
            lines.extend([pad + text] if fits else _format_multiline_value(pad, item, indent + 1))
            if not fits:
                lines[-1] += comma
            filling = False
        elif filling and len(lines[-1]) + 1 + len(text) <= width:
            lines[-1] += " " + text
        else:
            lines.append(pad + text)
            filling = True
    return [*lines, INDENT * indent + "]"]


def _format_block(head: str, body: Body, indent: int) -> list[str]:
    """``head {``, the statements, ``}``."""
    if not body.statements and body.opening is None and not body.closing:
        return [head + " { }"]
    opening = "  " + body.opening if body.opening else ""
    pad = INDENT * (indent + 1)
    if not opening and _holds_plain_values(body) and _may_be_inline(body):
        inner = _fill_lines(pad, body)
    else:
        inner = _format_statements(body.statements, indent + 1)
    inner.extend(pad + comment if comment else "" for comment in body.closing)
    return [head + " {" + opening, *inner, INDENT * indent + "}"]


def _fill_lines(pad: str, body: Body) -> list[str]:
    """As many fields to a line as fit; a list that fits on none has lines of its own."""
    lines: list[str] = []
    is_open = False  # whether another field may follow on the last line
    for s in body.statements:
        text = _format_one_line(s)
        fits = len(pad) + len(text) <= LINE_WIDTH
        if is_open and len(lines[-1]) + 2 + len(text) <= LINE_WIDTH:
            lines[-1] += "  " + text
        else:
            lines.extend([pad + text] if fits else _format_multiline(s, len(pad) // len(INDENT)))
        is_open = fits
    return lines
