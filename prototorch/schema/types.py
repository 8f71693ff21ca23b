"""Field types: each converts a Python value, reads a value of a text, and writes one back.

A type does not know its field; `Block` adds the names to the error messages.
"""

from __future__ import annotations

import keyword
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.schema.validation import ReportedError, ValidationError
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import ListValue, Scalar, ShellWord, Value, Word, to_python_value, to_value_node


class FieldType(ABC):
    """The base of field types: subclasses describe the accepted values and convert to them."""

    repeatable = False  # whether a field given several times makes a list
    is_list_of_blocks = False  # whether each of these is a block of its own

    @abstractmethod
    def describe(self) -> str:
        """What a value must be, as in ``must be an integer of at least 1``."""

    def label(self) -> str:
        """The type's short name for a manual page."""
        return self.describe()

    @abstractmethod
    def convert(self, value: Any) -> Any:
        """The canonical, immutable value for a Python value; raises Wrong."""

    def read(self, value: Value, report: Report) -> Any:
        """The value of a tree node; raises Wrong, or Reported where the report has it already."""
        return self.convert(to_python_value(value))

    def write(self, value: Any) -> Value:
        """The tree node of a canonical value."""
        return to_value_node(value)

    def merge_repeated(self, values: Sequence[Value]) -> Value:
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

    def contains(self, value: float) -> bool:
        return (
            (self.min is None or value >= self.min)
            and (self.max is None or value <= self.max)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        limits = (("of at least", self.min), ("above", self.above), ("at most", self.max), ("below", self.below))
        return " and ".join(f"{words} {limit}" for words, limit in limits if limit is not None)


NO_BOUNDS = Bounds()
INT64_BOUNDS = Bounds(min=-(2**63), max=2**63 - 1)


@dataclass(frozen=True)
class Int(FieldType):
    """An integer of 64 bits."""

    bounds: Bounds = NO_BOUNDS

    def describe(self) -> str:
        return f"an integer {self.bounds}".rstrip()

    def label(self) -> str:
        return "int"

    def convert(self, value: Any) -> int:
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            raise ValidationError
        try:
            number = operator.index(value)
        except TypeError:
            is_integral = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
            hint = f" Write {int(value)} (in an expression, // divides integers)." if is_integral else ""
            raise ValidationError(hint=hint) from None
        if not INT64_BOUNDS.contains(number):
            raise ValidationError("must fit in 64 bits", right_kind=True)
        if not self.bounds.contains(number):
            raise ValidationError(right_kind=True)
        return number


@dataclass(frozen=True)
class Float(FieldType):
    """A number."""

    bounds: Bounds = NO_BOUNDS

    def describe(self) -> str:
        return f"a number {self.bounds}".rstrip()

    def label(self) -> str:
        return "float"

    def convert(self, value: Any) -> float:
        if isinstance(value, bool | str | bytes) or type(value).__name__ in ("bool_", "bool"):
            raise ValidationError
        if getattr(value, "ndim", 0) != 0:
            raise ValidationError
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValidationError from None
        if number != number or not self.bounds.contains(number):  # NaN is in no range
            raise ValidationError(right_kind=True)
        return number

    def read(self, value: Value, report: Report) -> float:
        if isinstance(value, Word) and value.text in ("inf", "nan"):
            return self.convert(float(value.text))
        return self.convert(to_python_value(value))


@dataclass(frozen=True)
class Bool(FieldType):
    """``true`` or ``false``."""

    def describe(self) -> str:
        return "true or false"

    def label(self) -> str:
        return "bool"

    def convert(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if type(value).__name__ in ("bool_", "bool"):  # NumPy's
            return bool(value)
        text = str(value).lower() if isinstance(value, str) else ""
        words = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
        raise ValidationError(hint=f" Write {words[text]}." if text in words else "")


@dataclass(frozen=True)
class Str(FieldType):
    """A string; quoted in a text."""

    def describe(self) -> str:
        return "a string"

    def label(self) -> str:
        return "string"

    def convert(self, value: Any) -> str:
        if isinstance(value, str):
            return str(value)
        raise ValidationError

    def read(self, value: Value, report: Report) -> str:
        if isinstance(value, ShellWord):
            return value.text
        if isinstance(value, Word):
            if value.text.lower() in ("none", "null", "nil"):
                raise ValidationError(hint=" Leave the field out for its default.")
            raise ValidationError(hint=f' Write it in quotes: "{value.text}".')
        return self.convert(to_python_value(value))


@dataclass(frozen=True)
class Choice(FieldType):
    """One of some words (or numbers)."""

    choices: tuple[Any, ...]

    def describe(self) -> str:
        choices = [repr(c) for c in self.choices]
        return choices[0] if len(choices) == 1 else ", ".join(choices[:-1]) + " or " + choices[-1]

    def label(self) -> str:
        return " | ".join(str(c) for c in self.choices)

    def convert(self, value: Any) -> Any:
        for choice in self.choices:
            if type(choice) is type(value) and choice == value:
                return choice
        if isinstance(value, str):
            raise ValidationError(
                hint=did_you_mean(value, [c for c in self.choices if isinstance(c, str)]), right_kind=True
            )
        raise ValidationError

    def write(self, value: Any) -> Value:
        return Word(value) if isinstance(value, str) and value.isidentifier() else to_value_node(value)


@dataclass(frozen=True)
class AnyValue(FieldType):
    """Any plain value; a typed block or a body stays a node of the tree."""

    repeatable = True

    def describe(self) -> str:
        return "a value"

    def convert(self, value: Any) -> Any:
        return tuple(self.convert(v) for v in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Optional(FieldType):
    """Another type, or ``none``."""

    inner: FieldType

    @property
    def repeatable(self) -> bool:  # type: ignore[override]
        return self.inner.repeatable

    def describe(self) -> str:
        return self.inner.describe() + " or none"

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
    def repeatable(self) -> bool:  # type: ignore[override]
        return any(t.repeatable for t in self.inner)

    def describe(self) -> str:
        return " or ".join(t.describe() for t in self.inner)

    def label(self) -> str:
        return " | ".join(t.label() for t in self.inner)

    def convert(self, value: Any) -> Any:
        return self._first_match(lambda t: t.convert(value), value)

    def read(self, value: Value, report: Report) -> Any:
        return self._first_match(lambda t: t.read(value, report), to_python_value(value))

    def _first_match(self, attempt: Any, value: Any) -> Any:
        errors = []
        for inner in self.inner:
            try:
                return attempt(inner)
            except ValidationError as wrong:
                if wrong.right_kind:
                    errors.append(wrong)
        suggesting = [wrong for wrong in errors if wrong.hint]
        if suggesting:
            raise max(suggesting, key=lambda wrong: _similarity(str(value), wrong.hint))
        is_word = isinstance(value, str)  # any of the types may be meant by a word that none of them knows
        if len(errors) == 1 and errors[0].message and not (is_word and "there is none" in errors[0].message):
            raise errors[0]
        raise ValidationError

    def write(self, value: Any) -> Value:
        for inner in self.inner:
            try:
                if inner.convert(value) == value:
                    node = inner.write(value)
                    # a list of one is no scalar where both are possible: [0.5]
                    return ListValue((node,)) if isinstance(value, tuple) and isinstance(node, Scalar) else node
            except ValidationError:
                continue
        return to_value_node(value)


@dataclass(frozen=True)
class ListOf(FieldType):
    """A list; one value alone is a list of one. Kept as a tuple."""

    inner: FieldType
    length: int | None = None
    repeatable = True

    def describe(self) -> str:
        count = f"{self.length} values, each" if self.length is not None else ""
        return f"a list of {count} {self.inner.describe()}".replace("  ", " ")

    def label(self) -> str:
        return f"list of {self.inner.label()}"

    def convert(self, value: Any) -> tuple[Any, ...]:
        return self._check_length(tuple(self.inner.convert(item) for item in _iterate_items(value)))

    def read(self, value: Value, report: Report) -> tuple[Any, ...]:
        values, has_errors = [], False
        for item in value.items if isinstance(value, ListValue) else (value,):
            try:
                values.append(self.inner.read(item, report))
            except ValidationError as wrong:
                wrong.span = wrong.span or item.span
                raise
            except ReportedError:
                has_errors = True
        if has_errors:
            raise ReportedError
        return self._check_length(tuple(values))

    def _check_length(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.length is not None and len(values) != self.length:
            raise ValidationError(f"must have {self.length} values, and has {len(values)}")
        return values

    def write(self, value: Any) -> Value:
        items = tuple(self.inner.write(item) for item in value)
        if len(items) == 1 and not isinstance(items[0], ListValue):
            return items[0]
        return ListValue(items)


def _iterate_items(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple) or (getattr(value, "ndim", False) and hasattr(value, "tolist")):
        return value
    return (value,)


def python_name(name: str) -> str:
    """The name in Python of a field of a text: with ``_`` where Python has a keyword of that name (``except_``)."""
    return f"{name}_" if keyword.iskeyword(name) else name


def text_name(name: str) -> str:
    """The name in a text of a field of a class, see `python_name`."""
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


def is_word_or_string(value: Any) -> bool:
    """Whether a tree node is a word or a quoted string."""
    return isinstance(value, Word) or (isinstance(value, Scalar) and isinstance(value.value, str))


def _similarity(text: str, hint: str) -> float:
    """How much a text is like the name that a hint suggests."""
    return SequenceMatcher(None, text, hint.partition("'")[2].partition("'")[0]).ratio()
