"""Field types for sizes: one number a dimension, shapes with unknown dimensions, paddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.schema.types import Bounds, FieldType, Int
from prototorch.schema.validation import ValidationError
from prototorch.text.syntax_tree import ListValue, Scalar, Value, Word, to_value_node


@dataclass(frozen=True)
class Ints(FieldType):
    """One integer per dimension, as a tuple of ``rank``; a single number stands for all: ``5`` -> ``(5, 5)``."""

    rank: int
    min: int | None = None
    max: int | None = None

    def describe(self) -> str:
        one = Int(Bounds(min=self.min, max=self.max)).describe()
        return one if self.rank == 1 else f"{one}, or a list of {self.rank} of them"

    def label(self) -> str:
        return "int" if self.rank == 1 else f"int or list of {self.rank} ints"

    def convert(self, value: Any) -> tuple[int, ...]:
        one = Int(Bounds(min=self.min, max=self.max))
        values = tuple(value) if isinstance(value, list | tuple) else (value,) * self.rank
        if len(values) != self.rank:
            raise ValidationError(right_kind=True)
        return tuple(one.convert(v) for v in values)

    def write(self, value: Any) -> Value:
        return to_value_node(value[0] if len(set(value)) == 1 else value)


@dataclass(frozen=True)
class Dims(FieldType):
    """A shape without the batch dimension: a tuple of integers, ``none`` for one that is not known yet.

    ``rank`` fixes the number of dimensions; ``unknown=False`` allows no ``none``; ``infer=True`` allows one -1.
    """

    rank: int | None = None
    unknown: bool = True
    infer: bool = False
    min: int = 1

    def describe(self) -> str:
        what = f"a list of {self.rank} dimensions" if self.rank is not None else "a list of dimensions"
        kinds = [f"integers of at least {self.min}"] + ["none"] * self.unknown + ["one -1"] * self.infer
        return f"{what} ({', '.join(kinds)})"

    def label(self) -> str:
        return "shape"

    def convert(self, value: Any) -> tuple[int | None, ...]:
        values: Sequence[Any] = value if isinstance(value, list | tuple) else (value,)
        if self.rank is not None and len(values) != self.rank:
            raise ValidationError(right_kind=True)
        shape = tuple(self._one(v) for v in values)
        if shape.count(-1) > 1:
            raise ValidationError("may hold -1 only once", right_kind=True)
        return shape

    def _one(self, value: Any) -> int | None:
        if value is None and self.unknown:
            return None
        if self.infer and value == -1 and not isinstance(value, bool):
            return -1
        if self.unknown and (value == -1 or (isinstance(value, str) and value.lower() in ("none", "null"))):
            raise ValidationError(
                hint=" Write none for a size that the data determine; the batch dimension is left out."
            )
        return Int(Bounds(min=self.min)).convert(value)

    def write(self, value: Any) -> Value:
        return ListValue(tuple(Word("none") if v is None else Scalar(v) for v in value))


@dataclass(frozen=True)
class Padding(FieldType):
    """A word (``same``, ``valid``, ...) or explicit numbers, kept as one ``(before, after)`` pair a dimension.

    ``1`` pads every side; ``[1, 2]`` gives one number a dimension; ``[[1, 2], [0, 1]]`` gives both sides. ``words`` may
    be empty. Negative numbers are refused.
    """

    rank: int
    words: tuple[str, ...] = ("valid", "same")

    def describe(self) -> str:
        words = [f"'{w}'" for w in self.words]
        numbers = "an integer of at least 0"
        if self.rank > 1:
            numbers += f", or a list of {self.rank} of them (or of pairs [before, after])"
        else:
            numbers += ", or a pair [before, after]"
        return " or ".join([*words, numbers])

    def label(self) -> str:
        return " | ".join([*self.words, "int or list"])

    def convert(self, value: Any) -> str | tuple[tuple[int, int], ...]:
        if isinstance(value, str):
            if value in self.words:
                return value
            raise ValidationError(hint=did_you_mean(value, self.words), right_kind=bool(self.words))
        one = Int(Bounds(min=0))
        if not isinstance(value, list | tuple):
            n = one.convert(value)
            return ((n, n),) * self.rank
        values: Sequence[Any] = value
        if self.rank == 1 and len(values) == 2 and not any(isinstance(v, list | tuple) for v in values):
            values = (values,)
        if len(values) != self.rank:
            raise ValidationError(right_kind=True)
        return tuple(self._pair(v, one) for v in values)

    def _pair(self, value: Any, one: Int) -> tuple[int, int]:
        if isinstance(value, list | tuple):
            if len(value) != 2:
                raise ValidationError(right_kind=True)
            return one.convert(value[0]), one.convert(value[1])
        n = one.convert(value)
        return n, n

    def write(self, value: Any) -> Value:
        if isinstance(value, str):
            return Word(value)
        if any(before != after for before, after in value):
            return to_value_node(value if self.rank > 1 else value[0])
        sizes = [before for before, _ in value]
        return to_value_node(sizes[0] if len(set(sizes)) == 1 else sizes)
