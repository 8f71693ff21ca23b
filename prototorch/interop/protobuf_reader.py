"""Reader of protobuf's wire format for untrusted files: fields one by one, as views of the file's bytes.

https://protobuf.dev/programming-guides/encoding. No message is built and nothing is copied, so that a file takes no
memory but its own; groups, which no format here has, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import numpy as np

__all__ = ["ProtobufError", "encode_varint", "iter_fields", "read_varint", "read_varints"]

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


def encode_varint(value: int) -> bytes:
    """An unsigned integer as it is written."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def iter_fields(
    data: memoryview, element_sizes: Mapping[int, int] | None = None
) -> Iterator[tuple[int, int, int | memoryview]]:
    """The fields of a message in their order: number, wire type, and the value, an integer or a view of its bytes.

    element_sizes: fields (numbers below 16) of 4- or 8-byte elements that may each have a tag of its own; elements
    that follow each other are one value, a view of a copy of their bytes, of wire type `BYTES`. Raises ProtobufError.
    """
    sizes = element_sizes or {}
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
            if kind != BYTES and sizes.get(number) == count and data[position - 1] == tag:
                part, position = _read_elements(data, position - 1, count)
                yield number, BYTES, part
                continue
            position += count
            yield number, kind, part if kind == BYTES else struct.unpack("<I" if count == 4 else "<Q", part)[0]
        else:
            raise ProtobufError(f"field {number} has the wire type {kind}, which is not used")


def _read_elements(data: memoryview, start: int, size: int) -> tuple[memoryview, int]:
    """The elements that follow each other, each after the tag that is the byte at ``start``; the position behind them.

    They are looked for in steps that grow, so that this takes no longer than the elements that are there.
    """
    width, tag, count, step = size + 1, data[start], 1, 8
    limit = (len(data) - start) // width
    while count < limit:
        stop = min(count + step, limit)
        tags = np.frombuffer(data[start + count * width : start + stop * width], "u1")[::width]
        (others,) = np.nonzero(tags != tag)
        if len(others):
            count += int(others[0])
            break
        count, step = stop, step * 4
    rows = np.frombuffer(data[start : start + count * width], "u1").reshape(count, width)
    return memoryview(rows[:, 1:].tobytes()), start + count * width
