"""Undoing the three filters of HDF5 that are allowed: deflate, shuffle and fletcher32, each within known sizes.

HDF5 itself is never asked to do it: its filters believe what a file says.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
_CHECKSUM_WORDS = 1 << 20  # words of a checksum at a time


class FilterError(Exception):
    """A chunk that does not unpack to exactly what it should be."""


def max_stored_bytes(filters: Sequence[int], size: int) -> int:
    """The most bytes that a chunk of ``size`` bytes may take in a file; exact when nothing compresses it."""
    checks = 4 * filters.count(FLETCHER32)
    return size + checks + (size // 1000 + 64 if DEFLATE in filters else 0)


def decode_chunk(stored: bytes, filters: Sequence[int], skipped: int, size: int, itemsize: int) -> bytes:
    """The ``size`` bytes of a chunk from its stored bytes.

    ``filters`` are in the order of writing, each at most once; ``skipped`` has the bit of each filter set that was not
    applied to this chunk; ``itemsize`` is the bytes of an element. Raises FilterError.
    """
    used = [code for place, code in enumerate(filters) if not skipped >> place & 1]
    before = []  # the number of bytes that go into each filter; known up to and with the only one that compresses
    length: int | None = size
    for code in used:
        before.append(length)
        if length is not None and code == FLETCHER32:
            length += 4
        elif code == DEFLATE:
            length = None
    for code, length in zip(reversed(used), reversed(before), strict=True):
        if code == DEFLATE:
            assert length is not None
            stored = _inflate(stored, length)
        elif code == FLETCHER32:
            stored = _strip_checksum(stored)
        elif code == SHUFFLE:
            stored = _unshuffle(stored, itemsize)
        else:
            raise FilterError(f"filter {code} is not allowed")
    if len(stored) != size:
        raise FilterError(f"a chunk of {size:,} bytes unpacks to {len(stored):,}")
    return stored


def _inflate(stored: bytes, size: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        found = machine.decompress(stored, size + 1)
    except zlib.error as error:
        raise FilterError(f"deflate: {error}") from error
    if len(found) != size or not machine.eof:
        amount = f"more than {size:,}" if len(found) > size else f"{len(found):,}"
        raise FilterError(f"a chunk of {size:,} bytes inflates to {amount}")
    return found


def _unshuffle(stored: bytes, itemsize: int) -> bytes:
    count = len(stored) // itemsize
    if itemsize == 1 or count <= 1:
        return stored
    planes = np.frombuffer(stored, np.uint8, count * itemsize).reshape(itemsize, count)
    return planes.T.tobytes() + stored[count * itemsize :]


def _strip_checksum(stored: bytes) -> bytes:
    if len(stored) < 4:
        raise FilterError("a chunk without its checksum")
    data, expected = stored[:-4], int.from_bytes(stored[-4:], "little")
    found = fletcher32(data)
    if (expected & 0xFFFF) % 65535 != (found & 0xFFFF) or (expected >> 16) % 65535 != found >> 16:
        raise FilterError(f"a chunk's checksum is wrong: expected {expected:08x}, found {found:08x}")
    return data


def fletcher32(data: bytes) -> int:
    """HDF5's Fletcher-32 over big-endian 16-bit words, each half reduced modulo 65535 (HDF5 may write 65535 for 0)."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2")
    first = second = 0
    for start in range(0, len(words), _CHECKSUM_WORDS):
        block = words[start : start + _CHECKSUM_WORDS].astype(np.uint64)
        weights = np.arange(len(block), 0, -1, dtype=np.uint64)
        second = (second + first * len(block) + int((block * weights).sum())) % 65535
        first = (first + int(block.sum())) % 65535
    return second << 16 | first
