"""Operands: what params, loop variables and expressions are worth, and their nodes in the syntax tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, ListValue, Scalar, TypedBlock, Value, Word


class BareWord(str):
    """A bare word as the value of a parameter; equal to the string of the same letters."""

    __slots__ = ()


class ScopedString(str):
    """A string that was given to a block as an argument: as a name it belongs to the scope of the block's user."""

    __slots__ = ("prefix",)
    prefix: str

    @classmethod
    def wrap(cls, value: Any, prefix: str) -> Any:
        """A string, or the strings of a list, marked; one that is marked already keeps its scope."""
        if type(value) is str:
            scoped = cls(value)
            scoped.prefix = prefix
            return scoped
        return [cls.wrap(item, prefix) for item in value] if isinstance(value, list) else value


class EvaluationError(Exception):
    """An expression that has no value."""

    def __init__(self, message: str, span: Span | None):
        super().__init__(message)
        self.message = message
        self.span = span


class UnknownValueError(Exception):
    """The expression depends on something whose mistake is already in the report."""


def is_number(value: Any) -> bool:
    """Whether it is a number (a truth value is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_bool(value: Any, span: Span | None) -> bool:
    """A truth value; anything else is a mistake."""
    if isinstance(value, bool):
        return value
    hint = " Write a comparison, such as $(n > 0)." if is_number(value) else ""
    hint = f" Write ${value}." if isinstance(value, BareWord) else hint
    raise EvaluationError(f"A condition is true or false, not {render_value(value)}.{hint}", span)


def render_value(value: Any, depth: int = 2) -> str:
    """A value as a message, or a string it is filled into, shows it: the first 8 of a list, and of lists in lists down
    to a depth."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, BareWord):
        return str(value)
    if isinstance(value, str):
        return f'"{value[:40]}"'
    if isinstance(value, list):
        if value and not depth:
            return "[...]"
        return "[" + ", ".join(render_value(v, depth - 1) for v in value[:8]) + (", ...]" if len(value) > 8 else "]")
    if isinstance(value, TypedBlock):
        return f"the block {value.word} {{ ... }}"
    if isinstance(value, Body):
        return "a block { ... }"
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return repr(value)


def to_operand(value: Value) -> Any:
    """The value, in expressions, of a parameter that is bound to this node."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Word):
        return None if value.text == "none" else BareWord(value.text)
    if isinstance(value, ListValue):
        return [to_operand(item) for item in value.items]
    return value


def from_caller(value: Any) -> Any:
    """The operand of a value that a caller gives for a param: tuples and other sequences are lists."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [from_caller(item) for item in value]
    return value


def from_operand(value: Any, span: Span | None, scoped: bool = False) -> Value:
    """The node of an expression's value; with ``scoped`` its strings keep the scope they came from."""
    if isinstance(value, BareWord):
        return Word(str(value), span)
    if value is None:
        return Word("none", span)
    if isinstance(value, list):
        return ListValue(tuple(from_operand(item, span, scoped) for item in value), span)
    if isinstance(value, bool | int | float | str):
        return Scalar(value if scoped or not isinstance(value, ScopedString) else str(value), span)
    return value
