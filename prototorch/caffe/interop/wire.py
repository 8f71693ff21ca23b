"""Caffe's messages in protobuf's binary form, both directions, by the table of `message_definitions`.

Not by the ``protobuf`` package: it refuses messages of 2 GB and more, copies every array, and has no bound on the
objects that few bytes become. Here arrays (the data of a BlobProto, ``float_data`` of a Datum) are NumPy views of the
bytes that are read, and ``bytes`` fields are memory views of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import MessageField, MessageType, enum_type, message_type
from prototorch.interop.protobuf_reader import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    ProtobufError,
    encode_varint,
    iter_fields,
    read_varints,
)

__all__ = ["ProtobufError", "decode", "encode", "iter_encoded"]

MAX_VALUES = 300_000  # of all messages together, arrays not counted: a net of 1,000 layers has about 30,000
_MAX_NAME_BYTES = 1 << 20  # of one string
_PIECE_VALUES = 10  # as many values a piece of an array counts for
_PIECE_ELEMENTS = 1 << 22  # of an array that is written at once
_SCALAR_KIND = {"float": FIXED32, "double": FIXED64, "string": BYTES, "bytes": BYTES}


def decode(data: bytes | memoryview, type_name: str, unknown: dict[str, int] | None = None) -> Message:
    """The message of a type ("NetParameter") that the bytes hold.

    Array fields (`MessageField.is_array`) are read-only NumPy arrays, views of ``data`` where they lie in one piece;
    ``bytes`` fields are memory views. unknown: gets the fields and enum values that Caffe's definition does not have,
    as ``"LayerParameter field 150"``, with how often each occurs; they are left out. Raises ProtobufError for bytes
    that are no such message, that lack a required field, or that hold more than `MAX_VALUES` values.
    """
    return _Decoder({} if unknown is None else unknown).message(memoryview(data), message_type(type_name))


class _Decoder:
    def __init__(self, unknown: dict[str, int]):
        self.unknown = unknown
        self.num_values = 0

    def message(self, data: memoryview, kind: MessageType) -> Message:
        values: dict[str, list[Any]] = {}
        for number, wire_type, value in self.fields(data, kind):
            field = kind.by_number.get(number)
            decoded = None if field is None else self.values(field, wire_type, value)
            if field is None or decoded is None:
                self.skip(f"{kind.name} field {number}")
            else:
                values.setdefault(field.name, []).extend(decoded)
        message = Message(kind.name)
        for name, decoded in values.items():
            field = kind.fields[name]
            if field.is_array:
                message[name] = _join_arrays(decoded)
            elif field.is_message:
                self.set_messages(message, field, decoded)
            elif field.is_repeated or decoded:
                message[name] = decoded if field.is_repeated else decoded[-1]
        for field in kind.fields.values():
            if field.is_required and field.name not in values:
                raise ProtobufError(f"a {kind.name} without its {field.name}")
        return message

    def fields(self, data: memoryview, kind: MessageType) -> Iterator[tuple[int, int, Any]]:
        """The fields of a message, counted; elements of an array that follow each other with a tag each are one."""
        runs = {f.number: 4 if f.type == "float" else 8 for f in kind.fields.values() if f.is_array}
        for number, wire_type, value in iter_fields(data, runs):
            self.num_values += 1
            if self.num_values > MAX_VALUES:
                raise ProtobufError(f"more than {MAX_VALUES:,} values; a net of 1,000 layers has about 30,000")
            yield number, wire_type, value

    def values(self, field: MessageField, wire_type: int, value: Any) -> list[Any] | None:
        """The values that one field of the wire stands for; None where its type is another."""
        if field.is_array:
            return self.elements(field, wire_type, value)
        expected = BYTES if field.is_message else _SCALAR_KIND.get(field.type, VARINT)
        if wire_type == expected:
            if expected != VARINT and expected != BYTES:
                return [_to_float(value, field.type)]
            return [value] if field.is_message else self.scalars(field, [value])
        if wire_type == BYTES and field.is_repeated and expected == VARINT:
            varints = read_varints(value, MAX_VALUES - self.num_values)
            self.num_values += len(varints)
            return self.scalars(field, varints)
        if wire_type == BYTES and field.is_repeated and expected == FIXED32 and not len(value) % 4:
            self.num_values += len(value) // 4
            return [float(element) for element in np.frombuffer(value, "<f4")]
        return None

    def elements(self, field: MessageField, wire_type: int, value: Any) -> list[Any] | None:
        """Elements of an array. Raises ProtobufError where the last one is cut."""
        dtype = np.dtype("<f4" if field.type == "float" else "<f8")
        if wire_type == _SCALAR_KIND[field.type]:
            value = memoryview(int(value).to_bytes(dtype.itemsize, "little"))
        elif wire_type != BYTES:
            return None
        self.num_values += _PIECE_VALUES
        if len(value) % dtype.itemsize:
            raise ProtobufError(f"{field.name} has {len(value):,} bytes, not a multiple of {dtype.itemsize}")
        return [np.frombuffer(value, dtype)]

    def scalars(self, field: MessageField, values: list[Any]) -> list[Any] | None:
        """Integers, words and texts of a field; values that an enum does not have are left out, and counted."""
        if field.is_enum:
            names = {number: name for name, number in enum_type(field.type).values.items()}
            valid = [names[value] for value in values if value in names]
            for value in values:
                if value not in names:
                    self.skip(f"{field.type} value {value if value < 1 << 63 else value - (1 << 64)}")
            return valid
        if field.type == "string":
            return [_to_text(value, field.name) for value in values]
        if field.type == "bool":
            return [bool(value) for value in values]
        return values if field.type == "bytes" else [_to_integer(value, field.type) for value in values]

    def set_messages(self, message: Message, field: MessageField, parts: list[memoryview]) -> None:
        """Messages inside; a field that is not repeated but occurs again is merged, as protobuf does."""
        kind = message_type(field.type)
        if field.is_repeated:
            message[field.name] = [self.message(part, kind) for part in parts]
        else:
            message[field.name] = self.message(parts[0] if len(parts) == 1 else memoryview(b"".join(parts)), kind)

    def skip(self, what: str) -> None:
        if what in self.unknown or len(self.unknown) < 100:
            self.unknown[what] = self.unknown.get(what, 0) + 1


def _join_arrays(parts: list[np.ndarray]) -> np.ndarray:
    array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    array.flags.writeable = False
    return array


def _to_float(bits: int, type_name: str) -> float:
    raw = struct.pack("<I", bits) if type_name == "float" else struct.pack("<Q", bits)
    return float(struct.unpack("<f" if type_name == "float" else "<d", raw)[0])


def _to_integer(value: int, type_name: str) -> int:
    bits = 32 if type_name.endswith("32") else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if type_name.startswith("int") and value >= 1 << (bits - 1) else value


def _to_text(value: memoryview, name: str) -> str:
    if len(value) > _MAX_NAME_BYTES:
        raise ProtobufError(f"{name} is a text of {len(value):,} bytes (at most {_MAX_NAME_BYTES:,})")
    return str(value, "utf-8", "backslashreplace")


def encode(message: Message) -> bytes:
    """The binary form of a message: its fields in the order of their numbers, as Caffe writes them.

    Raises ProtobufError for a message that lacks a required field.
    """
    return b"".join(iter_encoded(message))


def iter_encoded(message: Message) -> Iterator[bytes | memoryview]:
    """The binary form of a message in pieces, for one that is too large to be in memory twice.

    An array is converted to little-endian elements when its piece is asked for. Raises ProtobufError, before the
    first piece, for a message that lacks a required field.
    """
    pieces, _ = _encode(message)
    return _iter_pieces(pieces)


Piece = bytes | tuple[np.ndarray, str]


def _iter_pieces(pieces: list[Piece]) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        array, dtype = piece
        if array.flags.c_contiguous and array.dtype == np.dtype(dtype):
            yield array.reshape(-1).data.cast("B") if array.size else b""
            continue
        rows = max(1, _PIECE_ELEMENTS // max(1, array[:1].size))
        for start in range(0, len(array), rows):
            yield array[start : start + rows].astype(dtype).tobytes()


def _encode(message: Message) -> tuple[list[Piece], int]:
    """The pieces of a message, and the number of their bytes."""
    pieces: list[Piece] = []
    head = bytearray()
    total = 0

    def flush() -> None:
        nonlocal total
        if head:
            pieces.append(bytes(head))
            total += len(head)
            head.clear()

    for field in message.type.fields.values():
        if field.is_required and not message.has(field.name):
            raise ProtobufError(f"a {message.type.name} without its {field.name}")
    for field, value in message.set_fields():
        if field.is_message:
            for inner in value if field.is_repeated else [value]:
                inside, size = _encode(inner)
                head += _tag(field, BYTES) + encode_varint(size)
                flush()
                pieces += inside
                total += size
        elif field.is_array:
            array, dtype = np.atleast_1d(np.asarray(value)), "<f4" if field.type == "float" else "<f8"
            size = array.size * np.dtype(dtype).itemsize
            if not field.is_packed:
                array, dtype, size = _with_tags(array, dtype, field), "u1", array.size + size
            else:
                head += _tag(field, BYTES) + encode_varint(size)
            flush()
            pieces.append((array, dtype))
            total += size
        elif field.is_packed:
            content = b"".join(_encode_scalar(field, one) for one in value)
            head += _tag(field, BYTES) + encode_varint(len(content)) + content
        else:
            for one in value if field.is_repeated else [value]:
                content = _encode_scalar(field, one)
                kind = _SCALAR_KIND.get(field.type, VARINT)
                head += _tag(field, kind) + (encode_varint(len(content)) if kind == BYTES else b"") + content
    flush()
    return pieces, total


def _with_tags(array: np.ndarray, dtype: str, field: MessageField) -> np.ndarray:
    """The bytes of an array that is not packed: before each element its tag."""
    kind = FIXED32 if field.type == "float" else FIXED64
    elements = np.ascontiguousarray(array.reshape(-1), dtype).view("u1").reshape(array.size, -1)
    tags = np.full((array.size, 1), _tag(field, kind)[0], "u1")
    return np.concatenate([tags, elements], axis=1)


def _tag(field: MessageField, wire_type: int) -> bytes:
    return encode_varint(field.number << 3 | wire_type)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "float": lambda value: struct.pack("<f", np.float32(value)),
    "double": lambda value: struct.pack("<d", value),
    "string": lambda value: value.encode("utf-8", "replace"),
    "bytes": bytes,
}


def _encode_scalar(field: MessageField, value: Any) -> bytes:
    encoder = _ENCODERS.get(field.type)
    if encoder is not None:
        return encoder(value)
    number = enum_type(field.type).values[value] if field.is_enum else int(value)
    return encode_varint(number & ((1 << 64) - 1))
