"""Caffe's messages as text, in the layout of protobuf: one field a line; Caffe and `read_message` read it back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from prototorch.caffe.text.field_values import round_to_float32
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import MessageField
from prototorch.text.string_literals import quote

__all__ = ["format_message"]

_SINGLE_DIGITS = 9  # decimal digits that tell any two numbers of single precision apart
#: Messages of one kind of short value, which a person writes on one line: ``shape { dim: 1 dim: 3 }``.
_ONE_LINE = ("BlobShape", "NetStateRule", "ParamSpec", "NetState")
#: Fields of a layer that come first, in this order.
_FIRST_FIELDS = ("name", "type", "bottom", "top")


def format_message(message: Message, is_protobuf: bool = False) -> str:
    """The text of a message, with a line end at its end; an empty string for one without fields.

    is_protobuf: write it just as protobuf lays it out: fields by number, each on a line of its own.
    """
    return "".join(f"{line}\n" for line in _format_fields(message, "", is_protobuf))


def _format_fields(message: Message, indent: str, is_protobuf: bool = False) -> Iterator[str]:
    fields = list(message.set_fields())
    if not is_protobuf and message.type.name in ("LayerParameter", "V1LayerParameter"):
        fields.sort(key=_layer_order)
    for field, value in fields:
        for item in value if field.is_repeated else [value]:
            if not field.is_message:
                yield f"{indent}{field.name}: {_format_value(field, item)}"
            elif item.type.name in _ONE_LINE and not is_protobuf:
                inside = " ".join(_format_fields(item, ""))
                yield f"{indent}{field.name} {{ {inside} }}" if inside else f"{indent}{field.name} {{ }}"
            else:
                yield f"{indent}{field.name} {{"
                yield from _format_fields(item, indent + "  ", is_protobuf)
                yield indent + "}"


def _layer_order(pair: tuple[MessageField, Any]) -> int:
    name = pair[0].name
    return _FIRST_FIELDS.index(name) if name in _FIRST_FIELDS else len(_FIRST_FIELDS)


def _format_value(field: MessageField, value: Any) -> str:
    if field.type == "bool":
        return "true" if value else "false"
    if field.type == "string":
        return quote(value)
    if field.type == "bytes":
        return '"' + "".join(_format_byte(b) for b in value) + '"'
    if field.type in ("float", "double"):
        return _format_float(float(value), field.type == "float")
    return str(value)


def _format_byte(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"


def _format_float(value: float, is_single: bool) -> str:
    """The shortest decimal number that is read as the value."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    if is_single:
        shorter = (f"{value:.{digits}g}" for digits in range(1, _SINGLE_DIGITS + 1))
        text = next((t for t in shorter if round_to_float32(float(t)) == value), text)
        text = text if "e" not in text or abs(value) >= 1e16 or abs(value) < 1e-4 else repr(float(text))
    return text.removesuffix(".0")
