"""Reading files that may be damaged or hostile: regular files only, never more bytes than agreed on.

A symbolic link to a device, a pipe or a folder is refused without waiting on it; a compressed stream is inflated
only up to the size its header promised, and may not hold more.
"""

from __future__ import annotations

import os
import stat
import zlib
from functools import cache
from pathlib import Path

from prototorch.errors import DataError, ResourceError

DEFLATE_RATIO = 1100  # deflate cannot expand more than 1032 to 1
MAX_SINGLE_READ = 1 << 30  # bytes that are read by one call where the system gives them at once
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: str | os.PathLike[str], limit: int | None = None) -> bytes | bytearray:
    """All bytes of a regular file of at most ``limit`` bytes (default: what `check_memory` allows).

    Raises:
        DataError: it is missing, unreadable, not a regular file, longer than ``limit``, or changes while it is read.
        ResourceError: it does not fit in memory.
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
        if limit is not None and status.st_size > limit:
            raise DataError(
                f"{printable_path(path)}: has {status.st_size:,} bytes, more than the {limit:,} allowed here"
            )
        check_memory(status.st_size, printable_path(path))
        return _read_exactly(handle, status.st_size, path)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{printable_path(path)}: cannot be read: {error.strerror or error}") from None
    finally:
        os.close(handle)


def read_head(path: str | os.PathLike[str], count: int) -> bytes:
    """The first ``count`` bytes of a regular file (fewer where it is shorter). Raises DataError as `read_file` does."""
    try:
        handle = os.open(path, _FLAGS | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{printable_path(path)}: cannot be opened: {getattr(error, 'strerror', None) or error}"
        ) from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise DataError(f"{printable_path(path)}: is {_describe_mode(mode)}, not a regular file")
        return os.read(handle, count)
    finally:
        os.close(handle)


def _read_exactly(handle: int, size: int, path: str | os.PathLike[str]) -> bytes | bytearray:
    data = os.read(handle, size) if size <= MAX_SINGLE_READ else b""
    if len(data) == size:
        return data
    parts = bytearray(size)
    parts[: len(data)] = data
    with os.fdopen(os.dup(handle), "rb", buffering=0) as file:
        view, done = memoryview(parts), len(data)
        while done < size:
            count = file.readinto(view[done:])
            if not count:
                raise DataError(f"{printable_path(path)}: became shorter while it was read: {done:,} of {size:,} bytes")
            done += count
        view.release()
    return parts


def is_gzip(data: bytes | bytearray) -> bool:
    """Whether the bytes begin as a gzip stream does."""
    return data[:2] == b"\x1f\x8b"


def inflate_head(data: bytes | bytearray, count: int, name: str) -> bytes:
    """The first ``count`` bytes inside a gzip stream. Raises DataError where it is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, count)
    except zlib.error as error:
        raise DataError(f"{name}: damaged gzip stream: {error}") from None


def inflate(data: bytes | bytearray, size: int, name: str) -> bytes:
    """Exactly ``size`` bytes from one gzip member, its checksum verified.

    Raises:
        DataError: damaged, or it holds fewer or more bytes than ``size``, or bytes follow its end.
    """
    if size > DEFLATE_RATIO * len(data):
        raise DataError(f"{name}: its header promises {size:,} bytes, which {len(data):,} compressed bytes cannot hold")
    check_memory(size, name)
    machine = zlib.decompressobj(wbits=31)
    try:
        out = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise DataError(f"{name}: damaged gzip stream: {error}") from None
    if len(out) > size:
        raise DataError(f"{name}: holds more than the {size:,} bytes its header promises")
    if len(out) < size:
        raise DataError(f"{name}: truncated: {len(out):,} of {size:,} bytes")
    if not machine.eof:
        raise DataError(f"{name}: the gzip stream has no end (truncated)")
    if machine.unused_data:
        raise DataError(f"{name}: {len(machine.unused_data):,} bytes follow the end of the gzip stream")
    return out


@cache
def physical_memory() -> int:
    """Bytes of memory in this machine; 2**63 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 63


def check_memory(size: int, name: str) -> None:
    """Refuse what would take more than three quarters of this machine's memory. Raises ResourceError."""
    most = physical_memory() * 3 // 4
    if size > most:
        raise ResourceError(
            f"{name}: needs {size / 2**30:,.1f} GiB of memory to be read; this machine allows {most / 2**30:,.1f} GiB"
        )


def _describe_mode(mode: int) -> str:
    kinds = {
        stat.S_ISDIR: "a folder", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device", stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }  # fmt: skip
    return next((word for test, word in kinds.items() if test(mode)), "something else")


def expand_path(path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` expanded."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise DataError(f"{printable_path(path)}: {error}") from None


def printable_path(path: str | os.PathLike[str]) -> str:
    """A path as text that can always be printed: bytes that are not UTF-8 and control characters are escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
