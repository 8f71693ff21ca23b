"""Encoder of a tree of arrays as the bytes of an HDF5 file, without copying the arrays.

The HDF5 library writes the metadata (groups, names, types, shapes, offsets) to a file in memory. It reserves the space
of each array without writing to it; the bytes of the arrays are then inserted between what it wrote. The result is an
ordinary file of HDF5 1.8 (contiguous datasets, no filters), no disk error ever reaches the library, and only the
metadata takes memory.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from prototorch.engine.storage.tree_paths import META_GROUP, Scalar, find_path_error
from prototorch.errors import UsageError

__all__ = ["DTYPES", "encode_hdf5", "encode_tree"]

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip
_PAGE_BYTES = 4096


class _SparseFile(io.RawIOBase):
    """A sparse file in memory: pages that were not written take no memory and read as zeros."""

    def __init__(self) -> None:
        self.pages: dict[int, bytearray] = {}
        self.position = 0
        self.size = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = offset + (0, self.position, self.size)[whence]
        return self.position

    def tell(self) -> int:
        return self.position

    def truncate(self, size: int | None = None) -> int:
        self.size = self.position if size is None else size
        return self.size

    def write(self, data) -> int:
        view = memoryview(data).cast("B")
        count_written = 0
        while count_written < len(view):
            number, start = divmod(self.position + count_written, _PAGE_BYTES)
            count = min(_PAGE_BYTES - start, len(view) - count_written)
            page = self.pages.setdefault(number, bytearray(_PAGE_BYTES))
            page[start : start + count] = view[count_written : count_written + count]
            count_written += count
        self.position += count_written
        self.size = max(self.size, self.position)
        return count_written

    def readinto(self, data) -> int:
        view = memoryview(data).cast("B")
        view[:] = self.read_range(self.position, self.position + len(view))
        self.position += len(view)
        return len(view)

    def read_range(self, start: int, stop: int) -> bytes:
        """The bytes from offset ``start`` to ``stop``."""
        first, last = start // _PAGE_BYTES, (stop + _PAGE_BYTES - 1) // _PAGE_BYTES
        content = b"".join(bytes(self.pages.get(number, _PAGE_BYTES)) for number in range(first, last))
        return content[start - first * _PAGE_BYTES : stop - first * _PAGE_BYTES]


def encode_hdf5(
    arrays: Mapping[str, np.ndarray], meta: Mapping[str, Scalar], version: int | None, user_block: int
) -> list[memoryview | bytes]:
    """The HDF5 file of ``arrays`` by path, with ``meta`` in the group ``@meta``, as a list of buffers to concatenate.

    The first buffer follows the user block of ``user_block`` bytes, which the caller writes. version: of the format, in
    an attribute; None for a file of arrays alone. Arrays may have any shape
    (also ``()`` and empty) and the dtypes in `DTYPES`. Raises UsageError for a name or value that cannot be stored.
    """
    values = [(name, _to_little_endian(name, array)) for name, array in arrays.items()]
    texts = [(f"{META_GROUP}/{key}", _encode_scalar(key, value)) for key, value in meta.items()]
    _check_names([name for name, _ in values], list(meta))
    pages = _SparseFile()
    spans: list[tuple[int, memoryview]] = []
    with h5py.File(
        pages,
        "w",
        libver=("earliest", "v108"),
        userblock_size=user_block,
        alignment_threshold=1024,
        alignment_interval=64,
    ) as file:
        if version is not None:
            file.attrs.create("prototorch_format", version, dtype="<i8")
        for name, value in values + texts:
            data = value.reshape(-1).view(np.uint8).data if value.nbytes else None
            offset = _reserve_dataset(file, name, value)
            if data is not None and offset is not None:
                spans.append((offset, data))
    return _interleave(pages, sorted(spans, key=lambda span: span[0]), user_block)


def encode_tree(
    arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Mapping[str, str | Sequence[str]]]
) -> list[memoryview | bytes]:
    """The HDF5 file of arrays by path, and of the attributes of groups by path ("" is the root; those without arrays
    are made, too), as a list of buffers to concatenate: as other systems have them, without a user block.

    Raises UsageError for a name that cannot be stored.
    """
    values = [(name, _to_little_endian(name, array)) for name, array in arrays.items()]
    _check_names(list(arrays), [])
    for path in attributes:
        if path and (error := find_path_error(path)):
            raise UsageError(f"the name {path!r:.80} {error}")
    pages = _SparseFile()
    spans: list[tuple[int, memoryview]] = []
    with h5py.File(pages, "w", libver=("earliest", "v108"), alignment_threshold=1024, alignment_interval=64) as file:
        for name, value in values:
            data = value.reshape(-1).view(np.uint8).data if value.nbytes else None
            offset = _reserve_dataset(file, name, value)
            if data is not None and offset is not None:
                spans.append((offset, data))
        for path, entries in attributes.items():
            group = file.require_group(path) if path else file
            for name, entry in entries.items():
                is_text = isinstance(entry, str)
                group.attrs[name] = entry if is_text else np.array([item.encode() for item in entry], "S")
    return _interleave(pages, sorted(spans, key=lambda span: span[0]), 0)


def _interleave(pages: _SparseFile, spans: Sequence[tuple[int, memoryview]], start: int) -> list[memoryview | bytes]:
    pieces: list[memoryview | bytes] = []
    for offset, data in spans:
        pieces += [pages.read_range(start, offset), data]
        start = offset + data.nbytes
    pieces.append(pages.read_range(start, pages.size))
    return pieces


def _reserve_dataset(file: h5py.File, name: str, value: np.ndarray) -> int | None:
    """Create a dataset whose space is reserved but not written; returns the offset of its bytes."""
    if value.dtype.kind == "S":
        kind = h5t.C_S1.copy()
        kind.set_size(value.dtype.itemsize)
        kind.set_strpad(h5t.STR_NULLPAD)
        kind.set_cset(h5t.CSET_UTF8)
    else:
        kind = h5t.py_create(value.dtype, logical=True)
    space = h5s.create_simple(value.shape) if value.shape else h5s.create(h5s.SCALAR)
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    link = h5p.create(h5p.LINK_CREATE)
    link.set_create_intermediate_group(True)
    return h5d.create(file.id, name.encode(), kind, space, creation, link).get_offset()


def _to_little_endian(name: str, array: np.ndarray) -> np.ndarray:
    value = np.asarray(array)
    if value.dtype.name not in DTYPES:
        raise UsageError(f"{name}: arrays of {value.dtype} cannot be stored (supported: {', '.join(DTYPES)})")
    return np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(value.shape)


def _encode_scalar(key: str, value: Scalar) -> np.ndarray:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{META_GROUP}/{key}: a string with a lone surrogate cannot be stored") from None
        if "\0" in value:
            raise UsageError(f"{META_GROUP}/{key}: a string with a NUL character cannot be stored")
        return np.array(data, dtype=f"S{max(1, len(data))}")
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return np.array(value, "<i8")
    if isinstance(value, float):
        return np.array(value, "<f8")
    raise UsageError(f"{META_GROUP}/{key}: expected str, bool, int (64 bits) or float, got {value!r:.60}")


def _check_names(names: Sequence[str], keys: Sequence[str]) -> None:
    for path in (*names, *keys):
        error = find_path_error(path)
        if error is not None:
            raise UsageError(f"the name {path!r:.80} {error}")
    paths = set(names)
    for name in names:
        if name.split("/")[0] == META_GROUP:
            raise UsageError(f"the name {name!r:.80}: the group {META_GROUP} is reserved for scalars and strings")
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in paths:
                raise UsageError(f"{'/'.join(parts[:depth])!r:.80} cannot be an array and contain {name!r:.80}")
    for key in keys:
        if "/" in key:
            raise UsageError(f"the name {key!r:.80} of a scalar contains a '/'")
