"""NumPy's ``.npz`` archives and ``.npy`` arrays; what is not compressed is mapped into memory."""

from __future__ import annotations

from functools import cache, partial
from math import prod

import numpy as np

from prototorch.data.npz import MAX_HEADER_LENGTH, check_npy_header, is_npy
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.zip_members import ZipMember, check_crc, inflate_start, read_member, zip_members
from prototorch.errors import DataError, ModelFileError
from prototorch.model.loading.read.file_format import Format, UnknownFile, check_weight_name
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["FORMAT"]

_HEAD_BYTES = 4 * MAX_HEADER_LENGTH
_MAX_EXPANSION = 100  # bytes from a compressed byte, of arrays above _MAX_FREELY_EXPANDED bytes; weights have about 1.1
_MAX_FREELY_EXPANDED = 128 << 20
Header = tuple[tuple[int, ...], bool, np.dtype, int]


def _recognize(file: UnknownFile) -> bool:
    return is_npy(file.head) or (file.is_zip and any(name.endswith(".npy") for name in file.members))


def _open(path: str) -> WeightFile:
    file = MappedFile(path)
    arrays: dict[str, StoredArray] = {}
    if is_npy(bytes(file.data[:16])):
        header = _header(bytes(file.data[:_HEAD_BYTES]), file.size, file.path)
        arrays["array"] = _stored_array(header, partial(_map, file, 0, header, file.path))
        return WeightFile(path, "npy", "", arrays)
    for name, member in zip_members(file).items():
        if not name.endswith(".npy"):
            raise ModelFileError(f"{file.path}, member {name[:100]!r}: expected only .npy arrays in an npz file")
        check_weight_name(name.removesuffix(".npy"), path)
        where = f"{file.path}: {name.removesuffix('.npy')}"
        if member.is_compressed:
            _check_expansion(member, where)
            head = inflate_start(file, member, _HEAD_BYTES)
        else:
            head = bytes(file.data[member.offset : member.offset + min(_HEAD_BYTES, member.size)])
        header = _header(head, member.size, where)
        if member.is_compressed:
            read = partial(_inflate, file, member, header, where)
        else:
            read = partial(_map, file, member.offset, header, where, cache(partial(check_crc, file, member)))
        arrays[name.removesuffix(".npy")] = _stored_array(header, read)
    return WeightFile(path, FORMAT.name, "", arrays)


def _header(head: bytes, size: int, where: str) -> Header:
    try:
        return check_npy_header(head, size, where, "buifc")
    except DataError as error:
        raise ModelFileError(str(error)) from None


def _check_expansion(member: ZipMember, where: str) -> None:
    if member.size > max(_MAX_FREELY_EXPANDED, _MAX_EXPANSION * member.stored_size):
        raise ModelFileError(
            f"{where}: {member.stored_size:,} compressed bytes stand for {member.size:,}, more than weights can be "
            "compressed; save it with numpy.savez if it is what it should be"
        )


def _stored_array(header: Header, read) -> StoredArray:
    shape, _, dtype, _ = header
    return StoredArray(shape, dtype.newbyteorder("=").name, read)


def _map(file: MappedFile, start: int, header: Header, where: str, check=lambda: None) -> np.ndarray:
    check()
    shape, is_fortran, dtype, offset = header
    return _arrange(file.array(dtype, (prod(shape),), start + offset, where), shape, is_fortran, where)


def _inflate(file: MappedFile, member: ZipMember, header: Header, where: str) -> np.ndarray:
    shape, is_fortran, dtype, offset = header
    content = read_member(file, member, member.size)
    return _arrange(np.frombuffer(content, dtype, prod(shape), offset), shape, is_fortran, where)


def _arrange(elements: np.ndarray, shape: tuple[int, ...], is_fortran: bool, where: str) -> np.ndarray:
    """The array of the elements, in the machine's byte order, read-only."""
    array = elements.reshape(shape[::-1]).T if is_fortran else elements.reshape(shape)
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"{where}: a boolean that is neither 0 nor 1")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array


FORMAT = Format("NumPy", _recognize, _open, (".npz", ".npy"))
