"""Signatures of statements: equal numbers stand for statements that differ in their numbers and names only."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from prototorch.interop.text_generation.statements import Reference, Statement, StatementList, is_variable

__all__ = ["Signatures", "statement_cost"]

_STATEMENT, _FIELD = 3, 1  # costs: about words of the text


class Signatures:
    """The signatures of statements as integers."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}

    def intern(self, key: Hashable) -> int:
        """A number for a key, the same for equal keys."""
        return self._ids.setdefault(key, len(self._ids))

    def of(self, item: Statement, is_first: bool = False) -> int:
        """The signature of a statement. is_first: of a block, whose use may name what it reads."""
        return self.intern(self._key(item, is_first))

    def _key(self, item: Statement, is_first: bool = False) -> Hashable:
        fields = tuple((key, _content(value)) for key, value in item.fields)
        bottoms: Any = item.bottoms and tuple(b if isinstance(b, str) else b.top for b in item.bottoms)
        if is_first and bottoms == (0,):
            bottoms = None
        bodies = tuple(tuple(self.of(inner) for inner in body.items) for body in item.bodies)
        return item.kind, item.head, fields, item.name is None, bottoms, bodies

    def exact(self, item: Statement) -> int:
        """The signature of a statement with its numbers."""
        return self.intern((self.of(item), tuple((type(n), n) for n in item.numbers())))


def _content(value: Any) -> Any:
    if is_variable(value):
        return "#"
    return "@" if isinstance(value, Reference) else value


def statement_cost(item: Statement, defaults: dict[tuple[str, str], Any]) -> int:
    """The words of a statement: its fields but those with a default value, its name, its bottoms, what is inside."""
    cost = _STATEMENT + _FIELD * (item.name is not None) + _FIELD * len(item.bottoms or ())
    for key, value in item.fields:
        default = defaults.get((item.head, key))
        cost += 0 if default is not None and default == value else _FIELD
    return cost + sum(1 + body_cost(body, defaults) for body in item.bodies)


def body_cost(body: StatementList, defaults: dict[tuple[str, str], Any]) -> int:
    """The words of a sequence."""
    return sum(statement_cost(item, defaults) for item in body.items)
