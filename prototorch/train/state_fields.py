"""What the values of a saved training state may be: checked when a file is read, before other code meets them.

A field's `check` raises StateError, which names the path of the value (``fit.loader.position``), what it is and what it
must be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = [
    "AnyState", "ArrayField", "Flag", "Integer", "ListField", "LogValue", "MapField", "Number", "OneOf",
    "OptionalField", "Record", "StateError", "StateField", "Text",
]  # fmt: skip

MAX_INTEGER = 2**53  # of counts: the integers that every reader of JSON keeps
MAX_DEPTH = 32  # of lists and mappings inside each other, in the state of a callback from elsewhere


_NOTHING = object()  # in the place of a value that is missing


class StateError(Exception):
    """A value that a saved training state cannot have."""

    def __init__(self, path: str, value: Any, expected: str):
        super().__init__(f"{path}: expected {expected}, got {describe_value(value)}")


def describe_value(value: Any) -> str:
    """A value in a message: short, and quoted where it is a string."""
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, np.ndarray):
        return f"an array {list(value.shape)} of {value.dtype}"
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


class StateField:
    """A kind of value."""

    def check(self, value: Any, path: str) -> None:
        """Raise StateError where the value is of another kind."""
        raise NotImplementedError


@dataclass(frozen=True)
class Integer(StateField):
    """An integer from ``min`` to ``max``; no bool."""

    min: int = 0
    max: int = MAX_INTEGER

    def check(self, value: Any, path: str) -> None:
        if type(value) is not int or not self.min <= value <= self.max:
            raise StateError(path, value, f"an integer from {self.min:,} to {self.max:,}")


@dataclass(frozen=True)
class Number(StateField):
    """A number from ``min`` to ``max``; no bool. allows_infinity, allows_nan: also these."""

    min: float = -math.inf
    max: float = math.inf
    allows_infinity: bool = False
    allows_nan: bool = False

    def check(self, value: Any, path: str) -> None:
        is_number = type(value) is float or (type(value) is int and abs(value) <= MAX_INTEGER)
        if not is_number or not (self.allows_nan if math.isnan(value) else self._is_in_range(value)):
            finite = "" if self.allows_infinity else "finite "
            least = "" if self.min == -math.inf else f" of at least {self.min:g}"
            most = "" if self.max == math.inf else f", at most {self.max:g}"
            raise StateError(path, value, f"a {finite}number{least}{most}")

    def _is_in_range(self, value: float) -> bool:
        return self.min <= value <= self.max and (self.allows_infinity or math.isfinite(value))


@dataclass(frozen=True)
class LogValue(StateField):
    """A number, which may be not finite, or nested lists of them: a metric that is an array."""

    def check(self, value: Any, path: str) -> None:
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.check(item, f"{path}[{index}]")
        else:
            Number(allows_infinity=True, allows_nan=True).check(value, path)


@dataclass(frozen=True)
class Flag(StateField):
    """true or false."""

    def check(self, value: Any, path: str) -> None:
        if type(value) is not bool:
            raise StateError(path, value, "true or false")


@dataclass(frozen=True)
class Text(StateField):
    """A string of at most ``max_length`` characters."""

    max_length: int = 10_000

    def check(self, value: Any, path: str) -> None:
        if not isinstance(value, str) or len(value) > self.max_length:
            raise StateError(path, value, f"a string of at most {self.max_length:,} characters")


@dataclass(frozen=True)
class OneOf(StateField):
    """One of several strings."""

    values: tuple[str, ...]

    def check(self, value: Any, path: str) -> None:
        if not isinstance(value, str) or value not in self.values:
            raise StateError(path, value, f"one of {', '.join(self.values)}")


@dataclass(frozen=True)
class OptionalField(StateField):
    """Null, or what ``inner`` is."""

    inner: StateField

    def check(self, value: Any, path: str) -> None:
        if value is not None:
            self.inner.check(value, path)


@dataclass(frozen=True)
class ListField(StateField):
    """A list of values of one kind."""

    inner: StateField

    def check(self, value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise StateError(path, value, "a list")
        for index, item in enumerate(value):
            self.inner.check(item, f"{path}[{index}]")


@dataclass(frozen=True)
class MapField(StateField):
    """A mapping from names to values of one kind."""

    inner: StateField

    def check(self, value: Any, path: str) -> None:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise StateError(path, value, "a mapping")
        for name, item in value.items():
            self.inner.check(item, f"{path}.{name[:60]}")


@dataclass(frozen=True)
class ArrayField(StateField):
    """An array of floats."""

    def check(self, value: Any, path: str) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            raise StateError(path, value, "an array of floats")


@dataclass(frozen=True)
class Record(StateField):
    """A mapping with exactly these names; those of ``optional`` may be missing, as in files of older versions."""

    fields: Mapping[str, StateField]
    optional: Mapping[str, StateField] = field(default_factory=dict)

    def check(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise StateError(path, value, "a mapping")
        for name in self.fields:
            if name not in value:
                raise StateError(f"{path}.{name}".lstrip("."), _NOTHING, "a value")
        for name, item in value.items():
            inner = self.fields.get(name) or self.optional.get(name)
            if inner is None:
                names = ", ".join((*self.fields, *self.optional))
                raise StateError(path or "the state", name, f"the names {names}")
            inner.check(item, f"{path}.{name}".lstrip("."))


@dataclass(frozen=True)
class AnyState(StateField):
    """What a callback from elsewhere may save: null, numbers, strings, arrays, and lists and mappings of them."""

    def check(self, value: Any, path: str) -> None:
        self._check(value, path, 0)

    def _check(self, value: Any, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise StateError(path, value, f"at most {MAX_DEPTH} lists and mappings inside each other")
        if isinstance(value, dict):
            for name, item in value.items():
                self._check(item, f"{path}.{name[:60]}", depth + 1)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._check(item, f"{path}[{index}]", depth + 1)
        elif not (value is None or isinstance(value, str | bool | int | float | np.ndarray)):
            raise StateError(path, value, "a number, a string, an array, or lists and mappings of them")
