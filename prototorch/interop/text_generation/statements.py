"""The statements of a text under construction: layers, uses of blocks and repeats, in sequences.

A number in a statement (or a list of numbers) may become an argument of a block or an expression of a loop variable:
the *signature* of a statement is what remains when its numbers are taken out. Two statements with one signature can be
written by one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.layers.base import Layer

__all__ = [
    "LAYER",
    "REPEAT",
    "USE",
    "BlockDraft",
    "Reference",
    "Statement",
    "StatementList",
    "all_names",
    "is_number",
    "is_variable",
    "same_number",
]

LAYER, USE, REPEAT = "layer", "use", "repeat"


@dataclass(frozen=True, slots=True)
class Reference:
    """An output of a layer of the net that is read by its name. node: its number in the net; inputs are negative."""

    node: int
    top: int = 0


@dataclass(slots=True, eq=False)
class StatementList:
    """A sequence of statements, each of which reads the one before it."""

    items: list[Statement]

    def bodies(self) -> Iterator[StatementList]:
        """This body and all inside it."""
        stack = [self]
        while stack:
            body = stack.pop()
            yield body
            stack.extend(inner for item in body.items for inner in item.bodies)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A layer, the use of a block, or a repeat.

    head: the layer's class, the block's name, or the loop variable ("" where it has none). fields: values are numbers,
    tuples of numbers, `Reference`s, or text as it is written. name: its parts, each with the separator behind it.
    bottoms: None where it reads the statement before it. bodies: the branches of a layer, the body of a repeat.
    exit: the number of the layer whose output is the statement's. nodes: the layers, in the order of their expansion.
    """

    kind: str
    head: str
    fields: tuple[tuple[str, Any], ...]
    exit: int
    nodes: tuple[int, ...]
    name: tuple[str, ...] | None = None
    bottoms: tuple[Reference | str, ...] | None = None
    bodies: tuple[StatementList, ...] = ()

    @property
    def layer_class(self) -> type[Layer] | None:
        """The class of a layer; None for another statement."""
        assert Layer.family_registry is not None
        return Layer.family_registry.find(self.head) if self.kind == LAYER else None

    def walk(self) -> Iterator[Statement]:
        """This statement and all inside it, in the order of the text."""
        yield self
        for body in self.bodies:
            for item in body.items:
                yield from item.walk()

    def numbers(self) -> list[Any]:
        """The numbers of this statement and of all inside it, and the expressions in their place."""
        return [value for item in self.walk() for _, value in item.fields if is_variable(value)]

    def references(self) -> list[Reference]:
        """What this statement and all inside it read by name."""
        all_references: list[Reference] = []
        for item in self.walk():
            all_references.extend(value for value in item.bottoms or () if isinstance(value, Reference))
            all_references.extend(value for _, value in item.fields if isinstance(value, Reference))
        return all_references

    def substitute(self, numbers: Iterator[Any], names: Iterator[tuple[str, ...]] | None = None) -> Statement:
        """A copy with other values in the place of its numbers, and other names in the place of its names."""
        fields = tuple((key, next(numbers) if is_variable(value) else value) for key, value in self.fields)
        name = self.name if self.name is None or names is None else next(names)
        bodies = tuple(StatementList([item.substitute(numbers, names) for item in body.items]) for body in self.bodies)
        return replace(self, fields=fields, name=name, bodies=bodies)

    def with_references(self, texts: Mapping[Reference, str]) -> Statement:
        """A copy that reads what these texts say in the place of outputs that have names outside."""
        fields = tuple((key, texts.get(v, v) if isinstance(v, Reference) else v) for key, v in self.fields)
        bottoms = self.bottoms and tuple(texts.get(v, v) if isinstance(v, Reference) else v for v in self.bottoms)
        bodies = tuple(StatementList([item.with_references(texts) for item in body.items]) for body in self.bodies)
        return replace(self, fields=fields, bottoms=bottoms, bodies=bodies)


@dataclass(slots=True, eq=False)
class BlockDraft:
    """A block definition. arguments: their names with defaults (None: a use must give it)."""

    name: str
    arguments: list[tuple[str, Any]]
    body: StatementList


def is_number(value: Any) -> bool:
    """Whether a field's value is a number, or a (nested) tuple of numbers."""
    if isinstance(value, tuple):
        return bool(value) and all(map(is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_variable(value: Any) -> bool:
    """Whether a value may be an argument: a number or an expression."""
    return is_number(value) or (isinstance(value, str) and value.startswith("$"))


def same_number(a: Any, b: Any) -> bool:
    """Whether two values are equal and of one type: 1 and 1.0 are written differently."""
    return type(a) is type(b) and a == b


def all_names(items: Sequence[Statement]) -> list[tuple[str, ...]]:
    """The names in some statements, in the order of the text."""
    return [part.name for item in items for part in item.walk() if part.name is not None]
