"""Where downloaded files are kept: ``HOME/weights/HOST/PATH``, as a mirror has them, each with a record beside it.

HOME is PROTOTORCH_HOME, else ``prototorch`` in the platform's cache folder. A record holds the address, the SHA-256 of
what was downloaded first, and the size and time of the file whose digest was verified, so that it need not be read
again. Records stay when files are removed: what is downloaded later is compared with them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from prototorch.data.safe_io import read_head
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import DataError, FileError, UsageError
from prototorch.interop.downloads.digests import sha256_of_text

__all__ = ["PARTIAL", "DownloadRecord", "cached_files", "home_folder", "path_of_address", "read_record", "record_path",
           "relative_path", "weights_folder", "write_record"]  # fmt: skip

PARTIAL = ".part"  # the ending of a file that is not complete
_RECORD_BYTES = 1 << 14
_MAX_PART_LENGTH = 150  # characters of a part of a path


@dataclass(frozen=True)
class DownloadRecord:
    """What is known of a file. sha256: of the first download. is_published: whether the digest was compared with one
    that its publisher declares. size in bytes, modified in nanoseconds: of the verified file."""

    address: str
    sha256: str
    is_published: bool
    size: int
    modified: int
    sha1: str = ""
    md5: str = ""
    date: str = ""


def home_folder() -> Path:
    """The folder of this package's downloads. Raises FileError where there is no home folder."""
    if folder := os.environ.get("PROTOTORCH_HOME"):
        return Path(folder).expanduser()
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "prototorch"
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "prototorch" / "Cache"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prototorch"
    except RuntimeError as error:
        raise FileError(f"there is no folder for downloads: {error}; set PROTOTORCH_HOME") from None


def weights_folder() -> Path:
    """The folder of downloaded weights."""
    return home_folder() / "weights"


def relative_path(address: str, name: str | None = None) -> str:
    """The path of an address below the folder, and below a mirror: its host and path, with ``name`` as the last part.

    A query is told apart by a digest. Raises UsageError for an address without a host or a path.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    try:
        port = f"_{parts.port}" if parts.port else ""
    except ValueError:
        raise UsageError(f"{address!r:.200}: the port of the address is no number") from None
    segments = [_safe_part(unquote(segment)) for segment in parts.path.split("/") if segment]
    if name is not None:
        segments = [*segments[:-1], _safe_part(name)]
    if not host or not segments:
        raise UsageError(f"{address!r:.200}: expected the address of a file, such as https://host/name.pth")
    if parts.query:
        segments[-1] = f"{sha256_of_text(parts.query)[:8]}-{segments[-1]}"
    return "/".join([_safe_part(host) + port, *segments])


def _safe_part(text: str) -> str:
    """A part of a path without characters that have a meaning to some system."""
    part = re.sub(r"[^A-Za-z0-9._+=-]", "_", text)
    if part.startswith(".") or part.endswith((".", PARTIAL, ".json")) or len(part) > _MAX_PART_LENGTH:
        part = f"{sha256_of_text(text)[:8]}-{part.strip('.')[-_MAX_PART_LENGTH:]}_"
    return part


def path_of_address(address: str, name: str | None = None) -> Path:
    """Where the file of an address is, or would be: in the folder of downloads, or where a ``file:`` address says.

    Raises UsageError for a ``file:`` address of another host.
    """
    parts = urlsplit(address)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"{address!r:.200}: a file: address names no host; expected file:///path")
        return Path(unquote(parts.path)).expanduser()
    return weights_folder().joinpath(*relative_path(address, name).split("/"))


def record_path(path: Path) -> Path:
    """The file of a file's record."""
    return path.with_name(f".{path.name}.json")


def read_record(path: Path) -> DownloadRecord | None:
    """The record of a file; None where there is none, or a damaged one."""
    try:
        content = json.loads(read_head(record_path(path), _RECORD_BYTES))
        record = DownloadRecord(**content)
    except (OSError, DataError, ValueError, TypeError, RecursionError):
        return None
    texts = (record.address, record.sha256, record.sha1, record.md5, record.date)
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(n, int) for n in (record.size, record.modified)
    ):
        return None
    return record if re.fullmatch("[0-9a-f]{64}", record.sha256) else None


def write_record(path: Path, record: DownloadRecord) -> None:
    """Write the record of a file. Raises FileError."""
    write_bytes(record_path(path), json.dumps(asdict(record), indent=1).encode())


def cached_files() -> Iterator[tuple[Path, DownloadRecord | None]]:
    """All downloaded files, with their records; files that are not complete are left out."""
    folder = weights_folder()
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(PARTIAL):
                yield Path(root, name), read_record(Path(root, name))
