"""Reader of LMDB files that are not trusted: pages are read with bounds, and the file is never mapped.

LMDB's own library maps the file, so that a truncated one ends the process (SIGBUS), and follows page numbers without
checks. Here each page is read at its offset and checked, visited once, and a value must lie within the file.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from prototorch.caffe.data.lmdb_pages import (
    BIG_DATA,
    BRANCH,
    HEADER_BYTES,
    LEAF,
    META_BYTES,
    NO_PAGE,
    OVERFLOW,
    PAGE_HEADER,
    MetaPage,
    parse_meta,
)
from prototorch.caffe.data.record_database import RecordDatabase
from prototorch.data.safe_io import open_file, printable_path, read_head
from prototorch.errors import DataError

__all__ = ["LMDBReader", "find_lmdb_file"]

_FILE_NAME = "data.mdb"
_MAX_DEPTH = 64
_NODE_HEADER = 8
_DUPLICATE_KEYS = 0x04  # flag of a database: one key may have several values


def find_lmdb_file(path: Path) -> Path | None:
    """The file of the LMDB at a path, which is its folder or the file itself; None where there is none.

    Raises DataError for a file that cannot be read.
    """
    if path.is_dir():
        return path / _FILE_NAME if os.path.lexists(path / _FILE_NAME) else None
    return path if isinstance(parse_meta(read_head(path, META_BYTES)), MetaPage) else None


class LMDBReader(RecordDatabase):
    """The records of an LMDB file. Raises DataError for a file that is missing, damaged, or has named databases.

    file: see `find_lmdb_file`. The file must not be written to while it is open.
    """

    format = "LMDB"

    def __init__(self, file: Path):
        self.path = printable_path(file.parent if file.name == _FILE_NAME else file)
        self._lock = threading.Lock()
        with open_file(file) as (handle, self._size):
            self._file = os.fdopen(os.dup(handle), "rb", buffering=0)
        try:
            self._meta = self._find_meta()
        except DataError:
            self.close()
            raise
        self._page_size = self._meta.page_size
        self._num_pages = -(-self._size // self._page_size)
        self._index: tuple[np.ndarray, np.ndarray, list[bytes]] | None = None  # offsets, sizes, keys

    def records(self, first: int = 0) -> Iterator[tuple[bytes, bytes]]:
        number = 0
        for offsets, sizes, keys in self._iter_leaves():
            if number + len(keys) > first:
                for i in range(max(0, first - number), len(keys)):
                    yield keys[i], self._read(int(offsets[i]), int(sizes[i]))
            number += len(keys)

    def keys(self) -> Sequence[bytes]:
        return self._load_index()[2]

    def value(self, index: int) -> bytes:
        offsets, sizes, _ = self._load_index()
        return self._read(int(offsets[index]), int(sizes[index]))

    def close(self) -> None:
        self._file.close()

    def _find_meta(self) -> MetaPage:
        first = parse_meta(self._read(0, min(META_BYTES, self._size)))
        if isinstance(first, str):
            raise DataError(f"{self.path}: {first}")
        count = max(0, min(META_BYTES, self._size - first.page_size))
        second = parse_meta(self._read(first.page_size, count))
        if isinstance(second, str):
            raise DataError(f"{self.path}: its second meta page is damaged: {second}")
        if second.page_size != first.page_size:
            raise DataError(f"{self.path}: its two meta pages have page sizes {first.page_size} and {second.page_size}")
        newest = second if second.transaction > first.transaction else first
        if newest.flags & _DUPLICATE_KEYS:
            raise DataError(f"{self.path}: an LMDB whose keys have several values; Caffe's have one")
        return newest

    def _read(self, offset: int, count: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            data = self._file.read(count)
        if len(data) < count:
            raise DataError(
                f"{self.path}: is truncated: {count:,} bytes at {offset:,} are not within its {self._size:,} bytes"
            )
        return data

    def _iter_leaves(self) -> Iterator[tuple[np.ndarray, np.ndarray, list[bytes]]]:
        """For each leaf page in the order of the keys: offsets and sizes of the values in the file, and the keys."""
        if self._meta.root == NO_PAGE:
            return
        visited = np.zeros(self._num_pages, np.bool_)
        total = 0  # bytes of all values so far: no two share bytes
        stack = [(self._meta.root, 1)]
        while stack:
            number, depth = stack.pop()
            if not 1 < number < self._num_pages or depth > _MAX_DEPTH or visited[number]:
                raise self._damage(number, "is outside of the file, or part of the tree twice")
            visited[number] = True
            page = self._read(number * self._page_size, self._page_size)
            own_number, _, flags, lower, _ = PAGE_HEADER.unpack_from(page)
            if own_number != number or flags & (LEAF | BRANCH) not in (LEAF, BRANCH):
                raise self._damage(number, "is not a page of the tree")
            nodes = self._node_offsets(page, number, lower)
            if flags & BRANCH:
                stack += [(child, depth + 1) for child in reversed(_children(page, nodes))]
                continue
            offsets, sizes, keys = self._leaf(page, number, nodes)
            total += int(sizes.sum())
            if total > self._size:
                raise self._damage(number, "has values that overlap with others")
            yield offsets, sizes, keys

    def _node_offsets(self, page: bytes, number: int, lower: int) -> np.ndarray:
        """Where the nodes of a page start in it."""
        if lower % 2 or not HEADER_BYTES <= lower <= self._page_size:
            raise self._damage(number, "has a damaged header")
        starts = np.frombuffer(page, "<u2", (lower - HEADER_BYTES) // 2, HEADER_BYTES).astype(np.int64)
        if len(starts) and not (lower <= starts.min() and starts.max() + _NODE_HEADER <= self._page_size):
            raise self._damage(number, "has a node outside of it")
        key_sizes = _u2(page, starts + 6)
        if len(starts) and (starts + _NODE_HEADER + key_sizes).max() > self._page_size:
            raise self._damage(number, "has a key outside of it")
        return starts

    def _leaf(self, page: bytes, number: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
        sizes = _u2(page, nodes) | _u2(page, nodes + 2) << 16
        flags, key_sizes = _u2(page, nodes + 4), _u2(page, nodes + 6)
        keys_at = nodes + _NODE_HEADER
        keys = [page[start : start + count] for start, count in zip(keys_at.tolist(), key_sizes.tolist(), strict=True)]
        in_page = keys_at + key_sizes
        if (flags & ~BIG_DATA).any():
            raise DataError(f"{self.path}: holds named databases; Caffe's has one without a name")
        is_big = flags & BIG_DATA != 0
        sizes_in_page = np.where(is_big, 8, sizes)
        if len(nodes) and (in_page + sizes_in_page).max() > self._page_size:
            raise self._damage(number, "has a value outside of it")
        offsets = number * self._page_size + in_page
        for i in np.flatnonzero(is_big).tolist():
            offsets[i] = self._overflow_offset(struct.unpack_from("<Q", page, int(in_page[i]))[0], int(sizes[i]))
        return offsets, sizes, keys

    def _overflow_offset(self, number: int, size: int) -> int:
        """Where the value on the overflow pages from this one on starts in the file."""
        if not 1 < number < self._num_pages:
            raise self._damage(number, "is outside of the file")
        start = number * self._page_size
        if start + HEADER_BYTES + size > self._size:
            raise DataError(
                f"{self.path}: is truncated: a value of {size:,} bytes at {start:,} is not within its "
                f"{self._size:,} bytes"
            )
        own_number, _, flags, _, _ = PAGE_HEADER.unpack(self._read(start, HEADER_BYTES))
        if own_number != number or not flags & OVERFLOW:
            raise self._damage(number, "is not an overflow page")
        return start + HEADER_BYTES

    def _load_index(self) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
        if self._index is None:
            leaves = list(self._iter_leaves())
            empty = np.zeros(0, np.int64)
            offsets = np.concatenate([empty, *(leaf[0] for leaf in leaves)])
            sizes = np.concatenate([empty, *(leaf[1] for leaf in leaves)])
            self._index = offsets, sizes, [key for leaf in leaves for key in leaf[2]]
        return self._index

    def _damage(self, number: int, reason: str) -> DataError:
        return DataError(f"{self.path}: is damaged: page {number:,} {reason}")


def _u2(page: bytes, offsets: np.ndarray) -> np.ndarray:
    """The 16-bit numbers at these offsets of a page."""
    data = np.frombuffer(page, np.uint8).astype(np.int64)
    return data[offsets] | data[offsets + 1] << 8


def _children(page: bytes, nodes: np.ndarray) -> list[int]:
    """The page numbers in the nodes of a branch page."""
    children: list[int] = (_u2(page, nodes) | _u2(page, nodes + 2) << 16 | _u2(page, nodes + 4) << 32).tolist()
    return children
