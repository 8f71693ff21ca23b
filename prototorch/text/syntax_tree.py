"""The tree of a model text: fields and the values they hold, each with its span.

Spans, comments, blank lines and the spelling of numbers take no part in equality: two trees are equal when they mean
the same. Nodes are treated as frozen: whoever changes something builds a new node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from prototorch.text.source import Source, Span


@dataclass(slots=True, eq=False)
class Scalar:
    """A number, a truth value or a (quoted) string. ``text`` is how it was spelled."""

    value: int | float | bool | str
    span: Span | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scalar) or type(self.value) is not type(other.value):
            return False
        return self.value == other.value or (self.value != self.value and other.value != other.value)

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(slots=True)
class Word:
    """A bare word, such as ``relu`` or ``same``."""

    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ShellWord(Word):
    """A word typed at a shell, where quotes are easily lost: it may also stand for a string."""


@dataclass(slots=True)
class ListValue:
    """``[a, b]``."""

    items: tuple[Value, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Body:
    """``{ ... }``: statements; after expansion these are all :class:`Field`.

    ``opening`` is a comment behind the opening brace, ``closing`` the comments before the closing one.
    """

    statements: tuple[Any, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    opening: str | None = field(default=None, compare=False, repr=False)
    closing: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields among the statements."""
        return tuple(s for s in self.statements if isinstance(s, Field))


@dataclass(slots=True)
class TypedBlock:
    """A word with fields, such as ``Adam { learning_rate: 1e-3 }``."""

    word: str
    body: Body  # before expansion also a CallBody
    span: Span | None = field(default=None, compare=False, repr=False)
    word_span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.body.fields


@dataclass(slots=True)
class InvalidValue:
    """A value that could not be determined; the report has the error, which is not reported again."""

    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Trivia:
    """What surrounds a statement without a meaning: comments before and after it, an empty line before it."""

    leading: tuple[str, ...] = ()
    trailing: str | None = None
    blank_before: bool = False


@dataclass(slots=True)
class ExpansionFrame:
    """One step of an expansion: ``in bottleneck at line 31``. ``outer`` is the step around it."""

    label: str
    span: Span | None = field(default=None, compare=False, repr=False)
    outer: ExpansionFrame | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[ExpansionFrame]:
        frame: ExpansionFrame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer


Value: TypeAlias = Any  # Scalar | Word | ListValue | Typed | Body; before expansion also an expression


class _SpansOnDemand:
    """A name and a value whose spans are made when they are read: most are not, and they are half of a large tree."""

    __slots__ = ("start",)
    start: int

    def __getattr__(self, attribute: str) -> Any:  # called where a slot has no value
        if attribute not in ("name_span", "span"):
            raise AttributeError(attribute)
        pair: Any = self
        end = pair.value.span
        if attribute == "span":
            return Span(end.source, pair.start, end.end)
        return Span(end.source, pair.start, pair.start + len(pair.name))


@dataclass(slots=True)
class Field(_SpansOnDemand):
    """``name: value`` or ``name { ... }``. ``chain``: the blocks and repeats it was expanded from.

    ``outputs``: before expansion the names in ``skip = Conv2D { ... }`` and ``attend { ... } -> (out, scores)``, which
    the outputs of the layer or block bear.
    ``label``: before expansion the string in ``column "age" { ... }``, which is the ``name`` of what is declared.
    """

    name: str
    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)
    name_span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)
    chain: ExpansionFrame | None = field(default=None, compare=False, repr=False)
    outputs: tuple[Word, ...] = ()
    label: Value | None = None

    @classmethod
    def read_at(cls, name: str, value: Value, start: int) -> Field:
        """The field that begins at an offset of the source of its value, and ends with it."""
        new = cls.__new__(cls)
        new.name = name
        new.value = value
        new.start = start  # type: ignore[misc]
        new.trivia = new.chain = new.label = None
        new.outputs = ()
        return new


def to_python_value(value: Value) -> Any:
    """The Python value of a scalar, a word (as a string; ``none`` is None) or a list of these.

    A typed value or a body stays as it is.
    """
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Word):
        return None if value.text == "none" else value.text
    if isinstance(value, ListValue):
        return [to_python_value(item) for item in value.items]
    return value


def to_value_node(value: Any, span: Span | None = None) -> Value:
    """The value node of a Python number, string, None (``none``), or a sequence of these; nodes pass through."""
    if isinstance(value, bool | int | float | str):
        return Scalar(value, span)
    if value is None:
        return Word("none", span)
    if isinstance(value, Sequence):
        return ListValue(tuple(to_value_node(item, span) for item in value), span)
    return value


# ---------------------------------------------------------------------- before expansion


@dataclass(slots=True)
class CallWord:
    """A bare word in a call: a word of its field, or the name of a param, an argument, an output."""

    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class CallArgument(_SpansOnDemand):
    """A value in a call; ``name`` is None where it is given by position."""

    name: str | None
    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)
    name_span: Span | None = field(default=None, compare=False, repr=False)

    @classmethod
    def read_at(cls, name: str, value: Value, start: int) -> CallArgument:
        """The argument that begins with its name at an offset of the source of its value, and ends with it."""
        new = cls.__new__(cls)
        new.name = name
        new.value = value
        new.start = start  # type: ignore[misc]
        return new


@dataclass(slots=True)
class CallBody:
    """``(64, 3, activation: relu) { more }`` behind a name; a name alone is a call without parentheses (``is_bare``).

    It stands where a Body could, and becomes one: see `prototorch.text.call_binding`.
    """

    arguments: tuple[CallArgument, ...]
    body: Body | None = None
    is_bare: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Expression:
    """``$name``, ``$(...)``, or a string with ``${...}``; ``root`` is a node of :mod:`prototorch.text.expressions`,
    ``size`` the number of nodes; ``is_bare``: a name that was written without "$", as a count or condition may be."""

    root: Any
    span: Span | None = field(default=None, compare=False, repr=False)
    size: int = field(default=1, compare=False, repr=False)
    is_bare: bool = field(default=False, compare=False, repr=False)


@dataclass(slots=True)
class Param:
    """``param name: value``."""

    name: str
    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)
    name_span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Let:
    """``let name: value``."""

    name: str
    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)
    name_span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Assert:
    """``assert condition, "message"``; ``message`` is None where it is left out."""

    condition: Value
    message: Value | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Repeat:
    """``repeat count { }`` (``target`` None) or ``repeat target in count { }``, whose count is a list."""

    target: Any  # a LoopTarget
    count: Value
    body: Body
    span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class If:
    """``if a { } else if b { } else { }``: ``arms`` are (condition, body) pairs."""

    arms: tuple[tuple[Value, Body], ...]
    else_body: Body | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Argument:
    """An argument of a block; ``default`` is None where a use must give it."""

    name: str
    default: Value | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class BlockDef:
    """``block name(arguments) { }``."""

    name: str
    arguments: tuple[Argument, ...]
    body: Body
    span: Span | None = field(default=None, compare=False, repr=False)
    name_span: Span | None = field(default=None, compare=False, repr=False)
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Include:
    """``include "path"``, or ``include a, b from "path"``: ``names``, None for all."""

    path: str
    span: Span | None = field(default=None, compare=False, repr=False)
    names: tuple[Word, ...] | None = None
    trivia: Trivia | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Document:
    """A whole text. After expansion all statements are fields, and ``blocks`` are the names of the blocks it had.

    ``complete`` is False where mistakes made the reader leave out statements: what refers to them is not to blame.
    ``nets``: the nets in the net, see `prototorch.text.nested_net`.
    """

    statements: tuple[Any, ...]
    source: Source | None = field(default=None, compare=False, repr=False)
    closing: tuple[str, ...] = field(default=(), compare=False, repr=False)
    blocks: tuple[str, ...] = field(default=(), compare=False, repr=False)
    complete: bool = field(default=True, compare=False, repr=False)
    nets: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields at the top level."""
        return tuple(s for s in self.statements if isinstance(s, Field))
