"""Decoder of the subset of HDF5 that `hdf5_encoder` writes, in pure Python.

The subset: groups with symbol tables, contiguous datasets of numbers, fixed-length UTF-8 strings; superblock version 0
and object header version 1 of the HDF5 File Format Specification. The file is not trusted: every offset is checked
against the file's size, every structure is visited once, arrays must not overlap. There are no links except hard ones,
no external or virtual storage, no filters, no references, no object types. Attributes are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from prototorch.engine.storage.tree_paths import MAX_DEPTH, find_name_error

__all__ = ["DatasetEntry", "HDF5FormatError", "read_entries"]

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MAX_OBJECTS = 1_000_000
_UNDEFINED_ADDRESS = 0xFFFFFFFFFFFFFFFF


class HDF5FormatError(Exception):
    """The file is outside the subset, or damaged; the message names the object."""


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """A dataset: its dtype by NumPy's name (``text`` for a string), shape, offset in the file and size in bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def _integer_type(size: int, is_signed: bool) -> bytes:
    return struct.pack("<B3BIHH", 0x10, 8 if is_signed else 0, 0, 0, size, 0, 8 * size)


def _float_type(size: int, exponent: int, mantissa: int) -> bytes:
    sign, bias = 8 * size - 1, (1 << (exponent - 1)) - 1
    return struct.pack("<B3BIHH4BI", 0x11, 0x20, sign, 0, size, 0, 8 * size, mantissa, exponent, 0, mantissa, bias)


_BOOL_TYPE = struct.pack("<B3BI", 0x18, 2, 0, 0, 1) + _integer_type(1, True) + b"FALSE\0\0\0TRUE\0\0\0\0" + b"\0\1"
_TYPES: dict[bytes, tuple[str, int]] = {
    _BOOL_TYPE: ("bool", 1),
    _float_type(2, 5, 10): ("float16", 2),
    _float_type(4, 8, 23): ("float32", 4),
    _float_type(8, 11, 52): ("float64", 8),
    **{_integer_type(size, True): (f"int{8 * size}", size) for size in (1, 2, 4, 8)},
    **{_integer_type(size, False): (f"uint{8 * size}", size) for size in (1, 2, 4, 8)},
}
_TEXT_TYPE = struct.pack("<B3B", 0x13, 0x11, 0, 0)  # fixed length, padded with NUL, UTF-8


def read_entries(read_at: Callable[[int, int], bytes], size: int, base: int) -> dict[str, DatasetEntry]:
    """The datasets of the file by path, in the order of the names.

    ``read_at(offset, count)`` returns bytes of the file, ``size`` is its length, ``base`` the offset of the superblock.
    Raises HDF5FormatError.
    """
    entries = dict(_TreeReader(read_at, size, base).walk())
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if entry.nbytes and entry.offset < end:
            raise HDF5FormatError(f"{name}: its bytes overlap with those of another array")
        end = max(end, entry.offset + entry.nbytes)
    return entries


class _TreeReader:
    """Walks the groups of a file; addresses are relative to ``base``."""

    def __init__(self, read_at: Callable[[int, int], bytes], size: int, base: int):
        self.read_at, self.size, self.base = read_at, size, base
        self.visited_addresses: set[int] = set()

    def read(self, address: int, count: int, what: str) -> bytes:
        offset = address + self.base
        if address == _UNDEFINED_ADDRESS or count < 0 or offset + count > self.size:
            raise HDF5FormatError(
                f"{what}: {count:,} bytes at {offset:,} are not within the file ({self.size:,} bytes)"
            )
        data = self.read_at(offset, count)
        if len(data) != count:
            raise HDF5FormatError(f"{what}: the file ends at byte {offset + len(data):,}")
        return data

    def mark_visited(self, address: int, what: str) -> None:
        if address in self.visited_addresses:
            raise HDF5FormatError(f"{what}: the same address is used twice")
        if len(self.visited_addresses) >= _MAX_OBJECTS:
            raise HDF5FormatError(f"{what}: more than {_MAX_OBJECTS:,} structures")
        self.visited_addresses.add(address)

    def walk(self) -> Iterator[tuple[str, DatasetEntry]]:
        head = self.read(0, 96, "superblock")
        if head[:8] != SIGNATURE or head[8:16] != b"\0\0\0\0\0\x08\x08\0":
            raise HDF5FormatError("superblock: not of version 0 with 8-byte addresses")
        base, _, _, driver = struct.unpack_from("<4Q", head, 24)
        if base != self.base or driver != _UNDEFINED_ADDRESS:
            raise HDF5FormatError("superblock: another base address, or a driver block")
        stack: list[tuple[str, int]] = [("", struct.unpack_from("<Q", head, 64)[0])]
        while stack:
            path, address = stack.pop()
            what = path or "/"
            self.mark_visited(address, what)
            messages = dict(self.messages(address, what))
            if 0x11 in messages:
                if path.count("/") >= MAX_DEPTH:
                    raise HDF5FormatError(f"{what}: more than {MAX_DEPTH} groups deep")
                children = list(self.children(messages[0x11], what))
                stack += [(f"{path}/{name}" if path else name, child) for name, child in reversed(children)]
            else:
                yield path, self.dataset(messages, what)

    def messages(self, address: int, what: str) -> Iterator[tuple[int, bytes]]:
        """The relevant header messages, each at most once."""
        version, _, count, _, length = struct.unpack("<BBHII4x", self.read(address, 16, what))
        if version != 1:
            raise HDF5FormatError(f"{what}: object header version {version}")
        blocks, types_seen = [(address + 16, length)], set()
        while blocks:
            start, length = blocks.pop(0)
            self.mark_visited(start, what)
            block, position = self.read(start, length, what), 0
            while position + 8 <= len(block) and count:
                kind, size, flags = struct.unpack_from("<HHB", block, position)
                body = block[position + 8 : position + 8 + size]
                position, count = position + 8 + size, count - 1
                if len(body) != size or flags & 2:
                    raise HDF5FormatError(f"{what}: a damaged or shared header message")
                if kind == 0x10:
                    blocks.append(struct.unpack("<QQ", body[:16].ljust(16, b"\xff")))
                elif kind in (1, 3, 8, 0x11):
                    if kind in types_seen:
                        raise HDF5FormatError(f"{what}: header message {kind:#x} twice")
                    types_seen.add(kind)
                    yield kind, body
                elif kind not in (0, 4, 5, 0xC, 0x12):  # NIL, fill values, attributes, times
                    raise HDF5FormatError(f"{what}: header message {kind:#x}")
        if count:
            raise HDF5FormatError(f"{what}: fewer header messages than declared")

    def children(self, message: bytes, what: str) -> Iterator[tuple[str, int]]:
        if len(message) != 16:
            raise HDF5FormatError(f"{what}: a damaged group")
        tree, heap = struct.unpack("<QQ", message)
        self.mark_visited(heap, what)
        signature, length, _, data = struct.unpack("<4s4xQQQ", self.read(heap, 32, what))
        if signature != b"HEAP":
            raise HDF5FormatError(f"{what}: a damaged group heap")
        self.mark_visited(data, what)
        names = self.read(data, length, what)
        for address in self.leaves(tree, what):
            signature, version, count = struct.unpack("<4sBxH", self.read(address, 8, what))
            if signature != b"SNOD" or version != 1:
                raise HDF5FormatError(f"{what}: a damaged group node")
            table = self.read(address + 8, 40 * count, what)
            for start, child, kind in struct.iter_unpack("<QQI20x", table):
                end = names.find(b"\0", start) if start < length else -1
                try:
                    name = names[start:end].decode() if end >= 0 else ""
                except UnicodeDecodeError:
                    name = ""
                error = find_name_error(name)
                if error is not None or kind > 1:
                    raise HDF5FormatError(f"{what}: {f'a name {error}' if error else f'{name!r} is a soft link'}")
                yield name, child

    def leaves(self, address: int, what: str) -> Iterator[int]:
        """The addresses of the group nodes below a tree node, in order."""
        stack: list[tuple[int, int | None]] = [(address, None)]
        while stack:
            address, level = stack.pop()
            self.mark_visited(address, what)
            if level == -1:
                yield address
                continue
            signature, kind, node_level, count = struct.unpack("<4sBBH16x", self.read(address, 24, what))
            if signature != b"TREE" or kind != 0 or (level is not None and node_level != level):
                raise HDF5FormatError(f"{what}: a damaged group tree")
            table = self.read(address + 24, 16 * count + 8, what)
            children = [struct.unpack_from("<Q", table, 16 * number + 8)[0] for number in range(count)]
            stack += [(child, node_level - 1) for child in reversed(children)]

    def dataset(self, messages: dict[int, bytes], what: str) -> DatasetEntry:
        if not {1, 3, 8} <= messages.keys():
            raise HDF5FormatError(f"{what}: neither a group nor a dataset")
        shape = self.shape(messages[1], what)
        dtype, itemsize = self.dtype(messages[3], what)
        layout = messages[8]
        if len(layout) < 18 or layout[:2] != b"\x03\x01":
            raise HDF5FormatError(f"{what}: not contiguous")
        address, stored_bytes = struct.unpack_from("<QQ", layout, 2)
        nbytes = prod(shape) * itemsize
        if prod(max(length, 1) for length in shape) * itemsize >= 1 << 62:
            raise HDF5FormatError(f"{what}: the shape {list(shape)} is too large")
        if stored_bytes != nbytes:
            raise HDF5FormatError(f"{what}: {nbytes:,} bytes declared, {stored_bytes:,} stored")
        if nbytes == 0:
            return DatasetEntry(dtype, shape, self.base, 0)
        if address == _UNDEFINED_ADDRESS or address + self.base + nbytes > self.size:
            raise HDF5FormatError(f"{what}: its {nbytes:,} bytes are not within the file ({self.size:,} bytes)")
        return DatasetEntry(dtype, shape, address + self.base, nbytes)

    def shape(self, body: bytes, what: str) -> tuple[int, ...]:
        if len(body) < 8 or body[0] != 1 or body[1] > 32 or len(body) < 8 + 8 * body[1]:
            raise HDF5FormatError(f"{what}: dataspace")
        return struct.unpack_from(f"<{body[1]}Q", body, 8)

    def dtype(self, body: bytes, what: str) -> tuple[str, int]:
        if body[:4] == _TEXT_TYPE and len(body) >= 8:
            return "text", struct.unpack_from("<I", body, 4)[0]
        for encoding, dtype in _TYPES.items():
            if body.startswith(encoding) and not any(body[len(encoding) :]):
                return dtype
        raise HDF5FormatError(f"{what}: an unsupported element type")
