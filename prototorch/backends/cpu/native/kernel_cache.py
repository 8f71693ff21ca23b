"""Compiled kernels on disk, one file each, for any number of processes at once.

A file is written under a temporary name and then renamed, so that no process reads half of it. It begins with a digest
of its key and content; a file whose digest does not match (truncated, changed, or renamed) is ignored and written
again. It holds nothing but object code and the name of its function.

Files that no process has used for 90 days are removed by one that compiles.

The folder is PROTOTORCH_CACHE, else the user's cache folder; with an empty PROTOTORCH_CACHE nothing is cached. The
folder must belong to the user: code in a folder that others may write to is not run.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from prototorch.errors import FileError

_DIGEST = 32  # bytes of SHA-256 before the content
_SUFFIX, _CHOICE_SUFFIX, TEMP_PREFIX = ".kernel", ".choice", ".unfinished-"
_EVICTION_MARK = "kernels.aged"  # beside the folder; its time is when old files were last removed
DAY, MAX_AGE = 86_400.0, 90 * 86_400.0  # seconds; code that has not been used for longer is removed
CPU_SUFFIX = ".processor"  # LLVM's name and features of this machine


def cache_folder() -> Path | None:
    """The folder of cached code; None where there is none."""
    variable = os.environ.get("PROTOTORCH_CACHE")
    if variable is not None:
        return Path(variable) / "kernels" if variable else None
    user_cache = os.environ.get("XDG_CACHE_HOME")
    if user_cache and sys.platform != "darwin":
        return Path(user_cache) / "prototorch" / "kernels"
    try:
        home = Path.home()
    except RuntimeError:  # a user without an entry, as in a container that runs under a numeric id
        return None
    return home.joinpath(*(("Library", "Caches") if sys.platform == "darwin" else (".cache",)), "prototorch", "kernels")


@cache
def _is_trusted(where: Path) -> bool:
    """Whether a folder belongs to this user (or to root) and nobody else may write to it."""
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        if not where.is_dir():
            return False
    if os.name != "posix":
        return True
    status = where.stat()
    return status.st_uid in (0, os.getuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def usable_folder() -> Path | None:
    """The folder, created where it was missing; None where there is none or it cannot be trusted."""
    where = cache_folder()
    return where if where is not None and _is_trusted(where) else None


def _path(key: bytes, suffix: str = _SUFFIX) -> Path | None:
    where = usable_folder()
    return None if where is None else where / f"{key.hex()}{suffix}"


def contains(key: bytes) -> bool:
    """Whether there is a file for a key."""
    path = _path(key)
    return path is not None and path.exists()


def read(key: bytes, suffix: str = _SUFFIX) -> tuple[str, bytes] | None:
    """The name of the function and the object code; None where there is no intact file."""
    path = _path(key, suffix)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > MAX_AGE / 10:
            os.utime(path)
    content = data[_DIGEST:]
    if hashlib.sha256(key + content).digest() != data[:_DIGEST]:
        return None
    symbol, _, code = content.partition(b"\0")
    return symbol.decode(), code


def write(key: bytes, symbol: str, code: bytes, suffix: str = _SUFFIX) -> None:
    """Cache code. Where that fails nothing is raised: the code is compiled again by another process."""
    path = _path(key, suffix)
    if path is None:
        return
    content = symbol.encode() + b"\0" + code
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=TEMP_PREFIX)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(key + content).digest() + content)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError:
        return


def usage() -> tuple[int, int]:
    """The number of cached kernels, and their bytes."""
    where = usable_folder()
    count = size = 0
    for path in [] if where is None else where.glob(f"*{_SUFFIX}"):
        with suppress(OSError):  # another process has removed it
            size += path.stat().st_size
            count += 1
    return count, size


def evict_unused() -> None:
    """Once a day, remove files that no process has read or written for a long time: code of other versions, mostly."""
    where = usable_folder()
    if where is None:
        return
    mark, now = where.with_name(_EVICTION_MARK), time.time()
    try:
        if now - mark.stat().st_mtime < DAY:
            return
    except FileNotFoundError:
        pass
    try:
        mark.touch()
        with os.scandir(where) as entries:
            old = [e.path for e in entries if e.is_file() and now - e.stat().st_mtime > _max_age(e.name)]
    except OSError:
        return
    for path in old:
        with suppress(OSError):
            os.unlink(path)


def _max_age(name: str) -> float:
    """The seconds after which an unused file of this name is removed."""
    if name.startswith(TEMP_PREFIX):
        return DAY
    return MAX_AGE if name.endswith(_SUFFIX) else float("inf")


def clear() -> int:
    """Remove all files, measured kernel choices too, and return the number of kernels removed.

    Running processes are not affected: their code is loaded.
    """
    where = usable_folder()
    count = 0
    for path in [] if where is None else [*where.glob(f"*{_SUFFIX}"), *where.glob(f"{TEMP_PREFIX}*")]:
        with suppress(OSError):
            path.unlink()
            count += 1
    for path in [] if where is None else [*where.glob(f"*{_CHOICE_SUFFIX}"), *where.glob(f"*{CPU_SUFFIX}")]:
        with suppress(OSError):
            path.unlink()
    return count


def check_writable() -> None:
    """Raise FileError where code cannot be cached, with the reason."""
    where = usable_folder()
    if where is None or not os.access(where, os.W_OK):
        raise FileError(
            f"compiled kernels cannot be cached ({describe()}); set PROTOTORCH_CACHE to a folder that can be written to"
        )


def describe() -> str:
    """The folder of cached code and its size, or why there is none."""
    where = cache_folder()
    if where is None:
        empty = os.environ.get("PROTOTORCH_CACHE") is not None
        return "nowhere (PROTOTORCH_CACHE is empty)" if empty else "nowhere (no home folder; set PROTOTORCH_CACHE)"
    if usable_folder() is None:
        return f"none: {where} cannot be created, or others may write to it"
    count, size = usage()
    usage_text = f"{where}: {count} kernels, {size / 1e6:.1f} MB"
    return usage_text if os.access(where, os.W_OK) else f"{usage_text}; not writable"
