"""Caffe's texts: from the syntax tree to typed messages, as strict as protobuf's text format.

Source: what ``caffe`` accepts and refuses; the fields come from `prototorch.caffe.text.message_definitions`.
"""

from __future__ import annotations

import os
from typing import Any

from prototorch.caffe.text.field_values import read_field_value
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import MessageField
from prototorch.caffe.text.upgrade import upgrade_net, upgrade_solver
from prototorch.errors import did_you_mean
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse, read_file
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, Field, InvalidValue, ListValue, Value

__all__ = ["read_message", "read_message_file", "read_net_file", "read_solver_file"]

#: Of one text: nets of 1,000 layers have a quarter of it.
MAX_CHARACTERS = 2 << 20
_NATIVE = {"Param": "param", "Repeat": "repeat", "If": "if", "BlockDef": "block", "Include": "include"}


def read_net_file(path: str | os.PathLike[str]) -> Message:
    """The NetParameter of a file in its newest form (see `upgrade_net`), with all layers of all phases.

    Raises FileError for a file that cannot be read, TextError with all mistakes of the text.
    """
    return upgrade_net(read_message_file(path, "NetParameter"))


def read_solver_file(path: str | os.PathLike[str]) -> Message:
    """The SolverParameter of a file in its newest form (see `upgrade_solver`). Raises FileError and TextError."""
    return upgrade_solver(read_message_file(path, "SolverParameter"))


def read_message_file(path: str | os.PathLike[str], type_name: str) -> Message:
    """The message of a type in a text file, as it is written there. Raises FileError and TextError."""
    return read_message(read_file(path), type_name, os.fspath(path))


def read_message(text: str, type_name: str, path: str | None = None) -> Message:
    """The message of a type in a text, as it is written there. Raises TextError with all mistakes.

    path: where the text comes from, for messages.
    """
    report = Report()
    if len(text) > MAX_CHARACTERS:
        report.add(f"{path or 'The text'}: a text of Caffe has at most {MAX_CHARACTERS} characters, not {len(text)}.")
        report.raise_if_any()
    document = parse(text, path, report, is_protobuf=True)
    assert document.source is not None
    message = Message(type_name, span=Span(document.source, 0, 0))
    reader = _MessageReader(report)
    reader.fill(message, document.statements)
    if not report:
        reader.check_required(message)
    report.raise_if_any()
    return message


class _MessageReader:
    """Fills messages with the fields of a tree; mistakes go to the report."""

    def __init__(self, report: Report):
        self.report = report

    def fill(self, message: Message, statements: tuple[Any, ...]) -> None:
        """Set the fields of a message."""
        for statement in statements:
            if not isinstance(statement, Field):
                self.report.add(
                    f"'{_NATIVE[type(statement).__name__]}' belongs to the native language; a text of Caffe has only "
                    "fields.",
                    statement.span,
                )
            elif statement.name:
                self.read_field(message, statement)

    def read_field(self, message: Message, statement: Field) -> None:
        """Set a field, or add to a repeated one."""
        field = message.type.fields.get(statement.name)
        if field is None:
            hint = did_you_mean(statement.name, message.type.fields)
            self.report.add(f"{message.type.name} has no field {statement.name!r}.{hint}", statement.name_span)
            return
        if isinstance(statement.value, InvalidValue):
            return
        if not field.is_repeated and message.has(field.name):
            self.report.add(f"{field.name} is given twice; it has one value.", statement.name_span)
            return
        nodes: tuple[Value, ...] = (statement.value,)
        if isinstance(statement.value, ListValue):
            if not field.is_repeated:
                self.report.add(f"{field.name} has one value, not a list.", statement.value.span)
                return
            nodes = statement.value.items
        for node in nodes:
            self.read_value(message, field, node, statement)

    def read_value(self, message: Message, field: MessageField, node: Value, statement: Field) -> None:
        """Set or add one value of a field."""
        span = node.span
        value: Any
        if isinstance(node, Body) != field.is_message:
            form = f"a message: {field.name} {{ ... }}" if field.is_message else "a value, not a message"
            self.report.add(f"{field.name} is {form}.", statement.name_span)
            return
        if field.is_message:
            span = statement.name_span if node is statement.value else span
            value = Message(field.type, span=span)
            self.fill(value, node.statements)
        else:
            value = read_field_value(field, node, self.report)
        if value is not None:
            message.set(field.name, value, span)

    def check_required(self, message: Message) -> None:
        """Report required fields that are missing, in the whole message."""
        for field in message.type.fields.values():
            if field.is_required and not message.has(field.name):
                self.report.add(f"{message.type.name} needs the field {field.name!r}.", message.span)
        for field, value in message.set_fields():
            if field.is_message:
                for inner in value if field.is_repeated else [value]:
                    self.check_required(inner)
