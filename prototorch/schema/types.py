"""Field types: each converts a Python value, reads a value of a text, and writes one back.

A type never sees which field it serves; :class:`~prototorch.schema.block.Block` adds the names to its complaints.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ..errors import did_you_mean
from ..text.mistakes import Report
from ..text.tree import ListValue, LooseWord, Scalar, Value, Word, node, plain
from .wrong import Reported, Wrong


class FieldType(ABC):
    """The base: subclasses say what they want and convert to it."""

    many = False  # whether a field given several times makes a list

    @abstractmethod
    def wants(self) -> str:
        """What a value must be, as in ``must be a whole number of at least 1``."""

    def label(self) -> str:
        """The type's short name for a manual page."""
        return self.wants()

    @abstractmethod
    def convert(self, value: Any) -> Any:
        """The canonical, immutable value for a Python value; raises Wrong."""

    def read(self, value: Value, report: Report) -> Any:
        """The value of a tree node; raises Wrong, or Reported where the report has it already."""
        return self.convert(plain(value))

    def write(self, value: Any) -> Value:
        """The tree node of a canonical value."""
        return node(value)

    def many_of(self, values: Sequence[Value]) -> Value:
        """One value for a field given several times (only where ``many``)."""
        items: list[Value] = []
        for value in values:
            items.extend(value.items if isinstance(value, ListValue) else [value])
        return ListValue(tuple(items), values[0].span)


@dataclass(frozen=True)
class Bounds:
    """Limits of a number: ``min``/``max`` belong to the range, ``above``/``below`` do not."""

    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None

    def hold(self, value: float) -> bool:
        return (
            (self.min is None or value >= self.min)
            and (self.max is None or value <= self.max)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        said = (("of at least", self.min), ("above", self.above), ("at most", self.max), ("below", self.below))
        return " and ".join(f"{words} {limit}" for words, limit in said if limit is not None)


NO_BOUNDS = Bounds()
INT64 = Bounds(min=-(2**63), max=2**63 - 1)


@dataclass(frozen=True)
class Int(FieldType):
    """A whole number of 64 bits."""

    bounds: Bounds = NO_BOUNDS

    def wants(self) -> str:
        return f"a whole number {self.bounds}".rstrip()

    def label(self) -> str:
        return "int"

    def convert(self, value: Any) -> int:
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            raise Wrong
        try:
            number = operator.index(value)
        except TypeError:
            whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
            hint = f" Write {int(value)} (in an expression, // divides whole numbers)." if whole else ""
            raise Wrong(hint=hint) from None
        if not INT64.hold(number):
            raise Wrong("must fit in 64 bits", near=True)
        if not self.bounds.hold(number):
            raise Wrong(near=True)
        return number


@dataclass(frozen=True)
class Float(FieldType):
    """A number."""

    bounds: Bounds = NO_BOUNDS

    def wants(self) -> str:
        return f"a number {self.bounds}".rstrip()

    def label(self) -> str:
        return "float"

    def convert(self, value: Any) -> float:
        if isinstance(value, bool | str | bytes) or type(value).__name__ in ("bool_", "bool"):
            raise Wrong
        if getattr(value, "ndim", 0) != 0:
            raise Wrong
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise Wrong from None
        if not self.bounds.hold(number):
            raise Wrong(near=True)
        return number

    def read(self, value: Value, report: Report) -> float:
        if isinstance(value, Word) and value.text in ("inf", "nan"):
            return self.convert(float(value.text))
        return self.convert(plain(value))


@dataclass(frozen=True)
class Bool(FieldType):
    """``true`` or ``false``."""

    def wants(self) -> str:
        return "true or false"

    def label(self) -> str:
        return "bool"

    def convert(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if type(value).__name__ in ("bool_", "bool"):  # NumPy's
            return bool(value)
        text = str(value).lower() if isinstance(value, str) else ""
        known = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
        raise Wrong(hint=f" Write {known[text]}." if text in known else "")


@dataclass(frozen=True)
class Str(FieldType):
    """A string; quoted in a text."""

    def wants(self) -> str:
        return "a string"

    def label(self) -> str:
        return "string"

    def convert(self, value: Any) -> str:
        if isinstance(value, str):
            return str(value)
        raise Wrong

    def read(self, value: Value, report: Report) -> str:
        if isinstance(value, LooseWord):
            return value.text
        if isinstance(value, Word):
            raise Wrong(hint=f' Write it in quotes: "{value.text}".')
        return self.convert(plain(value))


@dataclass(frozen=True)
class Choice(FieldType):
    """One of some words (or numbers)."""

    choices: tuple[Any, ...]

    def wants(self) -> str:
        shown = [repr(c) for c in self.choices]
        return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1]

    def label(self) -> str:
        return " | ".join(str(c) for c in self.choices)

    def convert(self, value: Any) -> Any:
        for choice in self.choices:
            if type(choice) is type(value) and choice == value:
                return choice
        if isinstance(value, str):
            raise Wrong(hint=did_you_mean(value, [c for c in self.choices if isinstance(c, str)]), near=True)
        raise Wrong

    def write(self, value: Any) -> Value:
        return Word(value) if isinstance(value, str) and value.isidentifier() else node(value)


@dataclass(frozen=True)
class Anything(FieldType):
    """Any plain value; a typed block or a body stays a node of the tree."""

    many = True

    def wants(self) -> str:
        return "a value"

    def convert(self, value: Any) -> Any:
        return tuple(self.convert(v) for v in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Optional(FieldType):
    """Another type, or ``none``."""

    inner: FieldType

    @property
    def many(self) -> bool:  # type: ignore[override]
        return self.inner.many

    def wants(self) -> str:
        return self.inner.wants() + " or none"

    def label(self) -> str:
        return self.inner.label() + " | none"

    def convert(self, value: Any) -> Any:
        return None if value is None else self.inner.convert(value)

    def read(self, value: Value, report: Report) -> Any:
        return None if isinstance(value, Word) and value.text == "none" else self.inner.read(value, report)

    def write(self, value: Any) -> Value:
        return Word("none") if value is None else self.inner.write(value)


@dataclass(frozen=True)
class Union(FieldType):
    """The first of several types that takes the value."""

    inner: tuple[FieldType, ...]

    @property
    def many(self) -> bool:  # type: ignore[override]
        return any(t.many for t in self.inner)

    def wants(self) -> str:
        return " or ".join(t.wants() for t in self.inner)

    def label(self) -> str:
        return " | ".join(t.label() for t in self.inner)

    def convert(self, value: Any) -> Any:
        return self._first(lambda t: t.convert(value), value)

    def read(self, value: Value, report: Report) -> Any:
        return self._first(lambda t: t.read(value, report), plain(value))

    def _first(self, attempt: Any, value: Any) -> Any:
        near = []
        for inner in self.inner:
            try:
                return attempt(inner)
            except Wrong as wrong:
                if wrong.near:
                    near.append(wrong)
        meant = [wrong for wrong in near if wrong.hint]
        if meant:
            raise max(meant, key=lambda wrong: _likeness(str(value), wrong.hint))
        if len(near) == 1 and near[0].message and "there is none" not in near[0].message:
            raise near[0]
        raise Wrong

    def write(self, value: Any) -> Value:
        for inner in self.inner:
            try:
                if inner.convert(value) == value:
                    return inner.write(value)
            except Wrong:
                continue
        return node(value)


@dataclass(frozen=True)
class ListOf(FieldType):
    """A list; one value alone is a list of one. Kept as a tuple."""

    inner: FieldType
    length: int | None = None
    many = True

    def wants(self) -> str:
        count = f"{self.length} values, each" if self.length is not None else ""
        return f"a list of {count} {self.inner.wants()}".replace("  ", " ")

    def label(self) -> str:
        return f"list of {self.inner.label()}"

    def convert(self, value: Any) -> tuple[Any, ...]:
        return self._checked(tuple(self.inner.convert(item) for item in _items(value)))

    def read(self, value: Value, report: Report) -> tuple[Any, ...]:
        values, failed = [], False
        for item in value.items if isinstance(value, ListValue) else (value,):
            try:
                values.append(self.inner.read(item, report))
            except Wrong as wrong:
                wrong.span = wrong.span or item.span
                raise
            except Reported:
                failed = True
        if failed:
            raise Reported
        return self._checked(tuple(values))

    def _checked(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.length is not None and len(values) != self.length:
            raise Wrong(f"must have {self.length} values, and has {len(values)}")
        return values

    def write(self, value: Any) -> Value:
        items = tuple(self.inner.write(item) for item in value)
        if len(items) == 1 and not isinstance(items[0], ListValue):
            return items[0]
        return ListValue(items)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple) or (getattr(value, "ndim", False) and hasattr(value, "tolist")):
        return value
    return (value,)


def is_string(value: Any) -> bool:
    """Whether a tree node is a word or a quoted string."""
    return isinstance(value, Word) or (isinstance(value, Scalar) and isinstance(value.value, str))


def _likeness(text: str, hint: str) -> float:
    """How much a text is like the name that a hint suggests."""
    return SequenceMatcher(None, text, hint.partition("'")[2].partition("'")[0]).ratio()
