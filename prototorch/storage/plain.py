"""A reader of plain HDF5 in pure Python: the subset that prototorch writes, and nothing else.

Groups with symbol tables, contiguous datasets of numbers, fixed-length UTF-8 texts: superblock 0 and object headers 1
of the HDF5 File Format Specification. Nothing here trusts the file: every place is checked against its size, every
structure is visited once, no two arrays may overlap. So a file can be at worst refused. It knows no links but hard
ones, no external or virtual storage, no filters, no references, no object types. Attributes are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from prototorch.storage.names import DEEPEST, fault_of_part

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MOST_OBJECTS = 1_000_000
_UNDEFINED = 0xFFFFFFFFFFFFFFFF


class NotPlainError(Exception):
    """The file is outside the subset, or damaged; the message says where."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset: its element type by NumPy's name (``text`` for a string), shape, place in the file and bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def _integer(size: int, signed: bool) -> bytes:
    return struct.pack("<B3BIHH", 0x10, 8 if signed else 0, 0, 0, size, 0, 8 * size)


def _floating(size: int, exponent: int, mantissa: int) -> bytes:
    sign, bias = 8 * size - 1, (1 << (exponent - 1)) - 1
    return struct.pack("<B3BIHH4BI", 0x11, 0x20, sign, 0, size, 0, 8 * size, mantissa, exponent, 0, mantissa, bias)


_BOOL = struct.pack("<B3BI", 0x18, 2, 0, 0, 1) + _integer(1, True) + b"FALSE\0\0\0TRUE\0\0\0\0" + b"\0\1"
_TYPES: dict[bytes, tuple[str, int]] = {
    _BOOL: ("bool", 1),
    _floating(2, 5, 10): ("float16", 2),
    _floating(4, 8, 23): ("float32", 4),
    _floating(8, 11, 52): ("float64", 8),
    **{_integer(size, True): (f"int{8 * size}", size) for size in (1, 2, 4, 8)},
    **{_integer(size, False): (f"uint{8 * size}", size) for size in (1, 2, 4, 8)},
}
_TEXT = struct.pack("<B3B", 0x13, 0x11, 0, 0)  # fixed length, padded with NUL, UTF-8


def read_entries(read_at: Callable[[int, int], bytes], size: int, base: int) -> dict[str, Entry]:
    """Every dataset of the file by path, in the order of the names.

    ``read_at(offset, count)`` gives bytes of the file, ``size`` is its length, ``base`` where the superblock lies.
    Raises NotPlainError.
    """
    entries = dict(_Walk(read_at, size, base).walk())
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if entry.nbytes and entry.offset < end:
            raise NotPlainError(f"{name}: its bytes overlap with another array's")
        end = max(end, entry.offset + entry.nbytes)
    return entries


class _Walk:
    def __init__(self, read_at: Callable[[int, int], bytes], size: int, base: int):
        self.read_at, self.size, self.base = read_at, size, base
        self.visited: set[int] = set()

    def part(self, address: int, count: int, what: str) -> bytes:
        offset = address + self.base
        if address == _UNDEFINED or count < 0 or offset + count > self.size:
            raise NotPlainError(f"{what}: {count:,} bytes at {offset:,} are not within the file ({self.size:,} bytes)")
        found = self.read_at(offset, count)
        if len(found) != count:
            raise NotPlainError(f"{what}: the file ends at byte {offset + len(found):,}")
        return found

    def once(self, address: int, what: str) -> None:
        if address in self.visited:
            raise NotPlainError(f"{what}: the same place in the file is used twice")
        if len(self.visited) >= _MOST_OBJECTS:
            raise NotPlainError(f"{what}: more than {_MOST_OBJECTS:,} structures")
        self.visited.add(address)

    def walk(self) -> Iterator[tuple[str, Entry]]:
        head = self.part(0, 96, "superblock")
        if head[:8] != SIGNATURE or head[8:16] != b"\0\0\0\0\0\x08\x08\0":
            raise NotPlainError("superblock: not of version 0 with 8-byte addresses")
        base, _, _, driver = struct.unpack_from("<4Q", head, 24)
        if base != self.base or driver != _UNDEFINED:
            raise NotPlainError("superblock: another base address, or a driver block")
        stack: list[tuple[str, int]] = [("", struct.unpack_from("<Q", head, 64)[0])]
        while stack:
            path, address = stack.pop()
            what = path or "/"
            self.once(address, what)
            messages = dict(self.messages(address, what))
            if 0x11 in messages:
                if path.count("/") >= DEEPEST:
                    raise NotPlainError(f"{what}: more than {DEEPEST} groups deep")
                children = list(self.children(messages[0x11], what))
                stack += [(f"{path}/{name}" if path else name, child) for name, child in reversed(children)]
            else:
                yield path, self.dataset(messages, what)

    def messages(self, address: int, what: str) -> Iterator[tuple[int, bytes]]:
        """The header messages that matter, each at most once."""
        version, _, count, _, length = struct.unpack("<BBHII4x", self.part(address, 16, what))
        if version != 1:
            raise NotPlainError(f"{what}: object header version {version}")
        blocks, seen = [(address + 16, length)], set()
        while blocks:
            start, length = blocks.pop(0)
            self.once(start, what)
            block, place = self.part(start, length, what), 0
            while place + 8 <= len(block) and count:
                kind, size, flags = struct.unpack_from("<HHB", block, place)
                body = block[place + 8 : place + 8 + size]
                place, count = place + 8 + size, count - 1
                if len(body) != size or flags & 2:
                    raise NotPlainError(f"{what}: a damaged or shared header message")
                if kind == 0x10:
                    blocks.append(struct.unpack("<QQ", body[:16].ljust(16, b"\xff")))
                elif kind in (1, 3, 8, 0x11):
                    if kind in seen:
                        raise NotPlainError(f"{what}: header message {kind:#x} twice")
                    seen.add(kind)
                    yield kind, body
                elif kind not in (0, 4, 5, 0xC, 0x12):  # nothing, fill values, attributes, times
                    raise NotPlainError(f"{what}: header message {kind:#x}")
        if count:
            raise NotPlainError(f"{what}: fewer header messages than announced")

    def children(self, message: bytes, what: str) -> Iterator[tuple[str, int]]:
        if len(message) != 16:
            raise NotPlainError(f"{what}: a damaged group")
        tree, heap = struct.unpack("<QQ", message)
        self.once(heap, what)
        signature, length, _, data = struct.unpack("<4s4xQQQ", self.part(heap, 32, what))
        if signature != b"HEAP":
            raise NotPlainError(f"{what}: a damaged group heap")
        self.once(data, what)
        names = self.part(data, length, what)
        for address in self.leaves(tree, what):
            signature, version, count = struct.unpack("<4sBxH", self.part(address, 8, what))
            if signature != b"SNOD" or version != 1:
                raise NotPlainError(f"{what}: a damaged group node")
            table = self.part(address + 8, 40 * count, what)
            for place, child, kind in struct.iter_unpack("<QQI20x", table):
                end = names.find(b"\0", place) if place < length else -1
                try:
                    name = names[place:end].decode() if end >= 0 else ""
                except UnicodeDecodeError:
                    name = ""
                fault = fault_of_part(name)
                if fault is not None or kind > 1:
                    raise NotPlainError(f"{what}: {f'a name {fault}' if fault else f'{name!r} is a soft link'}")
                yield name, child

    def leaves(self, address: int, what: str) -> Iterator[int]:
        """The addresses of the group nodes below a tree node, in order."""
        stack: list[tuple[int, int | None]] = [(address, None)]
        while stack:
            address, level = stack.pop()
            self.once(address, what)
            if level == -1:
                yield address
                continue
            signature, kind, found, count = struct.unpack("<4sBBH16x", self.part(address, 24, what))
            if signature != b"TREE" or kind != 0 or (level is not None and found != level):
                raise NotPlainError(f"{what}: a damaged group tree")
            table = self.part(address + 24, 16 * count + 8, what)
            below = [struct.unpack_from("<Q", table, 16 * number + 8)[0] for number in range(count)]
            stack += [(child, found - 1) for child in reversed(below)]

    def dataset(self, messages: dict[int, bytes], what: str) -> Entry:
        if not {1, 3, 8} <= messages.keys():
            raise NotPlainError(f"{what}: neither a group nor a dataset")
        shape = self.shape(messages[1], what)
        dtype, itemsize = self.dtype(messages[3], what)
        layout = messages[8]
        if len(layout) < 18 or layout[:2] != b"\x03\x01":
            raise NotPlainError(f"{what}: not contiguous")
        address, stored = struct.unpack_from("<QQ", layout, 2)
        nbytes = prod(shape) * itemsize
        if prod(max(length, 1) for length in shape) * itemsize >= 1 << 62:
            raise NotPlainError(f"{what}: the shape {list(shape)} is beyond any memory")
        if stored != nbytes:
            raise NotPlainError(f"{what}: {nbytes:,} bytes declared, {stored:,} stored")
        if nbytes == 0:
            return Entry(dtype, shape, self.base, 0)
        if address == _UNDEFINED or address + self.base + nbytes > self.size:
            raise NotPlainError(f"{what}: its {nbytes:,} bytes are not within the file ({self.size:,} bytes)")
        return Entry(dtype, shape, address + self.base, nbytes)

    def shape(self, body: bytes, what: str) -> tuple[int, ...]:
        if len(body) < 8 or body[0] != 1 or body[1] > 32 or len(body) < 8 + 8 * body[1]:
            raise NotPlainError(f"{what}: dataspace")
        return struct.unpack_from(f"<{body[1]}Q", body, 8)

    def dtype(self, body: bytes, what: str) -> tuple[str, int]:
        if body[:4] == _TEXT and len(body) >= 8:
            return "text", struct.unpack_from("<I", body, 4)[0]
        for known, found in _TYPES.items():
            if body.startswith(known) and not any(body[len(known) :]):
                return found
        raise NotPlainError(f"{what}: an element type that is not plain")
