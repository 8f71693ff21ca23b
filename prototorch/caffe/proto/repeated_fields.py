"""Repeated fields of a message as Python sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from typing import Any

import numpy as np

from prototorch.caffe.proto.field_conversion import from_python, to_python
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import MessageField

__all__ = ["RepeatedMessages", "RepeatedScalars"]


class RepeatedScalars(MutableSequence[Any]):
    """The values of a repeated field of scalars: a list whose elements are checked. ``numpy.array`` of it is fast."""

    def __init__(self, message: Callable[[bool], Message], field: MessageField):
        self._message, self._field = message, field

    def _values(self) -> Any:
        return self._message(False)[self._field.name]

    def _store(self, values: Any) -> None:
        message = self._message(True)
        if len(values):
            message[self._field.name] = values
        else:
            message.clear(self._field.name)

    def __len__(self) -> int:
        return len(self._values())

    def __getitem__(self, index: Any) -> Any:
        values = self._values()
        if isinstance(index, slice):
            return [self._read(value) for value in values[index]]
        return self._read(values[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        values = list(self)
        values[index] = value
        self._store([from_python(self._field, v) for v in values])

    def __delitem__(self, index: Any) -> None:
        values = list(self._values())
        del values[index]
        self._store(values)

    def insert(self, index: int, value: Any) -> None:
        values = list(self._values())
        values.insert(index, from_python(self._field, value))
        self._store(values)

    def extend(self, values: Iterable[Any]) -> None:
        """Append all elements; a NumPy array (or its ``flat``) goes into the data of a blob without a loop."""
        if self._field.is_array:
            dtype = np.float32 if self._field.type == "float" else np.float64
            items = values if isinstance(values, np.ndarray | np.flatiter | list | tuple) else list(values)
            added = np.asarray(items, dtype).reshape(-1)
            old = self._values()
            self._store(np.concatenate([np.asarray(old, dtype), added]) if len(old) else np.array(added))
            return
        self._store([*self._values(), *(from_python(self._field, value) for value in values)])

    def append(self, value: Any) -> None:
        self.extend([value])

    def __iter__(self) -> Iterator[Any]:
        return iter([self._read(value) for value in self._values()])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values() if self._field.is_array else list(self), dtype=dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def _read(self, value: Any) -> Any:
        return float(value) if self._field.is_array else to_python(self._field, value)


class RepeatedMessages(Sequence[Any]):
    """The messages of a repeated field. ``add`` appends a new one; what is appended otherwise is copied."""

    def __init__(self, message: Callable[[bool], Message], field: MessageField, wrap: Callable[[Message], Any]):
        self._message, self._field, self._wrap = message, field, wrap

    def _items(self) -> list[Message]:
        items: list[Message] = self._message(False)[self._field.name]
        return items

    def __len__(self) -> int:
        return len(self._items())

    def __getitem__(self, index: Any) -> Any:
        items = self._items()
        return [self._wrap(m) for m in items[index]] if isinstance(index, slice) else self._wrap(items[index])

    def __delitem__(self, index: Any) -> None:
        items = list(self._items())
        del items[index]
        self._message(True)[self._field.name] = items

    def add(self, **values: Any) -> Any:
        """Append a new message with these fields, and return it."""
        element = self._wrap(Message(self._field.type))
        element.assign(values)
        self._message(True).set(self._field.name, element.message)
        return element

    def append(self, value: Any) -> None:
        """Append a copy of a message."""
        self.insert(len(self), value)

    def insert(self, index: int, value: Any) -> None:
        """Insert a copy of a message before a position."""
        items = list(self._items())
        items.insert(index, self._own(value))
        self._message(True)[self._field.name] = items

    def extend(self, values: Iterable[Any]) -> None:
        """Append copies of messages."""
        copies = [self._own(value) for value in values]
        if copies:
            self._message(True)[self._field.name] = [*self._items(), *copies]

    def pop(self, index: int = -1) -> Any:
        """Take a message away, and return it."""
        value = self[index]
        del self[index]
        return value

    def remove(self, value: Any) -> None:
        """Take away the first message that is equal."""
        del self[self.index(value)]

    def _own(self, value: Any) -> Message:
        message = getattr(value, "message", None)
        if not isinstance(message, Message) or message.type.name != self._field.type:
            raise TypeError(f"{self._field.name}: expected messages of type {self._field.type}, got {value!r}")
        return message.copy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))
