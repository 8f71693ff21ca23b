"""A message with the manners of protobuf's Python classes: fields are attributes, ``CopyFrom``, ``ParseFromString``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from prototorch.caffe.interop.wire import decode, encode
from prototorch.caffe.proto.field_conversion import from_python, to_python
from prototorch.caffe.proto.repeated_fields import RepeatedMessages, RepeatedScalars
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import MessageField
from prototorch.caffe.text.writer import format_message
from prototorch.errors import did_you_mean

__all__ = ["ProtoMessage"]


class ProtoMessage:
    """The base of the classes of `caffe_pb2`.

    Reading a message that is not set gives an empty one, which is set as soon as something is written into it.
    Subclasses say their type, and how a message of another type is wrapped.
    """

    type_name: ClassVar[str]
    wrap: ClassVar[Callable[[Message], Any]]
    message: Message

    def __init__(self, **values: Any):
        self.bind_message(Message(self.type_name), None)
        self.assign(values)

    def bind_message(self, message: Message, parent: tuple[ProtoMessage, str] | None) -> None:
        """Hold this message itself. parent: the message, and the name of its field, that this one is set in before it
        is written; None for a message that is part of no other, or is set already."""
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "_parent", parent)
        object.__setattr__(self, "_children", {})

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set fields: scalars, lists, and for messages dictionaries or messages."""
        for name, value in values.items():
            field = self._field(name)
            if value is None:
                continue
            if field.is_repeated:
                items = getattr(self, name)
                for item in value:
                    items.add(**item) if field.is_message and isinstance(item, Mapping) else items.append(item)
            elif not field.is_message:
                setattr(self, name, value)
            elif isinstance(value, Mapping):
                getattr(self, name).assign(value)
                getattr(self, name).SetInParent()
            else:
                getattr(self, name).CopyFrom(value)

    def _field(self, name: str) -> MessageField:
        fields = self.message.type.fields
        if name not in fields:
            raise AttributeError(f"{self.type_name} has no field {name!r}.{did_you_mean(name, fields)}")
        return fields[name]

    def _own(self, is_written: bool = True) -> Message:
        """The message, which is set in the one that it is part of before it is written."""
        parent = self._parent
        if is_written and parent is not None:
            outer, name = parent
            owner = outer._own()
            if owner.has(name):
                object.__setattr__(self, "message", owner[name])
            else:
                owner[name] = self.message
            object.__setattr__(self, "_parent", None)
        return self.message

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "message":
            raise AttributeError(name)
        field = self._field(name)
        if not (field.is_repeated or field.is_message):
            return to_python(field, self.message[name])
        if name not in self._children:
            self._children[name] = self._child(field)
        return self._children[name]

    def _child(self, field: MessageField) -> Any:
        wrap = type(self).wrap
        if field.is_repeated:
            return RepeatedMessages(self._own, field, wrap) if field.is_message else RepeatedScalars(self._own, field)
        child = wrap(self.message[field.name])
        if not self.message.has(field.name):
            child.bind_message(child.message, (self, field.name))
        return child

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._field(name)
        if field.is_repeated or field.is_message:
            how = "extend or append" if field.is_repeated else "CopyFrom"
            raise AttributeError(f"the field {name!r} of {self.type_name} is not assigned to; use its {how}")
        stored_value = from_python(field, value)
        self._own()[name] = stored_value

    def HasField(self, name: str) -> bool:
        """Whether a field is set. Raises ValueError for a repeated field, and for one that does not exist."""
        if name not in self.message.type.fields or self.message.type.fields[name].is_repeated:
            raise ValueError(f"{self.type_name} has no field {name!r} that is set or not")
        return self.message.has(name)

    def ClearField(self, name: str) -> None:
        """Take a field away. Raises ValueError for one that does not exist."""
        if name not in self.message.type.fields:
            raise ValueError(f"{self.type_name} has no field {name!r}")
        self._own().clear(name)
        if not self.message.type.fields[name].is_repeated:
            self._children.pop(name, None)

    def Clear(self) -> None:
        """Take all fields away."""
        for name in self.message.type.fields:
            self.ClearField(name)

    def SetInParent(self) -> None:
        """Set the message in the one that it is part of."""
        self._own()

    def CopyFrom(self, other: ProtoMessage) -> None:
        """Take the fields of another message of the type, instead of one's own."""
        source = self._same_type(other).copy()
        self.Clear()
        self._fill(source)

    def MergeFrom(self, other: ProtoMessage) -> None:
        """Take the fields of another message of the type: repeated ones are appended, messages merged."""
        self._fill(self._same_type(other).copy())

    def _same_type(self, other: ProtoMessage) -> Message:
        if not isinstance(other, ProtoMessage) or other.type_name != self.type_name:
            raise TypeError(f"expected a {self.type_name}, got {type(other).__name__}")
        return other.message

    def _fill(self, source: Message) -> None:
        merge_messages(self._own(), source)
        self._children.clear()

    def SerializeToString(self) -> bytes:
        """The binary form. Raises ProtobufError where a required field is missing."""
        return encode(self.message)

    def ParseFromString(self, data: bytes) -> int:
        """Take the fields that the bytes hold, instead of one's own; returns their number. Raises ProtobufError."""
        read = decode(data, self.type_name)
        self.Clear()
        self._fill(read)
        return len(data)

    def MergeFromString(self, data: bytes) -> int:
        """As `MergeFrom`, for the binary form of a message."""
        self._fill(decode(data, self.type_name))
        return len(data)

    @classmethod
    def FromString(cls, data: bytes) -> Self:
        """The message that the bytes hold. Raises ProtobufError."""
        message = cls()
        message.ParseFromString(data)
        return message

    def ByteSize(self) -> int:
        """The number of bytes of the binary form."""
        return len(encode(self.message))

    def IsInitialized(self) -> bool:
        """Whether all required fields are set, those of the messages inside included."""
        missing = any(f.is_required and not self.message.has(f.name) for f in self.message.type.fields.values())
        inner = (m for f, v in self.message.set_fields() if f.is_message for m in (v if f.is_repeated else [v]))
        wrap = type(self).wrap
        return not missing and all(wrap(message).IsInitialized() for message in inner)

    def ListFields(self) -> list[tuple[MessageField, Any]]:
        """The fields that are set, by number, with their values; a field has a ``name`` and a ``number``."""
        return [(field, getattr(self, field.name)) for field, _ in self.message.set_fields()]

    def __str__(self) -> str:
        return format_message(self.message, is_protobuf=True)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self.message == other.message if isinstance(other, ProtoMessage) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self)()
        copy.CopyFrom(self)
        return copy

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.message.type.fields]


def merge_messages(target: Message, source: Message) -> None:
    """Add the fields of a message to another of the type, as protobuf merges them."""
    for field, value in source.set_fields():
        if field.is_repeated:
            target[field.name] = [*target[field.name], *value] if target.has(field.name) else value
        elif field.is_message and target.has(field.name):
            merge_messages(target[field.name], value)
        else:
            target[field.name] = value
