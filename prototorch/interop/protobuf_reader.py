"""Reader of protobuf's wire format for untrusted files: fields one by one, as views of the file's bytes.

https://protobuf.dev/programming-guides/encoding. No message is built and nothing is copied, so that a file takes no
memory but its own; groups, which no format here has, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["ProtobufError", "iter_fields", "read_varint", "read_varints"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class ProtobufError(Exception):
    """The bytes are no message; the text says what is wrong."""


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """An unsigned integer of at most 64 bits, and the position behind it. Raises ProtobufError."""
    value = 0
    for count in range(10):
        if position + count >= len(data):
            raise ProtobufError("it ends within a number")
        byte = data[position + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, position + count + 1
    raise ProtobufError("a number of more than 64 bits")


def read_varints(data: memoryview, limit: int) -> list[int]:
    """All numbers of a packed field. Raises ProtobufError for more than ``limit``."""
    values, position = [], 0
    while position < len(data):
        value, position = read_varint(data, position)
        values.append(value)
        if len(values) > limit:
            raise ProtobufError(f"more than {limit:,} numbers in a field")
    return values


def iter_fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """The fields of a message in their order: number, wire type, and the value, an integer or a view of its bytes.

    Raises ProtobufError.
    """
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ProtobufError(f"the impossible field number {number:,}")
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield number, kind, value
        elif kind in (BYTES, FIXED32, FIXED64):
            count = {FIXED32: 4, FIXED64: 8}.get(kind)
            if count is None:
                count, position = read_varint(data, position)
            if position + count > len(data):
                raise ProtobufError(f"field {number} has {count:,} bytes, but {len(data) - position:,} are left")
            part = data[position : position + count]
            position += count
            yield number, kind, part if kind == BYTES else struct.unpack("<I" if count == 4 else "<Q", part)[0]
        else:
            raise ProtobufError(f"field {number} has the wire type {kind}, which is not used")
