"""Writer of LMDB files: records in the order of their keys, so that each page is written once and is full."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from prototorch.caffe.data.lmdb_pages import (
    BIG_DATA,
    BRANCH,
    HEADER_BYTES,
    LEAF,
    NO_PAGE,
    OVERFLOW,
    PAGE_HEADER,
    MetaPage,
    format_meta,
)
from prototorch.caffe.data.record_database import printable_key
from prototorch.errors import DataError

__all__ = ["MAX_KEY_BYTES", "write_lmdb"]

MAX_KEY_BYTES = 511  # the limit of LMDB as it is built by default
_MAX_VALUE_BYTES = (1 << 32) - 1
_PAGE_SIZE = 4096
_NODE = struct.Struct("<HHHH")  # size of the value, or page number: low, high; flags, or page number: highest; key size
_MAX_NODE = (((_PAGE_SIZE - HEADER_BYTES) // 2) & -2) - 2  # bytes of a node; a larger value lies on overflow pages
_OVERFLOW_HEADER = struct.Struct("<QHHI")


def write_lmdb(file: BinaryIO, records: Iterable[tuple[bytes, bytes]]) -> int:
    """Write an LMDB file with these keys and values, which come in ascending order of the keys; returns their number.

    file: empty, seekable. Raises DataError for a key that is empty, of more than `MAX_KEY_BYTES`, or not larger than
    the one before.
    """
    tree = _TreeWriter(file)
    last, count = b"", 0
    file.write(bytes(2 * _PAGE_SIZE))  # the meta pages come last
    for key, value in records:
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise DataError(
                f"LMDB takes keys of 1 to {MAX_KEY_BYTES} bytes, not {len(key):,}: {printable_key(key):.120}"
            )
        if key <= last:
            raise DataError(f"the key {printable_key(key)} must come after {printable_key(last)}")
        tree.add(key, value)
        last, count = key, count + 1
    root, depth = tree.finish()
    meta = MetaPage(
        _PAGE_SIZE,
        1,
        tree.num_pages - 1,
        0,
        depth,
        tree.branch_pages,
        tree.leaf_pages,
        tree.overflow_pages,
        count,
        root,
    )
    file.seek(0)
    file.write(format_meta(0, MetaPage(_PAGE_SIZE, 0, 1)))
    file.write(format_meta(1, meta))
    return count


@dataclass
class _TreeWriter:
    """Leaf pages are written as they fill; the branch pages above them follow at the end."""

    file: BinaryIO
    num_pages: int = 2
    branch_pages: int = 0
    leaf_pages: int = 0
    overflow_pages: int = 0
    nodes: list[bytes] = field(default_factory=list)  # of the leaf page that is not full yet
    first_key: bytes = b""  # of that page
    num_bytes: int = HEADER_BYTES  # of that page
    children: list[tuple[bytes, int]] = field(default_factory=list)  # first key and number of each leaf page

    def add(self, key: bytes, value: bytes) -> None:
        """Add a record."""
        size = len(value)
        if size > _MAX_VALUE_BYTES:
            raise DataError(f"the value of {printable_key(key)} has {size:,} bytes; LMDB takes {_MAX_VALUE_BYTES:,}")
        flags, payload = 0, value
        if _NODE.size + len(key) + size > _MAX_NODE:
            flags, payload = BIG_DATA, struct.pack("<Q", self.add_overflow(value))
        node = _NODE.pack(size & 0xFFFF, size >> 16, flags, len(key)) + key + payload
        node += b"\0" * (len(node) % 2)
        if self.num_bytes + 2 + len(node) > _PAGE_SIZE:
            self.flush_leaf()
        if not self.nodes:
            self.first_key = key
        self.nodes.append(node)
        self.num_bytes += 2 + len(node)

    def add_overflow(self, value: bytes) -> int:
        """Write a value on pages of its own; the number of the first."""
        count = -(-(HEADER_BYTES + len(value)) // _PAGE_SIZE)
        head = _OVERFLOW_HEADER.pack(self.num_pages, 0, OVERFLOW, count)
        self.file.write(head)
        self.file.write(value)
        self.file.write(bytes(count * _PAGE_SIZE - len(head) - len(value)))
        self.num_pages += count
        self.overflow_pages += count
        return self.num_pages - count

    def flush_leaf(self) -> None:
        """Write the leaf page that is not full yet."""
        self.children.append((self.first_key, self.write_page(LEAF, self.nodes)))
        self.leaf_pages += 1
        self.nodes, self.num_bytes = [], HEADER_BYTES

    def write_page(self, kind: int, nodes: list[bytes]) -> int:
        """Write a page of the tree; its number. The nodes lie at its end, the first one last."""
        number, start = self.num_pages, _PAGE_SIZE
        offsets = []
        for node in nodes:
            start -= len(node)
            offsets.append(start)
        lower = HEADER_BYTES + 2 * len(nodes)
        head = PAGE_HEADER.pack(number, 0, kind, lower, start) + struct.pack(f"<{len(nodes)}H", *offsets)
        self.file.write(head + bytes(start - lower) + b"".join(reversed(nodes)))
        self.num_pages += 1
        return number

    def finish(self) -> tuple[int, int]:
        """Write what is left: the number of the root page, and the depth of the tree."""
        if self.nodes:
            self.flush_leaf()
        if not self.children:
            return NO_PAGE, 0
        depth, children = 1, self.children
        while len(children) > 1:
            children = [self.write_branch(part) for part in _split_branches(children)]
            depth += 1
        return children[0][1], depth

    def write_branch(self, children: list[tuple[bytes, int]]) -> tuple[bytes, int]:
        """Write a branch page over these pages: its first key and its number. The first node has no key."""
        nodes = []
        for i, (key, number) in enumerate(children):
            name = key if i else b""
            node = _NODE.pack(number & 0xFFFF, number >> 16 & 0xFFFF, number >> 32, len(name)) + name
            nodes.append(node + b"\0" * (len(node) % 2))
        self.branch_pages += 1
        return children[0][0], self.write_page(BRANCH, nodes)


def _split_branches(children: list[tuple[bytes, int]]) -> list[list[tuple[bytes, int]]]:
    """Children by branch page, at least two on each, as LMDB requires."""
    parts: list[list[tuple[bytes, int]]] = [[]]
    num_bytes = HEADER_BYTES
    for child in children:
        size = 2 + _NODE.size + len(child[0]) + len(child[0]) % 2
        if num_bytes + size > _PAGE_SIZE:
            parts.append([])
            num_bytes = HEADER_BYTES
        parts[-1].append(child)
        num_bytes += size
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-1].insert(0, parts[-2].pop())
    return parts
