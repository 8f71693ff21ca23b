"""Strict reader of NumPy's ``.npy`` and ``.npz`` files: no pickle, no structured dtypes, sizes checked before reading.

Headers are parsed by ``numpy.lib.format`` and archives by ``zipfile``; what is added here are the limits.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from math import prod

import numpy as np

from prototorch.data.safe_io import DEFLATE_RATIO, check_memory, open_file, printable_path, read_file
from prototorch.errors import DataError

__all__ = ["MAX_HEADER_LENGTH", "check_npy_header", "is_npy", "is_zip", "read_npy", "read_npz"]

MAX_MEMBERS = 1000
MAX_HEADER_LENGTH = 10_000  # characters of an array's header
MAX_DIMENSIONS = 32
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # the same but for the encoding of field names, which are refused
}


def is_npy(head: bytes) -> bool:
    """Whether the bytes start with the signature of ``.npy``."""
    return head.startswith(np.lib.format.MAGIC_PREFIX)


def is_zip(head: bytes) -> bool:
    """Whether the bytes start with the signature of a zip archive, empty or not."""
    return head[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an ``.npy`` file, read-only.

    Raises:
        DataError: not an ``.npy`` file, elements that are not numbers, truncated, or bytes after the array.
        ResourceError: the array does not fit in memory.
    """
    return _decode_npy(read_file(path), printable_path(path))


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays in an ``.npz`` file by name, in the order of the file, read-only. Raises as `read_npy` does."""
    name = printable_path(path)
    with open_file(path) as (handle, size):
        try:
            with os.fdopen(handle, "rb", closefd=False) as file, zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check_members(members, size, name)
                return {m.filename.removesuffix(".npy"): _read_member(archive, m, name) for m in members}
        except DataError:
            raise
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OSError,
        ) as error:
            raise DataError(f"{name}: damaged npz file: {error}") from None


def _check_members(members: list[zipfile.ZipInfo], size: int, name: str) -> None:
    """Check names, compression and sizes of the members of an archive of ``size`` bytes, before any is read."""
    if not members:
        raise DataError(f"{name}: has no arrays")
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{name}: has {len(members):,} members; the limit is {MAX_MEMBERS}")
    names: set[str] = set()
    for member in members:
        where = f"{name}, member {member.filename[:100]!r}"
        if not member.filename.endswith(".npy"):
            raise DataError(f"{where}: expected only .npy arrays in an npz file")
        if member.filename in names:
            raise DataError(f"{where}: occurs twice")
        names.add(member.filename)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{where}: compression method {member.compress_type} is not supported; expected deflate")
        if member.flag_bits & 1:
            raise DataError(f"{where}: is encrypted")
        if member.file_size > DEFLATE_RATIO * max(member.compress_size, 1):
            raise DataError(f"{where}: {member.compress_size:,} compressed bytes cannot expand to {member.file_size:,}")
    if sum(m.compress_size for m in members) > size:
        raise DataError(f"{name}: its members overlap: their sizes add up to more than the file's")
    check_memory(sum(m.file_size for m in members), name)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    content = archive.read(member)  # at most file_size bytes, with the checksum verified
    if len(content) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename[:100]!r} has {len(content):,} bytes, not {member.file_size:,}")
    return _decode_npy(content, f"{name}, array {member.filename.removesuffix('.npy')!r}")


def _decode_npy(content: bytes | bytearray, name: str) -> np.ndarray:
    """The array in the bytes of an ``.npy`` file, a read-only view of them where its memory layout allows."""
    shape, is_fortran, dtype, offset = check_npy_header(content, len(content), name)
    array = np.frombuffer(content, dtype, offset=offset)
    array = array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)
    array = np.require(array, dtype.newbyteorder("="), ["C", "ALIGNED"]).reshape(shape)
    array.flags.writeable = False
    return array


def check_npy_header(
    content: bytes | bytearray, size: int, name: str, kinds: str = "buif"
) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether in Fortran order, dtype, and the offset of the elements of an ``.npy`` file of ``size`` bytes, of
    which ``content`` has the first 40,000 at least. kinds: of dtypes, as NumPy names them. Raises DataError."""
    shape, is_fortran, dtype, offset = _read_header(content, name)
    if dtype.hasobject:
        raise DataError(f"{name}: holds Python objects, which are never loaded; save an array of numbers")
    if dtype.kind not in kinds or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise DataError(f"{name}: holds elements of dtype {dtype}, not numbers")
    if len(shape) > MAX_DIMENSIONS or any(not isinstance(n, int) or not 0 <= n < 1 << 48 for n in shape):
        raise DataError(f"{name}: has the impossible shape {str(shape)[:80]}")
    nbytes, available = prod(shape) * dtype.itemsize, size - offset
    if nbytes != available:
        problem = "truncated" if nbytes > available else "too long"
        raise DataError(f"{name}: {problem}: shape {list(shape)} of {dtype} needs {nbytes:,} bytes, got {available:,}")
    return shape, is_fortran, dtype, offset


def _read_header(content: bytes | bytearray, name: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether in Fortran order, dtype, and the offset of the elements."""
    if not is_npy(bytes(content[:6])) or len(content) < 8:
        raise DataError(f"{name}: is not an .npy array")
    head = io.BytesIO(content[: 4 * MAX_HEADER_LENGTH])
    version = np.lib.format.read_magic(head)
    reader = _HEADER_READERS.get(version)
    if reader is None:
        raise DataError(f"{name}: .npy version {version[0]}.{version[1]} is not supported")
    try:
        shape, is_fortran, dtype = reader(head, max_header_size=MAX_HEADER_LENGTH)
    except Exception as error:  # NumPy's parser may raise any exception on a damaged header
        raise DataError(f"{name}: damaged header: {str(error)[:200]}") from None
    return shape, is_fortran, dtype, head.tell()
