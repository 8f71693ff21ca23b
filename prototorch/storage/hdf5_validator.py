"""The strict reader of HDF5 files from elsewhere. It runs in a process of its own (`child`), because no check from
outside makes the HDF5 library itself safe.

What it lets through: groups and datasets by hard links, each object once, with plain names; integers, IEEE floats and
booleans; contiguous, compact or chunked storage that is wholly there; the filters deflate, shuffle and fletcher32,
each at most once, undone here and not by the library. All sizes are counted before a byte is read. What it refuses:
soft, external and user-defined links, external and virtual storage, named types, all other element types, anything
beyond a limit.
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

from prototorch.storage.hdf5_filters import DEFLATE, FLETCHER32, SHUFFLE, FilterError, decode_chunk, max_stored_bytes
from prototorch.storage.tree_paths import MAX_DEPTH, find_name_error, find_path_error

MAX_OBJECTS = 20_000
MAX_CHUNKS = 1_000_000
ALWAYS_ALLOWED_CHUNK_BYTES = 1 << 20  # bytes a chunk may always have, however small its dataset
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
    """The file is not read; the message names the object and the reason."""


@dataclass
class DatasetInfo:
    """A dataset that passed the checks. ``offset`` is its place in the file when it is contiguous, else None."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int | None
    handle: h5d.DatasetID
    filters: tuple[int, ...] = ()
    chunk: tuple[int, ...] = ()


class HDF5Validator:
    """Walks a file and checks all of it, or only what ``names`` lead to, without reading any array."""

    def __init__(self, file: h5py.File, size: int, budget: int, names: Sequence[str] | None = None):
        self.file, self.size, self.budget, self.remaining_budget = file, size, budget, budget
        self.visited: set[int] = set()
        self.resolved: dict[str, h5g.GroupID | h5d.DatasetID] = {}
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
            found = self._enter(group, name, path)
            if isinstance(found, h5g.GroupID):
                if path.count("/") + 1 >= MAX_DEPTH:
                    raise UnsafeFileError(f"{path:.200}: more than {MAX_DEPTH} groups deep")
                stack += [(found, below, f"{path}/{below}") for below in reversed(self._links(found, path))]

    def _resolve(self, root: h5g.GroupID, name: str) -> None:
        fault = find_path_error(name)
        if fault is not None:
            raise UnsafeFileError(f"{name!r:.80} {fault}")
        found, path = root, ""
        for part in name.split("/"):
            if not isinstance(found, h5g.GroupID) or not found.links.exists(part.encode()):
                raise UnsafeFileError(f"{name}: there is no such dataset")
            path = f"{path}/{part}" if path else part
            if path not in self.resolved:
                self._check_link(found.links.get_info(part.encode()).type, path)
                self.resolved[path] = self._open(found, part.encode(), path)
            found = self.resolved[path]
        if not isinstance(found, h5d.DatasetID):
            raise UnsafeFileError(f"{path}: expected a dataset, found a group")
        self.datasets.append(self._dataset(found, path))

    def _links(self, group: h5g.GroupID, path: str) -> list[str]:
        room = MAX_OBJECTS - len(self.visited)
        links: list[tuple[bytes, int]] = []

        def note(raw: bytes, info: h5py.h5l.LinkInfo) -> bool | None:  # an error raised here would be lost
            links.append((raw, info.type))
            return len(links) > room or None

        if group.get_num_objs() <= room:
            group.links.iterate(note, info=True)
        if group.get_num_objs() > room or len(links) > room:
            raise UnsafeFileError(f"{path:.200}: more than {MAX_OBJECTS:,} objects in the file")
        names = []
        for raw, kind in links:
            try:
                name = raw.decode()
            except UnicodeDecodeError:
                raise UnsafeFileError(f"{path:.200}: the name {raw!r:.80} is not UTF-8") from None
            fault = find_name_error(name)
            if fault is not None:
                raise UnsafeFileError(f"{path:.200}: the name {name!r:.80} {fault}")
            self._check_link(kind, f"{path}/{name}".lstrip("/"))
            names.append(name)
        return names

    @staticmethod
    def _check_link(kind: int, path: str) -> None:
        if kind != h5py.h5l.TYPE_HARD:
            word = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "a link to another file"}
            raise UnsafeFileError(f"{path:.200}: {word.get(kind, 'a user-defined link')}")

    def _enter(self, group: h5g.GroupID, name: str, path: str) -> h5g.GroupID | h5d.DatasetID:
        found = self._open(group, name.encode(), path)
        self.objects.append((path, found))
        if isinstance(found, h5d.DatasetID):
            self.datasets.append(self._dataset(found, path))
        return found

    def _open(self, group: h5g.GroupID, name: bytes, path: str) -> h5g.GroupID | h5d.DatasetID:
        found = h5o.open(group, name)
        address = h5o.get_info(found).addr
        if address in self.visited and path != "/":
            raise UnsafeFileError(f"{path:.200}: another name of an object that was met before")
        self.visited.add(address)
        if len(self.visited) > MAX_OBJECTS:
            raise UnsafeFileError(f"{path:.200}: more than {MAX_OBJECTS:,} objects in the file")
        if not isinstance(found, h5g.GroupID | h5d.DatasetID):
            raise UnsafeFileError(f"{path:.200}: expected a group or dataset, found a {type(found).__name__}")
        return found

    def _dataset(self, handle: h5d.DatasetID, path: str) -> DatasetInfo:
        space = handle.get_space()
        if space.get_simple_extent_type() == h5s.NULL:
            raise UnsafeFileError(f"{path}: an empty dataspace")
        shape = tuple(int(length) for length in space.get_simple_extent_dims())
        dtype = numpy_dtype_of(handle.get_type(), path)
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
        found = DatasetInfo(path, dtype, shape, nbytes, None, handle)
        if layout == h5d.CONTIGUOUS:
            self._check_contiguous(found)
        elif layout == h5d.CHUNKED:
            self._check_chunked(found, itemsize)
        elif layout != h5d.COMPACT:
            raise UnsafeFileError(f"{path}: virtual storage, which may read other files")
        elif handle.get_storage_size() != nbytes:
            raise UnsafeFileError(f"{path}: {nbytes:,} bytes declared, {handle.get_storage_size():,} stored")
        return found

    def _check_contiguous(self, found: DatasetInfo) -> None:
        if found.handle.get_create_plist().get_nfilters():
            raise UnsafeFileError(f"{found.path}: contiguous, but with filters")
        stored, offset = found.handle.get_storage_size(), found.handle.get_offset()
        if found.nbytes == 0:
            return
        if stored != found.nbytes or offset is None:
            raise UnsafeFileError(f"{found.path}: {found.nbytes:,} bytes declared, {stored if offset else 0:,} stored")
        if not 0 < offset <= self.size - found.nbytes:
            raise UnsafeFileError(f"{found.path}: its {found.nbytes:,} bytes are not within the file")
        found.offset = int(offset)

    def _check_chunked(self, found: DatasetInfo, itemsize: int) -> None:
        creation = found.handle.get_create_plist()
        codes = []
        for place in range(creation.get_nfilters()):
            code, _, values, name = creation.get_filter(place)
            if code not in (DEFLATE, SHUFFLE, FLETCHER32) or code in codes:
                reason = "used twice" if code in codes else "not allowed"
                raise UnsafeFileError(f"{found.path}: filter {code} ({name!r:.40}) is {reason}")
            if code == SHUFFLE and values and values[0] != itemsize:
                raise UnsafeFileError(f"{found.path}: shuffled by {values[0]} bytes, but elements have {itemsize}")
            codes.append(int(code))
        found.filters = tuple(codes)
        found.chunk = tuple(int(length) for length in creation.get_chunk())
        size = prod(found.chunk) * itemsize
        if (
            len(found.chunk) != len(found.shape)
            or size <= 0
            or size > max(4 * found.nbytes, ALWAYS_ALLOWED_CHUNK_BYTES)
        ):
            raise UnsafeFileError(f"{found.path}: chunks of {size:,} bytes for {found.nbytes:,} bytes of data")
        count = prod(-(-length // step) for length, step in zip(found.shape, found.chunk, strict=True))
        if count > MAX_CHUNKS:
            raise UnsafeFileError(f"{found.path}: {count:,} chunks; at most {MAX_CHUNKS:,} are allowed")
        stored = found.handle.get_num_chunks()
        if stored != count:
            raise UnsafeFileError(f"{found.path}: {count:,} chunks declared, {stored:,} stored")


def numpy_dtype_of(kind: h5t.TypeID, path: str) -> str:
    """NumPy's spelling of an element type (``|b1`` for booleans); RefusedError for any but the plain ones."""
    code = kind.get_class()
    if code in (h5t.INTEGER, h5t.FLOAT):
        for word, known in _NUMBER_TYPES.items():
            if kind.equal(known):
                return word
    elif code == h5t.ENUM and kind.get_nmembers() == 2 and kind.get_super().equal(h5t.STD_I8LE):
        members = {kind.get_member_name(place): kind.get_member_value(place) for place in range(2)}
        if members == {b"FALSE": 0, b"TRUE": 1}:
            return "|b1"
    raise UnsafeFileError(
        f"{path}: elements of an {_CLASS_NAMES.get(code, 'unknown')} type ({kind.get_size()} bytes); "
        "expected integers, IEEE floats or booleans"
    )


def iter_bytes(found: DatasetInfo, file: io.FileIO) -> Iterator[bytes]:
    """The bytes of a dataset, in order and exactly as many as declared."""
    if found.nbytes == 0:
        return
    if found.offset is not None:
        done = 0
        while done < found.nbytes:
            file.seek(found.offset + done)  # the library seeks anew before each of its own reads
            block = file.read(min(_READ_BYTES, found.nbytes - done))
            if not block:
                raise UnsafeFileError(f"{found.path}: the file ends at byte {found.offset + done:,}")
            done += len(block)
            yield block
        return
    data = np.empty(found.shape, np.dtype(found.dtype))
    if found.chunk:
        _read_chunks(found, data)
    else:
        found.handle.read(h5s.ALL, h5s.ALL, data, found.handle.get_type())
    yield data.tobytes()


def _read_chunks(found: DatasetInfo, data: np.ndarray) -> None:
    size = prod(found.chunk) * data.dtype.itemsize
    limit = max_stored_bytes(found.filters, size)
    for start in product(*(range(0, n, step) for n, step in zip(found.shape, found.chunk, strict=True))):
        info = found.handle.get_chunk_info_by_coord(start)
        if info.byte_offset is None or not 0 < info.size <= limit:
            raise UnsafeFileError(
                f"{found.path}: the chunk at {start} has {info.size:,} bytes; at most {limit:,} can be"
            )
        mask, stored = found.handle.read_direct_chunk(start)
        stored = stored[: info.size]  # an unfiltered chunk stored short comes with bytes of foreign memory behind it
        try:
            plain = decode_chunk(bytes(stored), found.filters, mask, size, data.dtype.itemsize)
        except FilterError as error:
            raise UnsafeFileError(f"{found.path}: the chunk at {start}: {error}") from None
        block = np.frombuffer(plain, data.dtype).reshape(found.chunk)
        inside = tuple(slice(0, min(step, n - at)) for at, n, step in zip(start, found.shape, found.chunk, strict=True))
        target = tuple(slice(at, at + part.stop) for at, part in zip(start, inside, strict=True))
        data[target] = block[inside]
