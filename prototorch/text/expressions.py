"""Expressions: their own tree. What they are worth is :mod:`prototorch.text.evaluator`'s business."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prototorch.text.source import Span


@dataclass(slots=True)
class Literal:
    """A number or a string without anything to fill in; None where it is none. ``text`` is how a number was spelled."""

    value: int | float | str | None
    span: Span | None = field(default=None, compare=False, repr=False)
    text: str | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Name:
    """A parameter, a loop variable, an argument of a block; or ``true``, ``false``, ``none``."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class UnaryExpression:
    """``-a``, ``+a``, ``not a``."""

    operator: str
    operand: Any
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class BinaryExpression:
    """``a + b`` and its like, ``and`` and ``or`` included."""

    operator: str
    left: Any
    right: Any
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Compare:
    """``a < b <= c``: every neighbouring pair must hold."""

    first: Any
    rest: tuple[tuple[str, Any], ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Conditional:
    """``yes if condition else no``."""

    yes: Any
    condition: Any
    no: Any
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class FunctionCall:
    """``min(a, b)``."""

    function: str
    arguments: tuple[Any, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class CallValue:
    """``Adam(1e-3)`` in a call: ``value``, a node of the syntax tree, is a block with its fields. ``function`` is the
    call of a function that it is where a number stands; None where it has names of fields."""

    value: Any
    function: Any = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Subscript:
    """``a[i]``."""

    value: Any
    index: Any
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ListExpression:
    """``[a, b]``."""

    items: tuple[Any, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class TemplateString:
    """A string with ``${...}`` in it: strings and expressions in turn."""

    parts: tuple[Any, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
