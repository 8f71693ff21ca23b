"""Values of message fields: as protobuf's Python classes take and give them, and as `Message` holds them."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from prototorch.caffe.text.field_values import round_to_float32
from prototorch.caffe.text.message_types import MessageField, enum_type

__all__ = ["from_python", "to_python"]

_RANGES = {
    "int32": (-(1 << 31), 1 << 31),
    "uint32": (0, 1 << 32),
    "int64": (-(1 << 63), 1 << 63),
    "uint64": (0, 1 << 64),
}


def to_python(field: MessageField, value: Any) -> Any:
    """A stored scalar as Python reads it: enums are integers, bytes are ``bytes``."""
    if field.is_enum:
        return enum_type(field.type).values[value]
    return bytes(value) if field.type == "bytes" else value


def from_python(field: MessageField, value: Any) -> Any:
    """A scalar that Python writes, as it is stored. Enums are integers, or their names.

    Raises TypeError for a value of another type, ValueError for one out of the field's range, as protobuf does.
    """
    if field.is_enum:
        return _enum_name(field, value)
    if field.type == "string":
        return value.decode() if isinstance(value, bytes) else _checked(field, value, str)
    if field.type == "bytes":
        return bytes(_checked(field, value, (bytes, bytearray, memoryview)))
    if field.type == "bool":
        return bool(_checked(field, value, (bool, np.bool_, Integral)))
    if field.is_integer:
        number = int(_checked(field, value, Integral))
        low, high = _RANGES[field.type]
        if not low <= number < high:
            raise ValueError(f"{field.name}: {number} is out of the range of {field.type}")
        return number
    real = float(_checked(field, value, Real))
    return real if field.type == "double" else round_to_float32(real)


def _checked(field: MessageField, value: Any, types: Any) -> Any:
    if not isinstance(value, types):
        raise TypeError(f"{field.name}: expected {field.type}, got {value!r} of type {type(value).__name__}")
    return value


def _enum_name(field: MessageField, value: Any) -> str:
    values = enum_type(field.type).values
    if isinstance(value, str):
        if value not in values:
            raise ValueError(f"{field.name}: {field.type} has no value {value!r}; there are {', '.join(values)}")
        return value
    number = int(_checked(field, value, Integral))
    name = next((n for n, v in values.items() if v == number), None)
    if name is None:
        raise ValueError(f"{field.name}: {field.type} has no value {number}; there are {values}")
    return name
