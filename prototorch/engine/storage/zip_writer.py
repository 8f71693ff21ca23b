"""Encoder of a zip archive of members without compression, without copying their bytes.

Each member's bytes begin at a multiple of the alignment, so that arrays in them can be mapped into memory (an extra
field fills the gap, as PyTorch's files have it). Sizes of 4 GiB and more are in zip64's fields. Source: PKWARE's
APPNOTE.TXT.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

__all__ = ["encode_zip"]

Buffer = bytes | memoryview
_LIMIT = 0xFFFFFFFF
_DOS_DATE = 0x21  # 1980-01-01: equal contents give equal files
_FILL_TAG = 0x4246
_VERSION, _ZIP64_VERSION, _UTF8 = 20, 45, 0x800


def encode_zip(members: Mapping[str, Sequence[Buffer]], alignment: int = 64) -> list[Buffer]:
    """The archive as a list of buffers to concatenate; each member is the concatenation of its buffers."""
    pieces: list[Buffer] = []
    directory: list[bytes] = []
    position = 0
    for name, buffers in members.items():
        views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        size, crc = sum(view.nbytes for view in views), 0
        for view in views:
            crc = zlib.crc32(view, crc)
        header = _local_header(name.encode(), crc, size, position, alignment)
        directory.append(_directory_entry(name.encode(), crc, size, position))
        pieces += [header, *views]
        position += len(header) + size
    entries = b"".join(directory)
    return [*pieces, entries, _end_of_directory(len(directory), len(entries), position)]


def _local_header(name: bytes, crc: int, size: int, position: int, alignment: int) -> bytes:
    is_large = size >= _LIMIT
    extra = struct.pack("<HHQQ", 1, 16, size, size) if is_large else b""
    length = 30 + len(name) + len(extra)
    gap = -(position + length + 4) % alignment
    extra += struct.pack("<HH", _FILL_TAG, gap) + bytes(gap)
    short = min(size, _LIMIT)
    fields = (_ZIP64_VERSION if is_large else _VERSION, _UTF8, 0, 0, _DOS_DATE, crc, short, short)
    return b"PK\3\4" + struct.pack("<HHHHHIIIHH", *fields, len(name), len(extra)) + name + extra


def _directory_entry(name: bytes, crc: int, size: int, position: int) -> bytes:
    values = [size, size] if size >= _LIMIT else []
    if position >= _LIMIT:
        values.append(position)
    extra = struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""
    version = _ZIP64_VERSION if values else _VERSION
    short = min(size, _LIMIT)
    fields = (version, version, _UTF8, 0, 0, _DOS_DATE, crc, short, short, len(name), len(extra), 0, 0, 0, 0)
    return b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", *fields, min(position, _LIMIT)) + name + extra


def _end_of_directory(count: int, nbytes: int, position: int) -> bytes:
    record = b""
    if count >= 0xFFFF or nbytes >= _LIMIT or position >= _LIMIT:
        record = b"PK\6\6" + struct.pack(
            "<QHHIIQQQQ", 44, _ZIP64_VERSION, _ZIP64_VERSION, 0, 0, count, count, nbytes, position
        )
        record += b"PK\6\7" + struct.pack("<IQI", 0, position + nbytes, 1)
    short = min(count, 0xFFFF)
    fields = (0, 0, short, short, min(nbytes, _LIMIT), min(position, _LIMIT), 0)
    return record + b"PK\5\6" + struct.pack("<HHHHIIH", *fields)
