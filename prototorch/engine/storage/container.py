"""The file format: a tree of arrays and a few scalars and strings in one HDF5 file, with a checksum over all of it.

The HDF5 (encoded by `hdf5_encoder`) follows a user block of 512 bytes::

    prototorch 1 sha256=5f0c... bytes=81920
    An HDF5 file: h5py, h5dump and HDFView read it.

The digest covers every byte after the user block, the length is that of the whole file, and the user block has exactly
one valid form, so that any changed or missing byte is detected before anything is decoded. The digest can be checked
by hand: ``tail -c +513 FILE | sha256sum``.

A digest is not a signature: the author of a hostile file can compute it too. Files are therefore decoded by a bounded
reader of the subset of HDF5 that is written here (`hdf5_decoder`), never by the HDF5 library in this process.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from prototorch.engine.storage.atomic_write import sha256_hexdigest, write_bytes
from prototorch.engine.storage.hdf5_decoder import DatasetEntry, HDF5FormatError, read_entries
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.tree_paths import META_GROUP, Scalar
from prototorch.errors import ModelFileError
from prototorch.spec import Spec

__all__ = [
    "ContainerContents",
    "has_container_header",
    "is_container",
    "map_contents",
    "peek",
    "read",
    "verify",
    "write",
]

VERSION = 1
USER_BLOCK = 512
_NOTE = "An HDF5 file: h5py, h5dump and HDFView read it.\n"
_HEADER = re.compile(rb"prototorch (\d{1,6}) sha256=([0-9a-f]{64}) bytes=(\d{1,19})\n", re.ASCII)
_READ_BYTES = 1 << 24


@dataclass(frozen=True)
class ContainerContents:
    """The content of a file: ``arrays`` by path, ``meta`` (strings and scalars by name), and the ``digest``."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Scalar]
    digest: str = field(default="", compare=False)


@dataclass(frozen=True)
class ContainerOutline:
    """The content of a file without its arrays: their ``specs`` by path, ``meta``, and the file's size in bytes."""

    specs: dict[str, Spec]
    meta: dict[str, Scalar]
    size: int


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], meta: Mapping[str, Scalar] | None = None
) -> str:
    """Write ``arrays`` (paths such as ``conv1/kernel``) and ``meta`` atomically to one file; returns its SHA-256.

    An existing file is replaced only after the new one is written, synced and verified. Raises SnapshotError if the
    file cannot be written, UsageError for a name, dtype or value that cannot be stored.
    """
    encoder = importlib.import_module(f"{__package__}.hdf5_encoder")  # imports h5py, which only writing needs
    pieces = encoder.encode_hdf5(arrays, meta or {}, VERSION, USER_BLOCK)
    digest = sha256_hexdigest(pieces)
    size = USER_BLOCK + sum(len(piece) for piece in pieces)
    names = arrays.keys() | {f"{META_GROUP}/{key}" for key in meta or {}}
    write_bytes(path, [_make_header(digest, size), *pieces], lambda temporary: _check_written(temporary, digest, names))
    return digest


def read(path: str | os.PathLike[str]) -> ContainerContents:
    """Read a file written by `write`, after verifying its digest.

    The arrays are views of one buffer of the file's size. Raises ModelFileError if the file is damaged, truncated, of
    another kind, or cannot be opened.
    """
    with _open(path) as file:
        digest, size = _check_header(path, file)
        memory = np.empty(size, np.uint8)
        view = memory.data
        file.seek(0)
        offset = 0
        while offset < size:
            count = file.readinto(view[offset : offset + _READ_BYTES])
            if not count:
                raise _truncation_error(path, size, offset)
            offset += count
    return _decode_contents(path, memory, digest)


def map_contents(path: str | os.PathLike[str]) -> ContainerContents:
    """As `read`, with arrays that are views of the mapped file: they take no memory of their own.

    The digest is verified first. A file that `write` replaces later keeps its content for those who have it mapped.
    """
    with _open(path) as file:
        digest, size = _check_header(path, file)
        mapped = MappedFile(path, file.fileno())
    if mapped.size != size:
        raise _truncation_error(path, size, mapped.size)
    return _decode_contents(path, np.frombuffer(mapped.data, np.uint8), digest)


def _decode_contents(path: str | os.PathLike[str], memory: np.ndarray, digest: str) -> ContainerContents:
    """The content of a file whose bytes are ``memory``, after verifying its digest."""
    view = memory.data
    _check_digest(path, digest, hashlib.sha256(view[USER_BLOCK:]).hexdigest())
    entries = _read_entries(path, lambda offset, count: view[offset : offset + count].tobytes(), memory.size)
    arrays, meta = {}, {}
    for name, entry in entries.items():
        part = memory[entry.offset : entry.offset + entry.nbytes]
        if name.startswith(f"{META_GROUP}/"):
            meta[name.removeprefix(f"{META_GROUP}/")] = _decode_scalar(path, name, entry, part.tobytes())
        else:
            arrays[name] = _decode_array(path, name, entry, part)
    return ContainerContents(arrays, meta, digest)


def peek(path: str | os.PathLike[str]) -> ContainerOutline:
    """The content of a file without its arrays; header and length are verified, the digest is not. Raises as `read`."""
    with _open(path) as file:
        _, size = _check_header(path, file)

        def read_at(offset: int, count: int) -> bytes:
            file.seek(offset)
            return file.read(count)

        specs, meta = {}, {}
        for name, entry in _read_entries(path, read_at, size).items():
            if name.startswith(f"{META_GROUP}/"):
                scalar = _decode_scalar(path, name, entry, read_at(entry.offset, entry.nbytes))
                meta[name.removeprefix(f"{META_GROUP}/")] = scalar
            else:
                specs[name] = Spec(entry.shape, entry.dtype)
    return ContainerOutline(specs, meta, size)


def verify(path: str | os.PathLike[str], digest: str | None = None) -> str:
    """Verify the digest of the whole file (and that it equals ``digest``, if given); returns it.

    Raises ModelFileError, with the expected and the actual digest.
    """
    with _open(path) as file:
        declared, size = _check_header(path, file)
        if digest is not None:
            _check_digest(path, digest, declared)
        total, offset = hashlib.sha256(), USER_BLOCK
        file.seek(USER_BLOCK)
        while block := file.read(_READ_BYTES):
            total.update(block)
            offset += len(block)
    if offset != size:
        raise _truncation_error(path, size, offset)
    _check_digest(path, declared, total.hexdigest())
    return declared


def is_container(path: str | os.PathLike[str]) -> bool:
    """Whether a file was written by `write`, by its first bytes; also True if one of them is damaged."""
    with _open(path) as file:
        return has_container_header(file.read(USER_BLOCK))


def has_container_header(head: bytes) -> bool:
    """Whether a file that starts with these bytes was written by `write`; also True if one of them is damaged."""
    return head.startswith(b"prototorch ") or head[12:20] == b" sha256="


def _check_written(path: str, digest: str, names: Set[str]) -> None:
    """Check that the written file has the digest and that the reader finds all names in it."""
    verify(path, digest)
    outline = peek(path)
    if outline.specs.keys() | {f"{META_GROUP}/{key}" for key in outline.meta} != names:
        raise ModelFileError(f"{path}: the written file cannot be read back")


def _make_header(digest: str, size: int) -> bytes:
    return f"prototorch {VERSION} sha256={digest} bytes={size}\n{_NOTE}".encode().ljust(USER_BLOCK, b"\0")


def _open(path: str | os.PathLike[str]) -> io.FileIO:
    try:
        if os.path.isdir(path):
            raise ModelFileError(f"{os.fspath(path)}: expected a file, found a folder")
        if os.path.exists(path) and not os.path.isfile(path):
            raise ModelFileError(f"{os.fspath(path)}: expected a regular file, found a device or pipe")
        return io.FileIO(path, "rb")
    except ModelFileError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{os.fspath(path)}: cannot open it: {reason}") from error


def _check_header(path: str | os.PathLike[str], file: io.FileIO) -> tuple[str, int]:
    """The digest and the length declared in the user block, whose form and length are verified."""
    head = file.read(USER_BLOCK)
    size = os.fstat(file.fileno()).st_size
    if not has_container_header(head):
        expected = f"a file of prototorch ('prototorch {VERSION} sha256=...')"
        raise ModelFileError(f"{os.fspath(path)}: expected {expected}, found another file of {size:,} bytes")
    match = _HEADER.match(head)
    if match is not None and int(match[1]) > VERSION:
        raise ModelFileError(
            f"{os.fspath(path)}: expected format version {VERSION} or lower, found {int(match[1])}: "
            "it was written by a newer prototorch, or is damaged"
        )
    if match is None or (len(head) == USER_BLOCK and head != _make_header(match[2].decode(), int(match[3]))):
        raise ModelFileError(
            f"{os.fspath(path)}: damaged: expected 'prototorch {VERSION} sha256=... bytes=...' in its first "
            f"bytes, found {head[:100].rstrip(bytes(1))!r}"
        )
    if size != int(match[3]) or len(head) < USER_BLOCK:
        raise _truncation_error(path, int(match[3]), size)
    return match[2].decode(), size


def _truncation_error(path: str | os.PathLike[str], expected: int, actual: int) -> ModelFileError:
    word = "truncated" if actual < expected else "damaged"
    return ModelFileError(f"{os.fspath(path)}: {word}: expected {expected:,} bytes, found {actual:,}")


def _check_digest(path: str | os.PathLike[str], expected: str, actual: str) -> None:
    if actual != expected:
        raise ModelFileError(f"{os.fspath(path)}: damaged: expected sha256 {expected}, found {actual}")


def _read_entries(
    path: str | os.PathLike[str], read_at: Callable[[int, int], bytes], size: int
) -> dict[str, DatasetEntry]:
    try:
        return read_entries(read_at, size, USER_BLOCK)
    except HDF5FormatError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error


def _decode_scalar(path: str | os.PathLike[str], name: str, entry: DatasetEntry, data: bytes) -> Scalar:
    """A string or number of the group ``@meta``."""
    try:
        if entry.shape != ():
            raise ValueError("expected a scalar")
        if entry.dtype == "text":
            return data.rstrip(b"\0").decode()
        return np.frombuffer(data, np.dtype(entry.dtype).newbyteorder("<"))[0].item()
    except ValueError as error:
        raise ModelFileError(f"{os.fspath(path)}: {name}: {error}") from error


def _decode_array(path: str | os.PathLike[str], name: str, entry: DatasetEntry, part: np.ndarray) -> np.ndarray:
    if entry.dtype == "text":
        raise ModelFileError(f"{os.fspath(path)}: {name}: expected an array of numbers, found a string")
    dtype = np.dtype(entry.dtype)
    if dtype == np.bool_ and part.size and part.max() > 1:
        raise ModelFileError(f"{os.fspath(path)}: {name}: a boolean that is neither 0 nor 1")
    buffer = part if part.ctypes.data % dtype.itemsize == 0 else part.copy()
    return buffer.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(entry.shape)
