"""A message of Caffe: typed values by field name, with their places in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from prototorch.caffe.text.message_types import MessageField, MessageType, message_type
from prototorch.text.source import Span

__all__ = ["Message"]


class Message:
    """Values of a message's fields; what is not set has its default, as in protobuf.

    ``message["pad"]`` is the value: an int, float, bool, str, bytes, the name of an enum's value, a `Message`, or for
    a repeated field a list. From a binary file ``bytes`` are a memory view, and the elements of a blob a NumPy array
    (`MessageField.is_array`). A ``float`` is rounded to single precision when it is read, as in Caffe. Reading a
    message that is not set gives an empty one, which is not stored. KeyError for a field that the type does not have.

    span: where the message stands in a text, None for one that is made or read from a binary file.
    """

    def __init__(self, type_name: str, /, *, span: Span | None = None, **values: Any):
        self.type: MessageType = message_type(type_name)
        self.span = span
        self._values: dict[str, Any] = {}
        self._spans: dict[str, list[Span | None]] = {}
        for name, value in values.items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        field = self.type.fields[name]
        if name in self._values:
            return self._values[name]
        if field.is_repeated:
            return []
        return Message(field.type) if field.is_message else field.default

    def __setitem__(self, name: str, value: Any) -> None:
        field = self.type.fields[name]
        is_list = field.is_repeated and not isinstance(value, np.ndarray)
        self._values[name] = list(value) if is_list else value
        self._spans.pop(name, None)

    def set(self, name: str, value: Any, span: Span | None = None) -> None:
        """Set a field, or append to a repeated one, with the place of the value."""
        field = self.type.fields[name]
        if field.is_repeated:
            self._values.setdefault(name, []).append(value)
        else:
            self._values[name] = value
        self._spans.setdefault(name, []).append(span)

    def has(self, name: str) -> bool:
        """Whether a field is set; a repeated one, whether it has values. KeyError for one that does not exist."""
        return name in self._values and (not self.type.fields[name].is_repeated or len(self._values[name]) > 0)

    def clear(self, name: str) -> None:
        """Take a field away."""
        self._values.pop(name, None)
        self._spans.pop(name, None)

    def mutable(self, name: str) -> Message:
        """The message in a field, which is set to an empty one where it is not set."""
        if name not in self._values:
            self[name] = Message(self.type.fields[name].type)
        value = self._values[name]
        assert isinstance(value, Message)
        return value

    def field_span(self, name: str, index: int = 0) -> Span | None:
        """The place of a field's value; that of the message where it is not known."""
        spans = self._spans.get(name, [])
        return (spans[index] if index < len(spans) else None) or self.span

    def set_fields(self) -> Iterator[tuple[MessageField, Any]]:
        """The fields that are set with their values, in the order of their numbers."""
        for number in sorted(self.type.by_number):
            field = self.type.by_number[number]
            if self.has(field.name):
                yield field, self._values[field.name]

    def copy(self) -> Message:
        """A copy, with copies of the messages inside."""
        new = Message(self.type.name, span=self.span)
        for name, value in self._values.items():
            new._values[name] = [_copy(v) for v in value] if isinstance(value, list) else _copy(value)
        new._spans = {name: list(spans) for name, spans in self._spans.items()}
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        own_fields, other_fields = list(self.set_fields()), list(other.set_fields())
        return (
            self.type.name == other.type.name
            and [field for field, _ in own_fields] == [field for field, _ in other_fields]
            and all(_equal(a, b) for (_, a), (_, b) in zip(own_fields, other_fields, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Message({self.type.name!r}, {', '.join(f'{f.name}={v!r}' for f, v in self.set_fields())})"


def _equal(a: Any, b: Any) -> bool:
    is_array = isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
    return np.array_equal(a, b, equal_nan=True) if is_array else bool(a == b)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, Message) else value
