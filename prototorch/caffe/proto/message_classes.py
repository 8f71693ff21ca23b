"""The classes of Caffe's messages and enums, made from the table of `message_definitions`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from prototorch.caffe.proto.proto_message import ProtoMessage
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import MessageField, MessageType, enum_names, enum_type, message_type

__all__ = ["EnumNames", "MessageDescriptor", "enum_names_of", "message_class", "wrap_message"]


@dataclass(frozen=True)
class EnumValue:
    """A value of an enum: its name and number."""

    name: str
    number: int


@dataclass(frozen=True)
class EnumNames:
    """An enum: numbers by names (``Value``) and names by numbers (``Name``)."""

    type_name: str

    def _values(self) -> dict[str, int]:
        return enum_type(self.type_name).values

    def Value(self, name: str) -> int:
        """The number of a name. Raises ValueError."""
        if name not in self._values():
            raise ValueError(f"{self.type_name} has no value {name!r}; there are {', '.join(self._values())}")
        return self._values()[name]

    def Name(self, number: int) -> str:
        """The name of a number. Raises ValueError."""
        for name, value in self._values().items():
            if value == number:
                return name
        raise ValueError(f"{self.type_name} has no value {number}; there are {self._values()}")

    def keys(self) -> list[str]:
        """The names."""
        return list(self._values())

    def values(self) -> list[int]:
        """The numbers."""
        return list(self._values().values())

    def items(self) -> list[tuple[str, int]]:
        """Names with numbers."""
        return list(self._values().items())

    @property
    def DESCRIPTOR(self) -> EnumNames:
        """The enum itself."""
        return self

    @property
    def values_by_name(self) -> dict[str, EnumValue]:
        """The values, each with ``name`` and ``number``."""
        return {name: EnumValue(name, number) for name, number in self.items()}


@dataclass(frozen=True)
class MessageDescriptor:
    """What is known of a message's type: ``name``, ``full_name``, and its ``fields``."""

    type: MessageType

    @property
    def name(self) -> str:
        return self.type.name

    @property
    def full_name(self) -> str:
        return f"caffe.{self.type.name}"

    @property
    def fields(self) -> list[MessageField]:
        """In the order of the file that defines them."""
        return list(self.type.fields.values())

    @property
    def fields_by_name(self) -> dict[str, MessageField]:
        return dict(self.type.fields)


def wrap_message(message: Message) -> Any:
    """The object of its class that holds this message itself, no copy."""
    cls = message_class(message.type.name)
    wrapper = cls.__new__(cls)
    wrapper.bind_message(message, None)
    return wrapper


@cache
def message_class(name: str) -> type[ProtoMessage]:
    """The class of a message; its enums and their values are its attributes. Raises KeyError."""
    kind = message_type(name)
    members: dict[str, Any] = {"type_name": name, "wrap": staticmethod(wrap_message), "__module__": __name__}
    members |= {"__doc__": f"Caffe's message {name}.", "DESCRIPTOR": MessageDescriptor(kind)}
    for enum_name in _enums_inside(name):
        members |= enum_type(enum_name).values
        members[enum_name.rpartition(".")[2]] = EnumNames(enum_name)
    members |= {f"{field.name.upper()}_FIELD_NUMBER": field.number for field in kind.fields.values()}
    return type(name, (ProtoMessage,), members)


def enum_names_of(name: str) -> EnumNames:
    """The enum of that full name. Raises KeyError."""
    return EnumNames(enum_type(name).name)


def _enums_inside(message: str) -> Iterator[str]:
    return (name for name in enum_names() if name.rpartition(".")[0] == message)
