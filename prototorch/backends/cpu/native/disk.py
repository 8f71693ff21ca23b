"""Compiled kernels on disk, one file each, for any number of processes at once.

Files are written whole under another name and then renamed, so that nobody sees half of one. Each begins with a digest
of its key and content: what does not match (it was cut off, changed, or put there under another name) is as if it were
not there, and is made again. A file is never anything but object code and the name of its function.

The folder is PROTOTORCH_CACHE, else the user's cache folder; an empty PROTOTORCH_CACHE keeps nothing. It is the user's
alone: code in a folder that others may write to is not run.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

_DIGEST = 32  # bytes of SHA-256 before the content
_SUFFIX, _CHOICE, UNFINISHED = ".kernel", ".choice", ".unfinished-"
PROCESSOR = ".processor"  # what LLVM said of this machine


def folder() -> Path | None:
    """Where code is kept; None where nowhere."""
    said = os.environ.get("PROTOTORCH_CACHE")
    if said is not None:
        return Path(said) / "kernels" if said else None
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "prototorch" / "kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prototorch" / "kernels"


@cache
def _trusted(where: Path) -> bool:
    """Whether a folder can be used: it is this user's (or the administrator's) and nobody else may write to it."""
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        if not where.is_dir():
            return False
    if os.name != "posix":
        return True
    found = where.stat()
    return found.st_uid in (0, os.getuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def usable() -> Path | None:
    """The folder, made where it was missing; None where there is none or it cannot be trusted."""
    where = folder()
    return where if where is not None and _trusted(where) else None


def _path(key: bytes, suffix: str = _SUFFIX) -> Path | None:
    where = usable()
    return None if where is None else where / f"{key.hex()}{suffix}"


def there(key: bytes) -> bool:
    """Whether there is a file for a key."""
    path = _path(key)
    return path is not None and path.exists()


def read(key: bytes, suffix: str = _SUFFIX) -> tuple[str, bytes] | None:
    """The name of the function and the object code; None where there is none that is whole."""
    path = _path(key, suffix)
    if path is None:
        return None
    try:
        held = path.read_bytes()
    except OSError:
        return None
    content = held[_DIGEST:]
    if hashlib.sha256(key + content).digest() != held[:_DIGEST]:
        return None
    symbol, _, code = content.partition(b"\0")
    return symbol.decode(), code


def write(key: bytes, symbol: str, code: bytes, suffix: str = _SUFFIX) -> None:
    """Keep code. Where that cannot be done, nothing happens: it only costs time later."""
    path = _path(key, suffix)
    if path is None:
        return
    content = symbol.encode() + b"\0" + code
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
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


def held() -> tuple[int, int]:
    """How many files there are, and how many bytes."""
    where = usable()
    sizes = [] if where is None else [p.stat().st_size for p in where.glob(f"*{_SUFFIX}")]
    return len(sizes), sum(sizes)


def clear() -> int:
    """Remove all files; how many kernels these were. Measured choices go too.

    Processes that run keep the code they have.
    """
    where = usable()
    count = 0
    for path in [] if where is None else [*where.glob(f"*{_SUFFIX}"), *where.glob(f"{UNFINISHED}*")]:
        with suppress(OSError):
            path.unlink()
            count += 1
    for path in [] if where is None else [*where.glob(f"*{_CHOICE}"), *where.glob(f"*{PROCESSOR}")]:
        with suppress(OSError):
            path.unlink()
    return count


def told() -> str:
    """Where code is kept and how much, or why it is not."""
    where = folder()
    if where is None:
        return "nowhere (PROTOTORCH_CACHE is empty)"
    if usable() is None:
        return f"none: {where} cannot be made, or others may write to it"
    count, size = held()
    kept = f"{where}: {count} kernels, {size / 1e6:.1f} MB"
    return kept if os.access(where, os.W_OK) else f"{kept}; it cannot be written to"
