"""Compiled kernels on disk, one file each, for any number of processes at once.

A file holds nothing but object code and the name of its function. `prototorch.engine.backends.user_cache` writes it
whole or not at all, and reads what this user has written only: anything else is ignored and compiled again.

Files that no process has used for 90 days are removed by one that compiles.
"""

from __future__ import annotations

import os
import time

from prototorch.engine.backends.user_cache import TEMP_PREFIX, cache_folder, refusal_reason, usable_folder
from prototorch.errors import FileError

_SUFFIX, CHOICE_SUFFIX = ".code", ".fastest"  # other than before: several versions may share a folder
CPU_SUFFIX = ".cpu"  # LLVM's name and features of this machine
_EVICTION_MARK = ".evicted"  # its time is when old files were last removed
DAY, MAX_AGE = 86_400.0, 90 * 86_400.0  # seconds; code that has not been used for longer is removed


def contains(key: bytes) -> bool:
    """Whether there is a file for a key."""
    folder = usable_folder()
    return folder is not None and folder.contains(key.hex() + _SUFFIX)


def read(key: bytes, suffix: str = _SUFFIX) -> tuple[str, bytes] | None:
    """The name of the function and the object code; None where there is no intact file."""
    folder = usable_folder()
    content = None if folder is None else folder.read(key.hex() + suffix, max_idle=MAX_AGE / 10)
    if content is None:
        return None
    symbol, _, code = content.partition(b"\0")
    return symbol.decode(), code


def write(key: bytes, symbol: str, code: bytes, suffix: str = _SUFFIX) -> None:
    """Cache code. Where that fails nothing is raised: the code is compiled again by another process."""
    folder = usable_folder()
    if folder is not None:
        folder.write(key.hex() + suffix, symbol.encode() + b"\0" + code)


def usage() -> tuple[int, int]:
    """The number of cached kernels, and their bytes."""
    folder = usable_folder()
    sizes = [] if folder is None else [s.st_size for name, s in folder.entries().items() if name.endswith(_SUFFIX)]
    return len(sizes), sum(sizes)


def evict_unused() -> None:
    """Once a day, remove files that no process has read or written for a long time: code of other versions, mostly."""
    folder, now = usable_folder(), time.time()
    if folder is None or now - folder.time_of(_EVICTION_MARK) < DAY:
        return
    folder.touch(_EVICTION_MARK)
    for name, status in folder.entries().items():
        if now - status.st_mtime > _max_age(name):
            folder.remove(name)


def _max_age(name: str) -> float:
    """The seconds after which an unused file of this name is removed."""
    if name.startswith(TEMP_PREFIX):
        return DAY
    return float("inf") if name.startswith(".") or name.endswith((CHOICE_SUFFIX, CPU_SUFFIX, ".json")) else MAX_AGE


def clear() -> int:
    """Remove all files, measured kernel choices too, and return the number of kernels removed.

    Running processes are not affected: their code is loaded.
    """
    folder = usable_folder()
    if folder is None:
        return 0
    names = list(folder.entries())
    for name in names:
        if name.endswith((CHOICE_SUFFIX, CPU_SUFFIX)):
            folder.remove(name)
    return sum(folder.remove(name) for name in names if name.endswith(_SUFFIX) or name.startswith(TEMP_PREFIX))


def check_writable() -> None:
    """Raise FileError where code cannot be cached, with the reason."""
    folder = usable_folder()
    if folder is None or not folder.is_writable():
        raise FileError(
            f"compiled kernels cannot be cached ({describe()}); set PROTOTORCH_CACHE to a folder that can be written to"
        )


def describe() -> str:
    """The folder of cached code and its size, or why there is none."""
    path = cache_folder()
    if path is None:
        empty = os.environ.get("PROTOTORCH_CACHE") is not None
        return "nowhere (PROTOTORCH_CACHE is empty)" if empty else "nowhere (no home folder; set PROTOTORCH_CACHE)"
    folder = usable_folder()
    if folder is None:
        return f"none: {path} is not used: {refusal_reason(path)}"
    count, size = usage()
    usage_text = f"{path}: {count} kernels, {size / 1e6:.1f} MB"
    return usage_text if folder.is_writable() else f"{usage_text}; not writable"
