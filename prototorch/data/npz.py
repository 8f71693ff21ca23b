"""Strict reader of NumPy's ``.npy`` and ``.npz`` files: no pickle, no structured dtypes, sizes checked before reading.

The formats are those of ``numpy.lib.format`` (version 1.0 to 3.0) and of zip archives with stored or deflated members.
NumPy's own reader parses the array header; reading the elements here keeps memory within the declared size, and an
uncompressed member is not copied.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from math import prod
from typing import IO, Any

import numpy as np

from prototorch.data.safe_io import DEFLATE_RATIO, check_memory, printable_path, read_file
from prototorch.errors import DataError

MAX_MEMBERS = 1000
MAX_HEADER_LENGTH = 10_000  # characters of an array's header
MAX_DIMENSIONS = 32
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # before a member: signature, lengths of its name and of its extra field


def is_npy(head: bytes) -> bool:
    """Whether the bytes start with the signature of ``.npy``."""
    return head[:6] == b"\x93NUMPY"


def is_zip(head: bytes) -> bool:
    """Whether the bytes start with the signature of a zip archive, empty or not."""
    return head[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an ``.npy`` file.

    Raises:
        DataError: not an ``.npy`` file, elements that are not numbers, truncated, or bytes after the array.
        ResourceError: the array does not fit in memory.
    """
    data = read_file(path)
    return _read_array(_MemoryReader(memoryview(data)), len(data), printable_path(path))


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays in an ``.npz`` file by name, in the order of the file. Raises as `read_npy` does."""
    data, name = read_file(path), printable_path(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(members, len(data), name)
            return {_array_name(m): _read_member(archive, m, data, name) for m in members}
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise DataError(f"{name}: damaged npz file: {error}") from None


def _check_members(members: list[zipfile.ZipInfo], size: int, name: str) -> None:
    if not members:
        raise DataError(f"{name}: has no arrays")
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{name}: has {len(members):,} members; the limit is {MAX_MEMBERS}")
    seen: set[str] = set()
    for member in members:
        where = f"{name}, member {member.filename[:100]!r}"
        if not member.filename.endswith(".npy"):
            raise DataError(f"{where}: expected only .npy arrays in an npz file")
        if member.filename in seen:
            raise DataError(f"{where}: occurs twice")
        seen.add(member.filename)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{where}: compression method {member.compress_type} is not supported; expected deflate")
        if member.flag_bits & 1:
            raise DataError(f"{where}: is encrypted")
        if member.file_size > DEFLATE_RATIO * max(member.compress_size, 1):
            raise DataError(f"{where}: {member.compress_size:,} compressed bytes cannot expand to {member.file_size:,}")
    if sum(m.compress_size for m in members) > size:
        raise DataError(f"{name}: its members overlap: their sizes add up to more than the file's")
    check_memory(sum(m.file_size for m in members), name)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, data: bytes | bytearray, name: str) -> np.ndarray:
    where = f"{name}, array {_array_name(member)!r}"
    if member.compress_type == zipfile.ZIP_STORED:
        return _read_array(_MemoryReader(_stored_bytes(data, member)), member.file_size, where)
    with archive.open(member) as file:
        return _read_array(file, member.file_size, where)


def _stored_bytes(data: bytes | bytearray, member: zipfile.ZipInfo) -> memoryview:
    """The bytes of an uncompressed member, a view of ``data``. Raises BadZipFile."""
    head = data[member.header_offset : member.header_offset + _LOCAL_HEADER.size]
    if len(head) < _LOCAL_HEADER.size:
        raise zipfile.BadZipFile("truncated")
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(head)
    start = member.header_offset + _LOCAL_HEADER.size
    if signature != b"PK\3\4" or data[start : start + name_length] != member.orig_filename.encode(_encoding(member)):
        raise zipfile.BadZipFile(f"the directory and the header of {member.filename[:100]!r} differ")
    start += name_length + extra_length
    content = memoryview(data)[start : start + member.file_size]
    if len(content) != member.file_size or member.compress_size != member.file_size:
        raise zipfile.BadZipFile(f"truncated inside {member.filename[:100]!r}")
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename[:100]!r}")
    return content


def _encoding(member: zipfile.ZipInfo) -> str:
    return "utf-8" if member.flag_bits & 0x800 else "cp437"


class _MemoryReader:
    """A binary file over memory whose reads are views, not copies."""

    def __init__(self, view: memoryview):
        self._view, self._position = view, 0

    def read(self, size: int = -1, /) -> Any:
        start = self._position
        self._position = len(self._view) if size < 0 else min(start + size, len(self._view))
        return self._view[start : self._position]


def _read_array(file: IO[bytes] | _MemoryReader, size: int, name: str) -> np.ndarray:
    head = bytes(file.read(8))
    if not is_npy(head) or len(head) < 8:
        raise DataError(f"{name}: is not an .npy array")
    shape, is_fortran, dtype, header_size = _read_header(file, head[6:8], name)
    if dtype.hasobject:
        raise DataError(f"{name}: holds Python objects, which are never loaded; save an array of numbers")
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise DataError(f"{name}: holds elements of dtype {dtype}, not numbers")
    if len(shape) > MAX_DIMENSIONS or any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataError(f"{name}: has the impossible shape {str(shape)[:80]}")
    nbytes, available = prod(shape) * dtype.itemsize, size - header_size
    if nbytes != available:
        what = "truncated" if nbytes > available else "too long"
        raise DataError(f"{name}: {what}: shape {list(shape)} of {dtype} needs {nbytes:,} bytes, got {available:,}")
    check_memory(nbytes, name)
    data = file.read(nbytes + 1)
    if len(data) != nbytes:
        raise DataError(f"{name}: truncated: got {len(data):,} of {nbytes:,} bytes")
    array = np.frombuffer(data, dtype)
    array = array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)
    array = np.require(array, dtype.newbyteorder("="), ["C", "ALIGNED"]).reshape(shape)
    array.flags.writeable = False
    return array


def _read_header(
    file: IO[bytes] | _MemoryReader, version: bytes, name: str
) -> tuple[tuple[Any, ...], bool, np.dtype, int]:
    readers = {b"\1\0": np.lib.format.read_array_header_1_0, b"\2\0": np.lib.format.read_array_header_2_0}
    reader = readers.get(version) or readers.get({b"\3\0": b"\2\0"}.get(version, b""))
    if reader is None:
        raise DataError(f"{name}: .npy version {version[0]}.{version[1]} is not supported")
    counting = _CountingReader(file)
    try:
        shape, is_fortran, dtype = reader(counting, max_header_size=MAX_HEADER_LENGTH)
    except Exception as error:  # NumPy's parser may raise any exception on a damaged header
        raise DataError(f"{name}: damaged header: {str(error)[:200]}") from None
    return shape, is_fortran, dtype, 8 + counting.count


class _CountingReader:
    """A file that counts the bytes read from it and refuses reads longer than any valid header."""

    def __init__(self, file: IO[bytes] | _MemoryReader):
        self._file, self.count = file, 0

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= 4 * MAX_HEADER_LENGTH:
            raise ValueError(f"a header of {size:,} bytes")
        data = self._file.read(size)
        self.count += len(data)
        return data


def _array_name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")
