"""The types of Caffe's messages, from `DEFINITIONS`; one table for texts and for binary files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from prototorch.caffe.text.message_definitions import DEFINITIONS

__all__ = [
    "EnumType", "MessageField", "MessageType", "enum_names", "enum_type", "message_names", "message_type",
]  # fmt: skip

_FIELD = re.compile(r"(\d+) (\w+) (\w+)([*!]?)( packed)?(?: = (\S+))?")
_ARRAYS = ("data", "diff", "double_data", "double_diff", "float_data")
_INTEGERS = ("int32", "int64", "uint32", "uint64")


@dataclass(frozen=True)
class MessageField:
    """A field: its number and name; ``type`` is "bool", "string", "bytes", "float", "double", one of protobuf's
    integers, or the name of a message or enum (`message_type`, `enum_type`). default: for an enum a name; None for
    a message and for a repeated field."""

    number: int
    name: str
    type: str
    is_repeated: bool
    is_required: bool
    is_packed: bool
    default: Any

    @property
    def is_integer(self) -> bool:
        return self.type in _INTEGERS

    @property
    def is_array(self) -> bool:
        """Whether a binary file gives it as a NumPy array: many elements, which a list would hold in many times the
        memory (the data of a BlobProto, ``float_data`` of a Datum)."""
        return self.is_repeated and self.name in _ARRAYS

    @property
    def is_message(self) -> bool:
        return self.type in _tables()[0]

    @property
    def is_enum(self) -> bool:
        return self.type in _tables()[1]


@dataclass(frozen=True)
class EnumType:
    """An enum: its full name ("PoolingParameter.PoolMethod"), and its values by name."""

    name: str
    values: dict[str, int]


@dataclass(frozen=True)
class MessageType:
    """A message: its fields by name and by number."""

    name: str
    fields: dict[str, MessageField]
    by_number: dict[int, MessageField]


def message_type(name: str) -> MessageType:
    """The message of that name ("ConvolutionParameter"). Raises KeyError."""
    return _tables()[0][name]


def enum_type(name: str) -> EnumType:
    """The enum of that full name ("Phase", "PoolingParameter.PoolMethod"). Raises KeyError."""
    return _tables()[1][name]


def message_names() -> list[str]:
    """The names of all messages."""
    return list(_tables()[0])


def enum_names() -> list[str]:
    """The full names of all enums."""
    return list(_tables()[1])


@cache
def _tables() -> tuple[dict[str, MessageType], dict[str, EnumType]]:
    sections: dict[str, dict[str, str]] = {"message": {}, "enum": {}}
    for kind, name, body in re.findall(r"^(message|enum) ([\w.]+):((?:.|\n(?!message|enum))*)", DEFINITIONS, re.M):
        sections[kind][name] = body
    enums = {}
    for name, body in sections["enum"].items():
        pairs = (item.split("=") for item in body.split())
        enums[name] = EnumType(name, {word: int(value) for word, value in pairs})
    messages = {}
    for name, body in sections["message"].items():
        fields = [_parse_field(name, item.strip(), enums) for item in body.split(";") if item.strip()]
        messages[name] = MessageType(name, {f.name: f for f in fields}, {f.number: f for f in fields})
    return messages, enums


def _parse_field(message: str, text: str, enums: dict[str, EnumType]) -> MessageField:
    match = _FIELD.fullmatch(" ".join(text.split()))
    assert match is not None, text
    number, name, type_name, mark, packed_mark, default = match.groups()
    inner = f"{message}.{type_name}"
    type_name = inner if inner in enums else type_name
    value = None if mark == "*" else _parse_default(type_name, default, enums)
    return MessageField(int(number), name, type_name, mark == "*", mark == "!", packed_mark is not None, value)


def _parse_default(type_name: str, text: str | None, enums: dict[str, EnumType]) -> Any:
    if type_name in enums:
        return text if text is not None else next(iter(enums[type_name].values))
    if type_name in _INTEGERS:
        return int(text or 0)
    if type_name in ("float", "double"):
        return float(text or 0) if type_name == "double" else float(np.float32(text or 0))
    if type_name == "bool":
        return text == "true"
    if type_name == "string":
        return (text or "").strip('"')
    return b"" if type_name == "bytes" else None
