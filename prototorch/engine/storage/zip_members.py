"""The members of a zip archive that may be hostile, found by `zipfile` and checked before any of them is read.

Checked are the size of the directory, the names (no duplicates, no ``..``, not absolute), that each member's own header
agrees with the directory, that members do not overlap, and that sizes are possible. Members that are stored without
compression can be mapped into memory.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from prototorch.data.safe_io import DEFLATE_RATIO
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.tree_paths import find_path_error
from prototorch.errors import ModelFileError

__all__ = ["ZipMember", "check_crc", "inflate_start", "read_member", "zip_members"]

MAX_MEMBERS = 100_000
MAX_DIRECTORY_BYTES = 16 << 20
_LOCAL_HEADER_BYTES = 30
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class ZipMember:
    """A member: the ``offset`` of its bytes in the file, how many there are (``stored_size``) and how many after
    decompression (``size``), its CRC-32."""

    name: str
    offset: int
    stored_size: int
    size: int
    crc: int
    is_compressed: bool


def zip_members(file: MappedFile) -> dict[str, ZipMember]:
    """The members of an archive by name, in the directory's order; folders are left out. Raises ModelFileError."""
    try:
        infos = zipfile.ZipFile(_DirectoryReads(file)).infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError, RuntimeError) as error:
        raise ModelFileError(f"{file.path}: damaged zip archive: {error!s:.200}") from None
    if len(infos) > MAX_MEMBERS:
        raise ModelFileError(f"{file.path}: {len(infos):,} members; the limit is {MAX_MEMBERS:,}")
    members: dict[str, ZipMember] = {}
    ranges = []
    for info in infos:
        member = _check_member(file, info)
        if member.name in members:
            raise ModelFileError(f"{file.path}: member {member.name[:100]!r} occurs twice")
        members[member.name] = member
        ranges.append((info.header_offset, member.offset + member.stored_size, member.name))
    end = 0
    for begin, next_end, name in sorted(ranges):
        if begin < end:
            raise ModelFileError(f"{file.path}: member {name[:100]!r} overlaps with another one")
        end = next_end
    return {name: member for name, member in members.items() if not name.endswith("/")}


def read_member(file: MappedFile, member: ZipMember, limit: int) -> memoryview:
    """The bytes of a member of at most ``limit`` bytes, its checksum verified; a view of the file where it is stored
    without compression. Raises ModelFileError."""
    where = f"{file.path}, member {member.name[:100]!r}"
    if member.size > limit:
        raise ModelFileError(f"{where}: has {member.size:,} bytes; the limit is {limit:,}")
    if not member.is_compressed:
        check_crc(file, member)
        return file.data[member.offset : member.offset + member.stored_size]
    content = bytearray(member.size)
    size = 0
    for block in _inflate(file, member):
        if size + len(block) > member.size:
            raise ModelFileError(f"{where}: damaged: more than the {member.size:,} bytes that are declared")
        content[size : size + len(block)] = block
        size += len(block)
    if size != member.size:
        raise ModelFileError(f"{where}: damaged: expected {member.size:,} bytes, found {size:,}")
    if member.crc and zlib.crc32(content) != member.crc:
        raise ModelFileError(f"{where}: damaged: its checksum is wrong")
    return memoryview(content).toreadonly()


def inflate_start(file: MappedFile, member: ZipMember, count: int) -> bytes:
    """The first ``count`` bytes of a compressed member. Raises ModelFileError."""
    start = b""
    for block in _inflate(file, member):
        start += block
        if len(start) >= count:
            break
    return start[:count]


def _inflate(file: MappedFile, member: ZipMember) -> Iterator[bytes]:
    """The decompressed bytes of a member, in blocks of at most 1 MiB."""
    decompressor = zlib.decompressobj(wbits=-15)
    end = member.offset + member.stored_size
    try:
        for start in range(member.offset, end, _BLOCK_BYTES):
            rest: memoryview | bytes = file.data[start : min(start + _BLOCK_BYTES, end)]
            while len(rest):
                yield decompressor.decompress(rest, _BLOCK_BYTES)
                rest = decompressor.unconsumed_tail
                if decompressor.eof:
                    break
        while block := decompressor.decompress(b"", _BLOCK_BYTES):
            yield block
        is_whole = decompressor.eof and not decompressor.unused_data
    except zlib.error as error:
        raise ModelFileError(f"{file.path}, member {member.name[:100]!r}: damaged: {error}") from None
    if not is_whole:
        raise ModelFileError(f"{file.path}, member {member.name[:100]!r}: damaged: its compressed bytes are truncated")


def check_crc(file: MappedFile, member: ZipMember) -> None:
    """Raise ModelFileError unless the stored bytes have the CRC-32 of the directory; 0 stands for none, as PyTorch
    writes it after ``torch.serialization.set_crc32_options(False)``."""
    if member.crc and zlib.crc32(file.data[member.offset : member.offset + member.stored_size]) != member.crc:
        raise ModelFileError(f"{file.path}, member {member.name[:100]!r}: damaged: its checksum is wrong")


def _check_member(file: MappedFile, info: zipfile.ZipInfo) -> ZipMember:
    name = info.orig_filename
    where = f"{file.path}, member {name[:100]!r}"
    if problem := find_path_error(name.removesuffix("/")):
        raise ModelFileError(f"{where}: its name {problem}")
    if info.flag_bits & 0x41:
        raise ModelFileError(f"{where}: is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelFileError(f"{where}: compression method {info.compress_type} is not supported; expected deflate")
    header = file.read(info.header_offset, _LOCAL_HEADER_BYTES, f"member {name[:100]!r}")
    if header[:4] != b"PK\x03\x04" or int.from_bytes(header[8:10], "little") != info.compress_type:
        raise ModelFileError(f"{where}: damaged: its header is not that of the directory")
    name_bytes, extra_bytes = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    offset = info.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
    local_name = file.read(info.header_offset + _LOCAL_HEADER_BYTES, name_bytes, f"member {name[:100]!r}")
    if local_name not in (name.encode("utf-8", "replace"), name.encode("cp437", "replace")):
        raise ModelFileError(f"{where}: damaged: its header names {local_name[:100]!r}")
    file.check_range(offset, info.compress_size, f"member {name[:100]!r}")
    is_compressed = info.compress_type == zipfile.ZIP_DEFLATED
    if not is_compressed and info.compress_size != info.file_size:
        raise ModelFileError(f"{where}: damaged: {info.compress_size:,} bytes stored, {info.file_size:,} declared")
    if info.file_size > DEFLATE_RATIO * max(info.compress_size, 1):
        raise ModelFileError(f"{where}: {info.compress_size:,} compressed bytes cannot expand to {info.file_size:,}")
    return ZipMember(name, offset, info.compress_size, info.file_size, info.CRC, is_compressed)


class _DirectoryReads(io.RawIOBase):
    """The mapped file for `zipfile`, which reads the whole directory at once: a huge one is refused."""

    def __init__(self, file: MappedFile):
        self._data, self._position = file.data, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._data)}[whence]
        if base + offset < 0:
            raise ValueError("negative position")
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        rest = max(len(self._data) - self._position, 0)
        count = rest if size is None or size < 0 else min(size, rest)
        if max(count, size or 0) > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"a directory of {max(count, size or 0):,} bytes")
        start = self._position
        self._position += count
        return bytes(self._data[start : start + count])
