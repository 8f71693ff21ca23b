"""Strict reading of NumPy's ``.npy`` and ``.npz``: no pickle, no structured types, nothing larger than it says.

The formats are those of ``numpy.lib.format`` (version 1.0 to 3.0) and of zip archives with stored or deflated members.
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
MAX_HEADER_LENGTH = 10_000  # characters of the header of an array
MAX_DIMENSIONS = 32
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # before a member: mark, lengths of its name and of what else is said of it


def is_npy(head: bytes) -> bool:
    """Whether the bytes begin an ``.npy`` file."""
    return head[:6] == b"\x93NUMPY"


def is_zip(head: bytes) -> bool:
    """Whether the bytes begin a zip archive (an empty one included)."""
    return head[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an ``.npy`` file.

    Raises:
        DataError: not such a file, Python objects or other things than numbers in it, truncated, or bytes left over.
        ResourceError: it does not fit in memory.
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
        raise DataError(f"{name}: holds no arrays")
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{name}: holds {len(members):,} members, more than the {MAX_MEMBERS} allowed")
    seen: set[str] = set()
    for member in members:
        where = f"{name}, member {member.filename[:100]!r}"
        if not member.filename.endswith(".npy"):
            raise DataError(f"{where}: an npz file holds .npy arrays only")
        if member.filename in seen:
            raise DataError(f"{where}: occurs twice")
        seen.add(member.filename)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{where}: is compressed by method {member.compress_type}; only deflate is read")
        if member.flag_bits & 1:
            raise DataError(f"{where}: is encrypted")
        if member.file_size > DEFLATE_RATIO * max(member.compress_size, 1):
            raise DataError(f"{where}: {member.compress_size:,} compressed bytes cannot hold {member.file_size:,}")
    if sum(m.compress_size for m in members) > size:
        raise DataError(f"{name}: its members overlap: together they are larger than the file")
    check_memory(sum(m.file_size for m in members), name)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, data: bytes | bytearray, name: str) -> np.ndarray:
    where = f"{name}, array {_array_name(member)!r}"
    if member.compress_type == zipfile.ZIP_STORED:
        return _read_array(_MemoryReader(_stored_bytes(data, member)), member.file_size, where)
    with archive.open(member) as file:
        return _read_array(file, member.file_size, where)


def _stored_bytes(data: bytes | bytearray, member: zipfile.ZipInfo) -> memoryview:
    """The bytes of a member that is not compressed, in the file's own memory. Raises BadZipFile."""
    head = data[member.header_offset : member.header_offset + _LOCAL_HEADER.size]
    if len(head) < _LOCAL_HEADER.size:
        raise zipfile.BadZipFile("truncated")
    mark, names, extra = _LOCAL_HEADER.unpack(head)
    begin = member.header_offset + _LOCAL_HEADER.size
    if mark != b"PK\3\4" or data[begin : begin + names] != member.orig_filename.encode(_encoding(member)):
        raise zipfile.BadZipFile(f"the directory and the header of {member.filename[:100]!r} differ")
    begin += names + extra
    found = memoryview(data)[begin : begin + member.file_size]
    if len(found) != member.file_size or member.compress_size != member.file_size:
        raise zipfile.BadZipFile(f"truncated inside {member.filename[:100]!r}")
    if zlib.crc32(found) != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename[:100]!r}")
    return found


def _encoding(member: zipfile.ZipInfo) -> str:
    return "utf-8" if member.flag_bits & 0x800 else "cp437"


class _MemoryReader:
    """Memory to be read from as from a file, without copying it."""

    def __init__(self, view: memoryview):
        self._view, self._at = view, 0

    def read(self, size: int = -1, /) -> Any:
        begin = self._at
        self._at = len(self._view) if size < 0 else min(begin + size, len(self._view))
        return self._view[begin : self._at]


def _read_array(file: IO[bytes] | _MemoryReader, size: int, name: str) -> np.ndarray:
    head = bytes(file.read(8))
    if not is_npy(head) or len(head) < 8:
        raise DataError(f"{name}: is not an .npy array")
    shape, fortran, dtype, used = _read_header(file, head[6:8], name)
    if dtype.hasobject:
        raise DataError(f"{name}: holds Python objects, which are never read; save it as an array of numbers")
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise DataError(f"{name}: holds elements of type {dtype}, not numbers")
    if len(shape) > MAX_DIMENSIONS or any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataError(f"{name}: has the impossible shape {str(shape)[:80]}")
    need = prod(shape) * dtype.itemsize
    if need != size - used:
        what = "truncated" if need > size - used else "too long"
        raise DataError(
            f"{name}: {what}: shape {list(shape)} of {dtype} needs {need:,} bytes, there are {size - used:,}"
        )
    check_memory(need, name)
    data = file.read(need + 1)
    if len(data) != need:
        raise DataError(f"{name}: truncated: {len(data):,} of {need:,} bytes")
    array = np.frombuffer(data, dtype)
    array = array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
    array = np.require(array, dtype.newbyteorder("="), ["C", "ALIGNED"]).reshape(shape)
    array.flags.writeable = False
    return array


def _read_header(
    file: IO[bytes] | _MemoryReader, version: bytes, name: str
) -> tuple[tuple[Any, ...], bool, np.dtype, int]:
    readers = {b"\1\0": np.lib.format.read_array_header_1_0, b"\2\0": np.lib.format.read_array_header_2_0}
    reader = readers.get(version) or readers.get({b"\3\0": b"\2\0"}.get(version, b""))
    if reader is None:
        raise DataError(f"{name}: .npy version {version[0]}.{version[1]} is not known")
    counted = _CountingReader(file)
    try:
        shape, fortran, dtype = reader(counted, max_header_size=MAX_HEADER_LENGTH)
    except Exception as error:  # the header is a Python literal; its reader raises nearly anything
        raise DataError(f"{name}: damaged header: {str(error)[:200]}") from None
    return shape, fortran, dtype, 8 + counted.count


class _CountingReader:
    """A file that counts what is read from it and reads no header longer than one may be."""

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
