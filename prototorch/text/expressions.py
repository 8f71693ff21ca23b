"""Expressions: their own tree. What they are worth is :mod:`prototorch.text.evaluator`'s business."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
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
class SliceExpression:
    """``a[start:stop:step]``; None for a part that is left out."""

    value: Any
    start: Any = None
    stop: Any = None
    step: Any = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Loop:
    """``for target in series if condition``: a part of a comprehension. ``target`` is a `LoopTarget`."""

    target: Any
    series: Any
    conditions: tuple[Any, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Comprehension:
    """``[element for target in series if condition]``; ``size`` is the number of its nodes, the steps of one value."""

    element: Any
    loops: tuple[Loop, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    size: int = field(default=1, compare=False, repr=False)


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


def names_in(node: Any) -> dict[str, Span | None]:
    """The names of values that an expression reads, in order, each with its first place; loop variables left out."""
    names: dict[str, Span | None] = {}
    pending: list[tuple[Any, frozenset[str]]] = [(node, frozenset())]
    while pending:
        part, own = pending.pop()
        if isinstance(part, Name):
            if part.name not in own:
                names.setdefault(part.name, part.span)
        elif isinstance(part, Comprehension):
            own = own.union(*(loop.target.names for loop in part.loops))
            inside = [part.element, *(p for loop in part.loops for p in (loop.series, *loop.conditions))]
            pending.extend((p, own) for p in reversed(inside))
        elif isinstance(part, tuple):
            pending.extend((p, own) for p in reversed(part))
        elif is_dataclass(part):
            pending.extend((getattr(part, f.name), own) for f in reversed(fields(part)) if f.compare)
    return names
