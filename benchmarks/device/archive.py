"""All results as one archive below a size: long files lose their middle, the longest first."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from pathlib import Path

MAX_BYTES = 15 << 20
#: how much of each file is kept, tried one after another until the archive is small enough
FILE_BYTES = (8 << 20, 2 << 20, 512 << 10, 128 << 10, 32 << 10, 4 << 10)


def shorten(content: bytes, limit: int) -> bytes:
    """At most about ``limit`` bytes: a quarter from the beginning, the rest from the end."""
    if len(content) <= limit:
        return content
    head, tail = content[: limit // 4], content[-(limit - limit // 4) :]
    return head + f"\n... {len(content) - len(head) - len(tail):,} bytes left out ...\n".encode() + tail


def discard(path: Path) -> None:
    """Remove a file that was not written to its end, where that can be done."""
    with contextlib.suppress(OSError):
        path.unlink()


def write_archive(folder: Path, target: Path, max_bytes: int = MAX_BYTES) -> int:
    """Write ``folder`` as ``target`` (tar.gz), which is replaced as a whole; its bytes. Raises OSError where it cannot
    be written."""
    aside = target.with_suffix(".tmp")
    try:
        for limit in FILE_BYTES:
            with tarfile.open(aside, "w:gz", compresslevel=6) as archive:
                for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".tmp"):
                    _add_file(archive, path, str(path.relative_to(folder.parent)), limit)
            if aside.stat().st_size <= max_bytes:
                break
        os.replace(aside, target)
    except OSError:
        discard(aside)
        raise
    return target.stat().st_size


def _add_file(archive: tarfile.TarFile, path: Path, name: str, limit: int) -> None:
    try:
        content, changed = shorten(path.read_bytes(), limit), int(path.stat().st_mtime)
    except FileNotFoundError:  # a step that runs has removed it
        return
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(content), changed
    archive.addfile(info, io.BytesIO(content))
