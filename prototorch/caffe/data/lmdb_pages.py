"""The pages of an LMDB file: what LMDB 0.9 writes on 64-bit little-endian machines, read and written here.

Source: the layout of ``MDB_page``, ``MDB_meta``, ``MDB_db`` and ``MDB_node`` in LMDB's mdb.c. Page 0 and 1 are the two
meta pages, of which the one with the larger transaction id is valid. The records are the leaves of a B+ tree; a value
that does not fit beside a second node lies on overflow pages of its own, which follow each other.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = [
    "BIG_DATA",
    "BRANCH",
    "HEADER_BYTES",
    "LEAF",
    "META_BYTES",
    "NO_PAGE",
    "OVERFLOW",
    "PAGE_HEADER",
    "MetaPage",
    "format_meta",
    "parse_meta",
]

MAGIC, VERSION = 0xBEEFC0DE, 1
NO_PAGE = (1 << 64) - 1
HEADER_BYTES = 16
BRANCH, LEAF, OVERFLOW, META = 0x01, 0x02, 0x04, 0x08  # flags of a page
BIG_DATA = 0x01  # flag of a node: its value lies on overflow pages
PAGE_HEADER = struct.Struct("<QHHHH")  # number, padding, flags, end of the pointers, start of the nodes
META_HEAD = struct.Struct("<IIQQ")  # magic, version, address, map size
DATABASE = struct.Struct("<IHHQQQQQ")  # page size, flags, depth, branch, leaf and overflow pages, entries, root
META_TAIL = struct.Struct("<QQ")  # last page, transaction id
META_BYTES = HEADER_BYTES + META_HEAD.size + 2 * DATABASE.size + META_TAIL.size
_INTEGER_KEYS = 0x08  # flag of the database of free pages
_PAGE_SIZES = tuple(1 << bits for bits in range(8, 17))


@dataclass(frozen=True)
class MetaPage:
    """A meta page: the page size in bytes, the transaction, the last page, and of the main database the flags, the
    depth of the tree, the numbers of its pages by kind, of its entries, and of the root page."""

    page_size: int
    transaction: int
    last_page: int
    flags: int = 0
    depth: int = 0
    branch_pages: int = 0
    leaf_pages: int = 0
    overflow_pages: int = 0
    num_entries: int = 0
    root: int = NO_PAGE


def parse_meta(page: bytes) -> MetaPage | str:
    """The meta page that begins with these bytes; a text that says what is wrong where it is none."""
    if len(page) < META_BYTES:
        return f"{len(page):,} bytes are too few for a page"
    _, _, flags, _, _ = PAGE_HEADER.unpack_from(page)
    magic, version, _, _ = META_HEAD.unpack_from(page, HEADER_BYTES)
    if magic != MAGIC or not flags & META:
        return "it does not begin with a meta page of LMDB on a 64-bit little-endian machine"
    if version != VERSION:
        return f"its data version is {version}, expected {VERSION} (LMDB 0.9)"
    start = HEADER_BYTES + META_HEAD.size
    page_size = DATABASE.unpack_from(page, start)[0]
    _, *database = DATABASE.unpack_from(page, start + DATABASE.size)
    last_page, transaction = META_TAIL.unpack_from(page, start + 2 * DATABASE.size)
    if page_size not in _PAGE_SIZES:
        return f"a page size of {page_size:,} bytes"
    return MetaPage(page_size, transaction, last_page, *database)


def format_meta(number: int, meta: MetaPage) -> bytes:
    """The bytes of a meta page, with its number, 0 or 1."""
    map_size = max(1 << 20, (meta.last_page + 1) * meta.page_size)
    main = (
        meta.flags,
        meta.depth,
        meta.branch_pages,
        meta.leaf_pages,
        meta.overflow_pages,
        meta.num_entries,
        meta.root,
    )
    page = b"".join((
        PAGE_HEADER.pack(number, 0, META, 0, 0),
        META_HEAD.pack(MAGIC, VERSION, 0, map_size),
        DATABASE.pack(meta.page_size, _INTEGER_KEYS, 0, 0, 0, 0, 0, NO_PAGE),  # free pages: none
        DATABASE.pack(0, *main),
        META_TAIL.pack(meta.last_page, meta.transaction),
    ))  # fmt: skip
    return page.ljust(meta.page_size, b"\0")
