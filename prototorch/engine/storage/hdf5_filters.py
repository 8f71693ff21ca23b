"""Decoders of the three HDF5 filters that are allowed: deflate, shuffle and fletcher32, with known output sizes.

The HDF5 library's own filters are not used: they trust sizes that the file declares.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

__all__ = ["DEFLATE", "FLETCHER32", "SHUFFLE", "FilterError", "decode_chunk", "fletcher32", "max_stored_bytes"]

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
_CHECKSUM_WORDS = 1 << 20  # words per step of a checksum


class FilterError(Exception):
    """A chunk that does not decode to exactly the expected bytes."""


def max_stored_bytes(filters: Sequence[int], size: int) -> int:
    """The largest stored size of a chunk of ``size`` bytes; exact for filters that do not compress."""
    checks = 4 * filters.count(FLETCHER32)
    return size + checks + (size // 1000 + 64 if DEFLATE in filters else 0)


def decode_chunk(data: bytes, filters: Sequence[int], skip_mask: int, size: int, itemsize: int) -> bytes:
    """Decode the ``size`` bytes of a chunk from its stored bytes.

    ``filters`` are in the order of encoding, each at most once; ``skip_mask`` has a bit set for each filter that was
    not applied to this chunk; ``itemsize`` is the bytes per element. Raises FilterError.
    """
    used_filters = [code for position, code in enumerate(filters) if not skip_mask >> position & 1]
    input_sizes = []  # of each filter when encoding; known up to and including the only one that compresses
    length: int | None = size
    for code in used_filters:
        input_sizes.append(length)
        if length is not None and code == FLETCHER32:
            length += 4
        elif code == DEFLATE:
            length = None
    for code, length in zip(reversed(used_filters), reversed(input_sizes), strict=True):
        if code == DEFLATE:
            assert length is not None
            data = _inflate(data, length)
        elif code == FLETCHER32:
            data = _strip_checksum(data)
        elif code == SHUFFLE:
            data = _unshuffle(data, itemsize)
        else:
            raise FilterError(f"filter {code} is not allowed")
    if len(data) != size:
        raise FilterError(f"a chunk of {size:,} bytes decodes to {len(data):,}")
    return data


def _inflate(data: bytes, size: int) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        data = decompressor.decompress(data, size + 1)
    except zlib.error as error:
        raise FilterError(f"deflate: {error}") from error
    if len(data) != size or not decompressor.eof:
        amount = f"more than {size:,}" if len(data) > size else f"{len(data):,}"
        raise FilterError(f"a chunk of {size:,} bytes inflates to {amount}")
    return data


def _unshuffle(data: bytes, itemsize: int) -> bytes:
    count = len(data) // itemsize
    if itemsize == 1 or count <= 1:
        return data
    planes = np.frombuffer(data, np.uint8, count * itemsize).reshape(itemsize, count)
    return planes.T.tobytes() + data[count * itemsize :]


def _strip_checksum(data: bytes) -> bytes:
    if len(data) < 4:
        raise FilterError("a chunk without its checksum")
    data, expected = data[:-4], int.from_bytes(data[-4:], "little")
    actual = fletcher32(data)
    if (expected & 0xFFFF) % 65535 != (actual & 0xFFFF) or (expected >> 16) % 65535 != actual >> 16:
        raise FilterError(f"a chunk's checksum is wrong: expected {expected:08x}, found {actual:08x}")
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
