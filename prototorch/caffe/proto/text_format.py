"""Messages as text and back, by the names of ``google.protobuf.text_format``."""

from __future__ import annotations

from typing import TypeVar

from prototorch.caffe.proto.message_classes import wrap_message
from prototorch.caffe.proto.proto_message import ProtoMessage
from prototorch.caffe.text.reader import read_message
from prototorch.errors import TextError

__all__ = ["Merge", "MessageToString", "Parse", "ParseError"]

ParseError = TextError
AnyMessage = TypeVar("AnyMessage", bound=ProtoMessage)


def Merge(text: str | bytes, message: AnyMessage) -> AnyMessage:
    """Add the fields of a text to a message, and return it. Raises TextError with all mistakes and their places."""

    source = read_message(text.decode() if isinstance(text, bytes) else text, message.type_name)
    message.MergeFrom(wrap_message(source))
    return message


def Parse(text: str | bytes, message: AnyMessage) -> AnyMessage:
    """As `Merge`."""
    return Merge(text, message)


def MessageToString(message: ProtoMessage) -> str:
    """The text of a message, a field a line, as protobuf lays it out."""
    return str(message)
