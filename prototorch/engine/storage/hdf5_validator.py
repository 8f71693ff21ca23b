"""Validator and reader of foreign HDF5 files. It runs in `hdf5_sandbox`, because no check from outside makes the HDF5
library itself safe.

Accepted: groups and datasets by hard links, each object once, with valid names; integers, IEEE floats and booleans;
contiguous, compact or chunked storage that is completely in the file; the filters deflate, shuffle and fletcher32, each
at most once, decoded here and not by the library. All sizes are checked before a byte is read. Refused: soft, external
and user-defined links, external and virtual storage, named types, all other element types, anything beyond a limit.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import h5py
import numpy as np
from h5py import h5d, h5g, h5o, h5s, h5t

from prototorch.engine.storage.hdf5_filters import (
    DEFLATE,
    FLETCHER32,
    SHUFFLE,
    FilterError,
    decode_chunk,
    max_stored_bytes,
)
from prototorch.engine.storage.tree_paths import MAX_DEPTH, find_name_error, find_path_error

__all__ = ["HDF5Validator", "UnsafeFileError", "iter_bytes", "numpy_dtype_of"]

MAX_OBJECTS = 20_000
MAX_CHUNKS = 1_000_000
ALWAYS_ALLOWED_CHUNK_BYTES = 1 << 20  # allowed for a chunk of any dataset, however small
MAX_TEXT_BYTES = 4096
_READ_BYTES = 1 << 20

_NUMBER_TYPES = {
    "<f2": h5t.IEEE_F16LE, "<f4": h5t.IEEE_F32LE, "<f8": h5t.IEEE_F64LE,
    ">f2": h5t.IEEE_F16BE, ">f4": h5t.IEEE_F32BE, ">f8": h5t.IEEE_F64BE,
    "<i1": h5t.STD_I8LE, "<i2": h5t.STD_I16LE, "<i4": h5t.STD_I32LE, "<i8": h5t.STD_I64LE,
    ">i2": h5t.STD_I16BE, ">i4": h5t.STD_I32BE, ">i8": h5t.STD_I64BE,
    "<u1": h5t.STD_U8LE, "<u2": h5t.STD_U16LE, "<u4": h5t.STD_U32LE, "<u8": h5t.STD_U64LE,
    ">u2": h5t.STD_U16BE, ">u4": h5t.STD_U32BE, ">u8": h5t.STD_U64BE, ">i1": h5t.STD_I8BE, ">u1": h5t.STD_U8BE,
}  # fmt: skip
_CLASS_NAMES = {
    h5t.INTEGER: "integer", h5t.FLOAT: "float", h5t.TIME: "time", h5t.STRING: "string", h5t.BITFIELD: "bit field",
    h5t.OPAQUE: "opaque", h5t.COMPOUND: "compound", h5t.REFERENCE: "reference", h5t.ENUM: "enum",
    h5t.VLEN: "variable-length", h5t.ARRAY: "array",
}  # fmt: skip


class UnsafeFileError(Exception):
    """The file is refused; the message names the object and the reason."""


@dataclass
class DatasetInfo:
    """A validated dataset. ``offset`` is its offset in the file if it is contiguous, else None."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int | None
    handle: h5d.DatasetID
    filters: tuple[int, ...] = ()
    chunk: tuple[int, ...] = ()


class HDF5Validator:
    """Validates a file, or only the datasets ``names`` and their groups, without reading any array.

    allow_opaque: whether elements of two bytes of no type are accepted (bfloat16, as h5py writes it), and single texts
    of a fixed length (a path in Caffe's files), which are given as their bytes.
    datasets: the validated datasets. objects: (path, handle) of all groups and datasets met.
    """

    def __init__(
        self, file: h5py.File, size: int, budget: int, names: Sequence[str] | None = None, allow_opaque: bool = False
    ):
        self.file, self.size, self.budget, self.remaining_budget = file, size, budget, budget
        self.allow_opaque = allow_opaque
        self.visited_addresses: set[int] = set()
        self.handles: dict[str, h5g.GroupID | h5d.DatasetID] = {}
        self.objects: list[tuple[str, h5g.GroupID | h5d.DatasetID]] = []
        self.datasets: list[DatasetInfo] = []
        root = self._open(file.id, b"/", "/")
        if names is None:
            self._walk(root)
        else:
            for name in names:
                self._resolve(root, name)

    def _walk(self, root: h5g.GroupID) -> None:
        self.objects.append(("", root))
        stack = [(root, name, name) for name in reversed(self._links(root, "/"))]
        while stack:
            group, name, path = stack.pop()
            handle = self._enter(group, name, path)
            if isinstance(handle, h5g.GroupID):
                if path.count("/") + 1 >= MAX_DEPTH:
                    raise UnsafeFileError(f"{path:.200}: more than {MAX_DEPTH} groups deep")
                stack += [(handle, child, f"{path}/{child}") for child in reversed(self._links(handle, path))]

    def _resolve(self, root: h5g.GroupID, name: str) -> None:
        error = find_path_error(name)
        if error is not None:
            raise UnsafeFileError(f"{name!r:.80} {error}")
        handle, path = root, ""
        for part in name.split("/"):
            if not isinstance(handle, h5g.GroupID) or not handle.links.exists(part.encode()):
                raise UnsafeFileError(f"{name}: there is no such dataset")
            path = f"{path}/{part}" if path else part
            if path not in self.handles:
                self._check_link(handle.links.get_info(part.encode()).type, path)
                self.handles[path] = self._open(handle, part.encode(), path)
            handle = self.handles[path]
        if not isinstance(handle, h5d.DatasetID):
            raise UnsafeFileError(f"{path}: expected a dataset, found a group")
        self.datasets.append(self._validate_dataset(handle, path))

    def _links(self, group: h5g.GroupID, path: str) -> list[str]:
        remaining = MAX_OBJECTS - len(self.visited_addresses)
        links: list[tuple[bytes, int]] = []

        def collect(raw: bytes, info: h5py.h5l.LinkInfo) -> bool | None:  # h5py would lose an exception raised here
            links.append((raw, info.type))
            return len(links) > remaining or None

        if group.get_num_objs() <= remaining:
            group.links.iterate(collect, info=True)
        if group.get_num_objs() > remaining or len(links) > remaining:
            raise UnsafeFileError(f"{path:.200}: more than {MAX_OBJECTS:,} objects in the file")
        names = []
        for raw, kind in links:
            try:
                name = raw.decode()
            except UnicodeDecodeError:
                raise UnsafeFileError(f"{path:.200}: the name {raw!r:.80} is not UTF-8") from None
            error = find_name_error(name)
            if error is not None:
                raise UnsafeFileError(f"{path:.200}: the name {name!r:.80} {error}")
            self._check_link(kind, f"{path}/{name}".lstrip("/"))
            names.append(name)
        return names

    @staticmethod
    def _check_link(kind: int, path: str) -> None:
        if kind != h5py.h5l.TYPE_HARD:
            names = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "a link to another file"}
            raise UnsafeFileError(f"{path:.200}: {names.get(kind, 'a user-defined link')}")

    def _enter(self, group: h5g.GroupID, name: str, path: str) -> h5g.GroupID | h5d.DatasetID:
        handle = self._open(group, name.encode(), path)
        self.objects.append((path, handle))
        if isinstance(handle, h5d.DatasetID):
            self.datasets.append(self._validate_dataset(handle, path))
        return handle

    def _open(self, group: h5g.GroupID, name: bytes, path: str) -> h5g.GroupID | h5d.DatasetID:
        handle = h5o.open(group, name)
        address = h5o.get_info(handle).addr
        if address in self.visited_addresses and path != "/":
            raise UnsafeFileError(f"{path:.200}: another name of an object that has been visited")
        self.visited_addresses.add(address)
        if len(self.visited_addresses) > MAX_OBJECTS:
            raise UnsafeFileError(f"{path:.200}: more than {MAX_OBJECTS:,} objects in the file")
        if not isinstance(handle, h5g.GroupID | h5d.DatasetID):
            raise UnsafeFileError(f"{path:.200}: expected a group or dataset, found a {type(handle).__name__}")
        return handle

    def _validate_dataset(self, handle: h5d.DatasetID, path: str) -> DatasetInfo:
        space = handle.get_space()
        if space.get_simple_extent_type() == h5s.NULL:
            raise UnsafeFileError(f"{path}: an empty dataspace")
        shape = tuple(int(length) for length in space.get_simple_extent_dims())
        kind = handle.get_type()
        if self.allow_opaque and shape == () and _is_short_text(kind):
            dtype, shape = "<u1", (int(kind.get_size()),)
        else:
            dtype = numpy_dtype_of(kind, path, self.allow_opaque)
        itemsize = int(dtype[2:])
        nbytes = prod(shape) * itemsize
        if nbytes > self.remaining_budget or prod(max(length, 1) for length in shape) * itemsize > 1 << 62:
            raise UnsafeFileError(
                f"{path}: {nbytes:,} bytes declared; at most {self.budget:,} are expected in the file"
            )
        self.remaining_budget -= nbytes
        creation = handle.get_create_plist()
        if creation.get_external_count():
            raise UnsafeFileError(f"{path}: stored in another file")
        layout = creation.get_layout()
        dataset = DatasetInfo(path, dtype, shape, nbytes, None, handle)
        if layout == h5d.CONTIGUOUS:
            self._check_contiguous(dataset)
        elif layout == h5d.CHUNKED:
            self._check_chunked(dataset, itemsize)
        elif layout != h5d.COMPACT:
            raise UnsafeFileError(f"{path}: virtual storage, which may read other files")
        elif handle.get_storage_size() != nbytes:
            raise UnsafeFileError(f"{path}: {nbytes:,} bytes declared, {handle.get_storage_size():,} stored")
        return dataset

    def _check_contiguous(self, dataset: DatasetInfo) -> None:
        if dataset.handle.get_create_plist().get_nfilters():
            raise UnsafeFileError(f"{dataset.path}: contiguous, but with filters")
        stored_bytes, offset = dataset.handle.get_storage_size(), dataset.handle.get_offset()
        if dataset.nbytes == 0:
            return
        if stored_bytes != dataset.nbytes or offset is None:
            raise UnsafeFileError(
                f"{dataset.path}: {dataset.nbytes:,} bytes declared, {stored_bytes if offset else 0:,} stored"
            )
        if not 0 < offset <= self.size - dataset.nbytes:
            raise UnsafeFileError(f"{dataset.path}: its {dataset.nbytes:,} bytes are not within the file")
        dataset.offset = int(offset)

    def _check_chunked(self, dataset: DatasetInfo, itemsize: int) -> None:
        creation = dataset.handle.get_create_plist()
        codes = []
        for position in range(creation.get_nfilters()):
            code, _, values, name = creation.get_filter(position)
            if code not in (DEFLATE, SHUFFLE, FLETCHER32) or code in codes:
                reason = "used twice" if code in codes else "not allowed"
                raise UnsafeFileError(f"{dataset.path}: filter {code} ({name!r:.40}) is {reason}")
            if code == SHUFFLE and values and values[0] != itemsize:
                raise UnsafeFileError(f"{dataset.path}: shuffled by {values[0]} bytes, but elements have {itemsize}")
            codes.append(int(code))
        dataset.filters = tuple(codes)
        dataset.chunk = tuple(int(length) for length in creation.get_chunk())
        size = prod(dataset.chunk) * itemsize
        if (
            len(dataset.chunk) != len(dataset.shape)
            or size <= 0
            or size > max(4 * dataset.nbytes, ALWAYS_ALLOWED_CHUNK_BYTES)
        ):
            raise UnsafeFileError(f"{dataset.path}: chunks of {size:,} bytes for {dataset.nbytes:,} bytes of data")
        count = prod(-(-length // step) for length, step in zip(dataset.shape, dataset.chunk, strict=True))
        if count > MAX_CHUNKS:
            raise UnsafeFileError(f"{dataset.path}: {count:,} chunks; at most {MAX_CHUNKS:,} are allowed")
        num_stored = dataset.handle.get_num_chunks()
        if num_stored != count:
            raise UnsafeFileError(f"{dataset.path}: {count:,} chunks declared, {num_stored:,} stored")


def _is_short_text(kind: h5t.TypeID) -> bool:
    return isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() <= MAX_TEXT_BYTES


def numpy_dtype_of(kind: h5t.TypeID, path: str, allow_opaque: bool = False) -> str:
    """NumPy's code of an element type (``|b1`` for booleans, ``|V2`` for two bytes of no type where they are allowed).

    Raises UnsafeFileError for an unsupported one.
    """
    code = kind.get_class()
    if code in (h5t.INTEGER, h5t.FLOAT):
        for dtype, number_type in _NUMBER_TYPES.items():
            if kind.equal(number_type):
                return dtype
    elif code == h5t.ENUM and kind.get_nmembers() == 2 and kind.get_super().equal(h5t.STD_I8LE):
        members = {kind.get_member_name(i): kind.get_member_value(i) for i in range(2)}
        if members == {b"FALSE": 0, b"TRUE": 1}:
            return "|b1"
    elif code == h5t.OPAQUE and kind.get_size() == 2 and allow_opaque:
        return "|V2"
    raise UnsafeFileError(
        f"{path}: elements of an {_CLASS_NAMES.get(code, 'unknown')} type ({kind.get_size()} bytes); "
        "expected integers, IEEE floats or booleans"
    )


def iter_bytes(dataset: DatasetInfo, file: io.FileIO) -> Iterator[bytes]:
    """The bytes of a dataset in order, exactly as many as declared."""
    if dataset.nbytes == 0:
        return
    if dataset.offset is not None:
        count_read = 0
        while count_read < dataset.nbytes:
            file.seek(dataset.offset + count_read)  # the library seeks before each of its own reads
            block = file.read(min(_READ_BYTES, dataset.nbytes - count_read))
            if not block:
                raise UnsafeFileError(f"{dataset.path}: the file ends at byte {dataset.offset + count_read:,}")
            count_read += len(block)
            yield block
        return
    data = np.empty(dataset.shape, np.dtype(dataset.dtype))
    if dataset.chunk:
        _read_chunks(dataset, data)
    else:
        dataset.handle.read(h5s.ALL, h5s.ALL, data, dataset.handle.get_type())
    yield data.tobytes()


def _read_chunks(dataset: DatasetInfo, data: np.ndarray) -> None:
    size = prod(dataset.chunk) * data.dtype.itemsize
    limit = max_stored_bytes(dataset.filters, size)
    for start in product(*(range(0, n, step) for n, step in zip(dataset.shape, dataset.chunk, strict=True))):
        info = dataset.handle.get_chunk_info_by_coord(start)
        if info.byte_offset is None or not 0 < info.size <= limit:
            raise UnsafeFileError(
                f"{dataset.path}: the chunk at {start} has {info.size:,} bytes; at most {limit:,} are possible"
            )
        mask, content = dataset.handle.read_direct_chunk(start)
        content = content[: info.size]  # h5py pads a short unfiltered chunk with uninitialized memory
        try:
            decoded = decode_chunk(bytes(content), dataset.filters, mask, size, data.dtype.itemsize)
        except FilterError as error:
            raise UnsafeFileError(f"{dataset.path}: the chunk at {start}: {error}") from None
        block = np.frombuffer(decoded, data.dtype).reshape(dataset.chunk)
        source = tuple(
            slice(0, min(step, n - at)) for at, n, step in zip(start, dataset.shape, dataset.chunk, strict=True)
        )
        target = tuple(slice(at, at + part.stop) for at, part in zip(start, source, strict=True))
        data[target] = block[source]
