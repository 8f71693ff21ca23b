"""Downloads of weights: each file once, verified before it has its name, resumed after a break."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from prototorch.data.safe_io import printable_path
from prototorch.engine.storage.atomic_write import rename_durably
from prototorch.engine.storage.run_lock import FolderInUseError, RunLock
from prototorch.errors import FileError, UsageError, warn_user
from prototorch.interop.downloads.cache import (
    PARTIAL,
    DownloadRecord,
    home_folder,
    path_of_address,
    read_record,
    record_path,
    relative_path,
    write_record,
)
from prototorch.interop.downloads.digests import Digest, FileDigests, digests_of_file, parse_digest, sha256_of_text
from prototorch.interop.downloads.progress import progress_bar
from prototorch.interop.downloads.transfer import TransferError, fetch_file, remove_partial

__all__ = ["download", "verify_file"]

LOCK_POLL_SECONDS = 0.2


def download(
    address: str, *, digest: str | None = None, name: str | None = None, size: int | str | None = None
) -> Path:
    """The path of the file at an address: in the cache, where it is downloaded first if it is missing.

    address: https:, http: where there is a digest, or file:, which is read where it is. PROTOTORCH_MIRROR names an
    address, or a folder, that has the files as ``HOST/PATH`` and is asked instead.
    digest: as published, "sha256:" with 8 to 64 hexadecimal digits, "sha1:" with 40, "md5:" with 32. Without one the
    SHA-256 of the first download is recorded, which is warned of, and later downloads are compared with it.
    name: of the file, instead of the address's last part. size: where it is published, for messages: in bytes, or with
    its unit ("170.53 MiB").

    Several processes at once download a file once. Raises UsageError for what is no address or digest, FileError where
    the file cannot be fetched, or is another one than published.
    """
    if not isinstance(address, str):
        raise UsageError(f"download: expected an address, got {address!r:.80}")
    expected = parse_digest(digest)
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise UsageError(f"{address!r:.200} is no address: {error}") from None
    if parts.scheme == "file":
        return _local_file(address, expected)
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{address!r:.200}: expected an address that begins with https: or file:")
    path = path_of_address(address, name)
    if path.is_file():
        verify_file(path, address, expected)
        return path
    with _lock(path):
        if not path.is_file():
            _fetch(address, path, expected, size, name)
    verify_file(path, address, expected)
    return path


def verify_file(
    path: Path, address: str = "", expected: Digest | None = None, *, again: bool = False
) -> DownloadRecord:
    """Compare a cached file with the published digest, or with its first download's; its record, which is written where
    there was none. A file that has not changed since is not read, unless ``again``. Raises FileError."""
    record = read_record(path)
    status = path.stat()
    is_same = record is not None and (record.size, record.modified) == (status.st_size, status.st_mtime_ns)
    if record is not None and is_same and not again and (expected is None or getattr(record, expected.kind)):
        digests = FileDigests(record.sha256, record.sha1, record.md5)
    else:
        digests = digests_of_file(path)
    remedy = f"; remove it (prototorch weights remove {printable_path(path.name)}) to have it downloaded again"
    if expected is not None and not expected.matches(digests):
        actual = expected.of(digests)
        raise FileError(f"{printable_path(path)}: expected {expected} as published, found {actual}{remedy}")
    if expected is None and record is not None and record.sha256 != digests.sha256:
        raise FileError(
            f"{printable_path(path)}: expected sha256 {record.sha256}, as first downloaded {record.date}, found "
            f"{digests.sha256}: the file has changed{remedy}, with --forget if the new one is right"
        )
    if record is not None and is_same and record.sha256 == digests.sha256 and record.md5:
        return record
    return _record(path, address or (record.address if record else ""), digests, expected, status)


def _record(
    path: Path, address: str, digests: FileDigests, expected: Digest | None, status: os.stat_result
) -> DownloadRecord:
    """Write the record of a file. That its digest is none that was published is warned of, once."""
    old = read_record(path)
    if expected is None and old is None:
        warn_user(
            f"{path.name}: no digest of it is published; recorded sha256 {digests.sha256}, with which later downloads "
            "are compared",
            UserWarning,
        )
    is_known = old is not None and old.sha256 == digests.sha256
    record = DownloadRecord(
        address=address,
        sha256=digests.sha256,
        sha1=digests.sha1,
        md5=digests.md5,
        is_published=expected is not None or (old is not None and is_known and old.is_published),
        size=status.st_size,
        modified=status.st_mtime_ns,
        date=old.date if old is not None and is_known else datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    write_record(path, record)
    return record


def _fetch(address: str, path: Path, expected: Digest | None, size: int | str | None, name: str | None) -> None:
    """Download into a partial file, verify it, and give it its name."""
    partial = path.with_name(path.name + PARTIAL)
    source = _mirror_address(address, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if urlsplit(source).scheme == "file":
            partial = _local_file(source, None)
            digests = _check_digest(partial, address, path, expected)
            _copy_file(partial, path)
            _record(path, address, digests, expected, path.stat())
            return
        record = read_record(path)
        with progress_bar(path.name) as report:
            fetch_file(source, partial, expected is not None or record is not None, report)
        try:
            digests = _check_digest(partial, address, path, expected)
        except FileError:
            remove_partial(partial)
            raise
        rename_durably(partial, path)
        remove_partial(partial)
        _record(path, address, digests, expected, path.stat())
    except TransferError as error:
        total = size or error.size
        size_text = f" ({total})" if isinstance(total, str) else f" ({total:,} bytes)" if total else ""
        where = f" from the mirror {source}" if source != address else ""
        raise FileError(
            f"{address}{size_text} cannot be downloaded{where}: {error}; fetch it by other means and put it at "
            f"{printable_path(path)}"
        ) from None
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{printable_path(path)}: cannot be written: {error.strerror or error}") from None


def _check_digest(file: Path, address: str, path: Path, expected: Digest | None) -> FileDigests:
    """The digests of a file. Raises FileError unless it is what was published, or was downloaded first."""
    digests = digests_of_file(file)
    if expected is not None and not expected.matches(digests):
        actual = expected.of(digests)
        raise FileError(
            f"{address}: expected {expected} as published, got {actual}: what came is another file, or damaged"
        )
    record = read_record(path)
    if expected is None and record is not None and record.sha256 != digests.sha256:
        raise FileError(
            f"{address}: expected sha256 {record.sha256}, as first downloaded {record.date}, got {digests.sha256}: the "
            f"file there has changed; remove {printable_path(record_path(path))} if the new one is right"
        )
    return digests


def _copy_file(source: Path, path: Path) -> None:
    """Copy a file of a mirror in a folder, under a partial name first."""
    partial = path.with_name(path.name + PARTIAL)
    with open(source, "rb") as reader, open(partial, "wb") as writer:
        while block := reader.read(1 << 22):
            writer.write(block)
        writer.flush()
        os.fsync(writer.fileno())
    rename_durably(partial, path)


def _mirror_address(address: str, name: str | None) -> str:
    """The address on the mirror, where one is named; else the address itself."""
    mirror = os.environ.get("PROTOTORCH_MIRROR", "")
    if not mirror:
        return address
    base = mirror if "://" in mirror or mirror.startswith("file:") else Path(mirror).absolute().as_uri()
    return f"{base.rstrip('/')}/{relative_path(address, name)}"


def _local_file(address: str, expected: Digest | None) -> Path:
    """The file of a ``file:`` address, where it is. Raises FileError."""
    path = path_of_address(address)
    if not path.is_file():
        raise FileError(f"{printable_path(path)}: no such file ({address})")
    if expected is not None and not expected.matches(digests := digests_of_file(path)):
        actual = expected.of(digests)
        raise FileError(f"{printable_path(path)}: expected {expected} as published, found {actual}")
    return path


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Wait until no other process, and no other thread, downloads this file."""
    lock = RunLock(home_folder() / "locks" / sha256_of_text(str(path))[:16])
    while True:
        try:
            lock.acquire()
            break
        except FolderInUseError:
            if path.is_file():
                break
            time.sleep(LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()
