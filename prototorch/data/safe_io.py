"""Safe reading of files that may be damaged or hostile: regular files only, with a limit on the bytes read.

A symbolic link to a device, a pipe or a folder is refused without blocking on it. A compressed stream is inflated
only up to the size that its header declares; more data is an error.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from prototorch.base.terminal import escape_line
from prototorch.errors import DataError, ResourceError

__all__ = [
    "DEFLATE_RATIO",
    "check_memory",
    "decode_text",
    "expand_path",
    "inflate",
    "inflate_head",
    "is_gzip",
    "open_file",
    "physical_memory",
    "printable_path",
    "read_file",
    "read_head",
    "read_lines",
    "read_text_bytes",
]

DEFLATE_RATIO = 1100  # deflate cannot expand more than 1032 to 1
MAX_SINGLE_READ = 1 << 30  # bytes read by one system call; larger files are read in several
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[tuple[int, int]]:
    """Open a regular file for reading: (file descriptor, size in bytes). An error of the system becomes a DataError.

    Raises:
        DataError: the file is missing, unreadable, or not a regular file.
    """
    try:
        handle = os.open(path, _FLAGS | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise DataError(f"{printable_path(path)}: cannot be opened: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise DataError(f"{str(path)!r}: cannot be opened: {error}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{printable_path(path)}: is {_describe_mode(status.st_mode)}, not a regular file")
        yield handle, status.st_size
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{printable_path(path)}: cannot be read: {error.strerror or error}") from None
    finally:
        os.close(handle)


def read_file(path: str | os.PathLike[str], limit: int | None = None) -> bytes | bytearray:
    """All bytes of a regular file of at most ``limit`` bytes (default: what `check_memory` allows).

    Raises:
        DataError: the file is missing, unreadable, not regular, longer than ``limit``, or shrinks while it is read.
        ResourceError: the file does not fit in memory.
    """
    with open_file(path) as (handle, size):
        if limit is not None and size > limit:
            raise DataError(f"{printable_path(path)}: has {size:,} bytes, the limit is {limit:,}")
        check_memory(size, printable_path(path))
        return _read_exactly(handle, size, path)


def read_lines(path: str | os.PathLike[str], longest: int, limit: int | None = None) -> bytes | bytearray:
    """The bytes of a text file (see `read_file`), whose lines have at most ``longest`` bytes.

    Raises:
        DataError: as `read_file`, and for a longer line, with its number. Of a longer first line no more is read.
    """
    if b"\n" not in (head := read_head(path, longest + 1)) and len(head) > longest:
        raise _line_error(path, 1, longest)
    return _check_lines(path, read_file(path, limit), longest)


def _check_lines(path: str | os.PathLike[str], data: bytes | bytearray, longest: int) -> bytes | bytearray:
    """The bytes, whose lines have at most ``longest``."""
    start = 0
    while len(data) - start > longest:
        end = data.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            raise _line_error(path, data.count(b"\n", 0, start) + 1, longest)
        start = end + 1
    return data


def read_text_bytes(path: str | os.PathLike[str], longest: int) -> bytes | bytearray:
    """As `read_lines`; of a file that is compressed by gzip what it holds.

    Raises DataError also for a damaged stream, and for one of several members or of 4 GiB.
    """
    if not is_gzip(read_head(path, 2)):
        return read_lines(path, longest)
    data, name = read_file(path), printable_path(path)
    return _check_lines(path, inflate(data, int.from_bytes(data[-4:], "little"), name), longest)


def decode_text(data: bytes | bytearray, name: str) -> str:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark. Raises DataError for other bytes, with the line."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = bytes(data[: error.start]).count(b"\n") + 1
        what = "UTF-16" if encoding == "utf-16" else "UTF-8"
        hint = "; save it as UTF-8, in Excel as CSV UTF-8" if encoding != "utf-16" else ""
        raise DataError(f"{name}, line {line}: is not {what} text (byte {error.start}){hint}") from None


def _line_error(path: str | os.PathLike[str], line: int, longest: int) -> DataError:
    return DataError(f"{printable_path(path)}, line {line}: is longer than {longest:,} bytes; is this a text file?")


def read_head(path: str | os.PathLike[str], count: int) -> bytes:
    """The first ``count`` bytes of a regular file (fewer if it is shorter). Raises DataError as `read_file` does."""
    with open_file(path) as (handle, _):
        return os.read(handle, count)


def _read_exactly(handle: int, size: int, path: str | os.PathLike[str]) -> bytes | bytearray:
    data = os.read(handle, size) if size <= MAX_SINGLE_READ else b""
    if len(data) == size:
        return data
    buffer = bytearray(size)
    buffer[: len(data)] = data
    with os.fdopen(os.dup(handle), "rb", buffering=0) as file:
        view, offset = memoryview(buffer), len(data)
        while offset < size:
            count = file.readinto(view[offset:])
            if not count:
                raise DataError(f"{printable_path(path)}: truncated while being read: got {offset:,} of {size:,} bytes")
            offset += count
        view.release()
    return buffer


def is_text(head: bytes) -> bool:
    """Whether the first bytes of a file are UTF-8 text without control characters."""
    text = head.decode("utf-8-sig", "ignore")
    num_lost = len(head) - len(text.encode()) - 3 * head.startswith(b"\xef\xbb\xbf")
    return bool(text) and num_lost < 4 and all(c.isprintable() or c in "\t\r\n" for c in text)


def is_gzip(data: bytes | bytearray) -> bool:
    """Whether the bytes start with the signature of gzip."""
    return data[:2] == b"\x1f\x8b"


def inflate_head(data: bytes | bytearray, count: int, name: str) -> bytes:
    """The first ``count`` decompressed bytes of a gzip stream. Raises DataError if the stream is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, count)
    except zlib.error as error:
        raise DataError(f"{name}: damaged gzip stream: {error}") from None


def inflate(data: bytes | bytearray, size: int, name: str) -> bytes:
    """Decompress one gzip member of exactly ``size`` bytes and verify its checksum.

    Raises:
        DataError: the stream is damaged, has fewer or more bytes than ``size``, or bytes follow its end.
    """
    if size > DEFLATE_RATIO * len(data):
        raise DataError(
            f"{name}: its header declares {size:,} bytes, more than {len(data):,} compressed bytes can expand to; "
            "is it cut off?"
        )
    check_memory(size, name)
    decompressor = zlib.decompressobj(wbits=31)
    try:
        out = decompressor.decompress(data, size + 1)
    except zlib.error as error:
        raise DataError(f"{name}: damaged gzip stream: {error}") from None
    if len(out) > size:
        raise DataError(f"{name}: more than the {size:,} bytes that its header declares")
    if len(out) < size:
        raise DataError(f"{name}: truncated: got {len(out):,} of {size:,} bytes")
    if not decompressor.eof:
        raise DataError(f"{name}: the gzip stream is truncated")
    if decompressor.unused_data:
        raise DataError(f"{name}: {len(decompressor.unused_data):,} bytes follow the end of the gzip stream")
    return out


@cache
def physical_memory() -> int:
    """Bytes of memory in this machine; 2**63 if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 63


def check_memory(size: int, name: str) -> None:
    """Raise ResourceError if ``size`` bytes exceed three quarters of this machine's memory."""
    limit = physical_memory() * 3 // 4
    if size > limit:
        raise ResourceError(
            f"{name}: needs {size / 2**30:,.1f} GiB of memory to be read; "
            f"the limit on this machine is {limit / 2**30:,.1f} GiB"
        )


def _describe_mode(mode: int) -> str:
    kinds = {
        stat.S_ISDIR: "a folder",
        stat.S_ISCHR: "a device",
        stat.S_ISBLK: "a device",
        stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((kind for has_kind, kind in kinds.items() if has_kind(mode)), "a special file")


def expand_path(path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` expanded. Raises DataError if there is no home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise DataError(f"{printable_path(path)}: {error}") from None


def printable_path(path: str | os.PathLike[str]) -> str:
    """A path as text that can always be printed: bytes that are not UTF-8 and control characters are escaped."""
    return escape_line(os.fsencode(path).decode("utf-8", "backslashreplace"))
