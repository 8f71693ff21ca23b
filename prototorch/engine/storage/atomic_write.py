"""Atomic, durable writing of files: after any failure the file has either its old or its new content, complete.

The bytes go to a temporary file in the same folder, which is synced, read back and compared, then renamed to the final
name; then the folder is synced. A power failure, a full disk or ``kill -9`` at any moment leaves the old file intact.
A killed process leaves a file ``.NAME.tmp-PID-RAND``, which the next write into its folder removes.

Files that belong together, and folders, are written into a `staging_folder` beside their place and renamed from there.

Every error is a `SnapshotError` with the path and the number of bytes needed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from prototorch.engine.storage.process_identity import ProcessIdentity
from prototorch.errors import FileError, ModelWarning, SnapshotError, warn_user

if sys.platform != "win32":
    import resource
if sys.platform == "darwin":
    import fcntl

__all__ = [
    "check_writable",
    "open_in_place",
    "remove_orphans",
    "rename_durably",
    "replace_folder",
    "sha256_hexdigest",
    "staging_folder",
    "write_bytes",
]

BytesLike = bytes | bytearray | memoryview
_Result = TypeVar("_Result")
_MAX_WRITE_BYTES = 1 << 30  # per call; systems reject or shorten calls of 2 GiB and more
_TEMPORARY_PATTERN = re.compile(
    r"\.(?P<name>.+)\.(?P<kind>tmp|staged)-(?P<pid>\d{1,10})-(?P<place>[0-9a-f]{8})(?P<start>[0-9a-f]{8})[0-9a-f]{8}",
    re.DOTALL,
)
_CONTENT, _REPLACED = "content", "replaced"  # in a staging folder: what is written, and what it replaces
_MAX_SHARED_BYTES = 1 << 30  # of a file with a second name that is copied
_REMOTE_ORPHAN_AGE = 7 * 24 * 3600  # seconds after which a temporary file of another host counts as an orphan
_UNSUPPORTED_ERRORS = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def write_bytes(
    path: str | os.PathLike[str],
    pieces: BytesLike | Sequence[BytesLike],
    verify: Callable[[str], object] | None = None,
) -> None:
    """Write the concatenation of ``pieces`` to the file ``path``.

    ``verify`` is called with the path of the temporary file before it is renamed, and raises if the file is invalid;
    without it the file is read back and compared. On any failure ``path`` is unchanged. A replaced file keeps
    its permissions. What killed processes have left in the folder is removed first: its space may be needed.

    Raises SnapshotError, with the path, the bytes needed and the cause.
    """
    final = os.path.abspath(os.fspath(path))
    remove_orphans(os.path.dirname(final))
    views = [memoryview(p).cast("B") for p in ([pieces] if isinstance(pieces, BytesLike) else pieces) if len(p)]
    size = sum(view.nbytes for view in views)
    temporary = _temporary_name(final)
    is_renamed = False
    try:
        mode = _regular_file_mode(final)
        try:
            _write_temporary(temporary, views, size, mode)
            if verify is None:
                _compare_contents(temporary, views)
            else:
                verify(temporary)
            _retry_interrupted(os.replace, temporary, final)
            is_renamed = True
        finally:
            if not is_renamed:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        _sync_folder(os.path.dirname(final))
    except (OSError, MemoryError) as error:
        state = (
            "the new file is in place, but a power failure now could undo that"
            if is_renamed
            else "the old content is intact"
        )
        raise SnapshotError(
            f"{final}: cannot write it ({size:,} bytes needed): {_describe_error(error)}; {state}"
        ) from error


def check_writable(folder: str | os.PathLike[str], size: int, count: int = 1, total: int = 0) -> None:
    """Check, before any work is done, that ``count`` files of ``size`` bytes can be written into ``folder``.

    The folder is created if it does not exist. A small file is written and removed; then the free space and the limit
    on a file's size are checked. Raises SnapshotError with the folder, the bytes needed and the bytes available; a
    ModelWarning where it is the ``total`` files of a whole training that do not fit.
    """
    folder = os.path.abspath(os.fspath(folder))
    trial = os.path.join(folder, f".probe-{secrets.token_hex(4)}")
    total_bytes = size * count
    try:
        os.makedirs(folder, exist_ok=True)
        write_bytes(trial, b"prototorch")
        os.unlink(trial)
        free = _available_bytes(folder)
    except OSError as error:
        cause = error if isinstance(error, FileError) else _describe_error(error)
        raise SnapshotError(
            f"{folder}: checkpoints cannot be written here ({total_bytes:,} bytes needed): {cause}"
        ) from error
    if free is not None and free < total_bytes:
        files = f"{count} checkpoints of {size:,} bytes" if count > 1 else "a checkpoint"
        raise SnapshotError(f"{folder}: not enough space for {files} ({total_bytes:,} bytes needed, {free:,} free)")
    if free is not None and free < size * total:
        warn_user(
            f"{folder}: {total} checkpoints of {size:,} bytes will need {size * total:,} bytes, {free:,} are free: the "
            f"training will end with an error when the disk is full",
            ModelWarning,
        )
    limit = _file_size_limit()
    if limit is not None and limit < size:
        raise SnapshotError(
            f"{folder}: a checkpoint needs {size:,} bytes, but the limit on a file's size is {limit:,} (ulimit -f)"
        )


def rename_durably(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Rename a file, whose bytes are synced already, within its file system, and sync the folder. Raises OSError."""
    _retry_interrupted(os.replace, source, path)
    _sync_folder(os.path.dirname(os.path.abspath(path)))


@contextlib.contextmanager
def staging_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """A temporary folder on the file system of ``path``, for files that become ``path`` and its companions by renaming.

    It is removed at the end, and after a kill by the next write into the folder of ``path``. Raises OSError.
    """
    final = os.path.abspath(os.fspath(path))
    remove_orphans(os.path.dirname(final))
    temporary = _temporary_name(final, "staged")
    content = os.path.join(temporary, _CONTENT)
    os.mkdir(temporary, 0o700)
    try:
        os.mkdir(content)
        yield content
    finally:
        _remove_staged(temporary, final)


def replace_folder(content: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Let the folder of a `staging_folder` become ``path``, in the place of what is there. Raises OSError.

    A process that is killed between the two renames leaves what was there in the staging folder, from where the next
    write takes it back.
    """
    replaced = os.path.join(os.path.dirname(os.fspath(content)), _REPLACED)
    if os.path.lexists(path):
        os.rename(path, replaced)
    os.rename(content, path)
    _sync_folder(os.path.dirname(os.path.abspath(path)))


def open_in_place(path: str, flags: int) -> int:
    """Open a file that is changed in place, as the ``opener`` of `open`: never one outside of its folder.

    A symbolic link is not followed. A file with a second name (a hard link) is replaced by a copy first, so that the
    other name keeps its content. Raises OSError; for what is no regular file, too.
    """
    handle = _open_regular_file(path, flags)
    if os.fstat(handle).st_nlink > 1:
        os.close(handle)
        with open(path, "rb", opener=_open_regular_file) as file:
            content = b"" if flags & os.O_TRUNC else file.read(_MAX_SHARED_BYTES + 1)
        if len(content) > _MAX_SHARED_BYTES:
            raise OSError(errno.EMLINK, "it has a second name, a hard link, and is too large to be copied", path)
        write_bytes(path, content)
        handle = _open_regular_file(path, flags)
    if flags & os.O_TRUNC:
        os.ftruncate(handle, 0)
    return handle


def _open_regular_file(path: str, flags: int) -> int:
    """Open a regular file, not through a link, and without waiting for the other end of a pipe; nothing is cut off."""
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, (flags & ~os.O_TRUNC) | careful, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return handle


def remove_orphans(folder: str | os.PathLike[str]) -> list[Path]:
    """Remove the temporary files and staging folders of processes that have ended from ``folder``; returns their paths.

    Those of running processes and of other users stay, and so do those of other hosts that are less than a week old.
    """
    removed_paths = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        match = _TEMPORARY_PATTERN.fullmatch(name)
        if match is None:
            continue
        path = Path(folder, name)
        writer = ProcessIdentity(int(match["pid"]), match["place"], match["start"])
        with contextlib.suppress(OSError):
            status = path.lstat()
            is_kind = stat.S_ISREG if match["kind"] == "tmp" else stat.S_ISDIR
            is_own = is_kind(status.st_mode) and (sys.platform == "win32" or status.st_uid == os.getuid())
            is_old = writer.is_elsewhere() and time.time() - status.st_mtime > _REMOTE_ORPHAN_AGE
            if is_own and (is_old or writer.is_dead()):
                if match["kind"] == "tmp":
                    path.unlink()
                else:
                    _remove_staged(str(path), os.path.join(folder, match["name"]))
                removed_paths.append(path)
    return removed_paths


def _remove_staged(temporary: str, final: str) -> None:
    """Remove a staging folder; what `replace_folder` had moved into it without replacing it goes back to its place."""
    replaced = os.path.join(temporary, _REPLACED)
    with contextlib.suppress(OSError):
        if os.path.lexists(replaced) and not os.path.lexists(final):
            os.rename(replaced, final)
        shutil.rmtree(temporary)


def sha256_hexdigest(pieces: Iterable[BytesLike]) -> str:
    """The SHA-256 of the concatenation of the pieces, in hexadecimal."""
    total = hashlib.sha256()
    for piece in pieces:
        total.update(piece)
    return total.hexdigest()


def _temporary_name(final: str, kind: str = "tmp") -> str:
    folder, name = os.path.split(final)
    me = ProcessIdentity.current()
    return os.path.join(folder, f".{name}.{kind}-{me.pid}-{me.namespace}{me.start}{secrets.token_hex(4)}")


def _regular_file_mode(final: str) -> int | None:
    """The permissions of the file, None where there is none. Raises OSError if it is a folder, /dev/null, ..."""
    try:
        mode = os.stat(final).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return stat.S_IMODE(mode) & 0o777


def _write_temporary(path: str, views: Sequence[memoryview], size: int, mode: int | None = None) -> None:
    """Create, write and sync the temporary file; its space is reserved first if the system supports that."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = _retry_interrupted(os.open, path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        if mode is not None and hasattr(os, "fchmod"):
            with contextlib.suppress(PermissionError):
                os.fchmod(fd, mode)
        if size and hasattr(os, "posix_fallocate"):
            try:
                _retry_interrupted(os.posix_fallocate, fd, 0, size)
            except OSError as error:
                if error.errno not in _UNSUPPORTED_ERRORS:
                    raise
        for view in views:
            _write_all(fd, view)
        _retry_interrupted(_sync, fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    with contextlib.suppress(InterruptedError):  # the descriptor is closed nevertheless
        os.close(fd)


def _write_all(fd: int, view: memoryview) -> None:
    offset, empty_writes = 0, 0
    while offset < view.nbytes:
        count = _retry_interrupted(os.write, fd, view[offset : offset + _MAX_WRITE_BYTES])
        empty_writes = 0 if count else empty_writes + 1
        if empty_writes == 100:
            raise OSError(errno.EIO, "the system accepts no more bytes")
        offset += count


def _compare_contents(path: str, views: Sequence[memoryview]) -> None:
    """Read the file back and compare it with what was written."""
    with open(path, "rb", buffering=0) as file:
        for view in views:
            offset = 0
            while offset < view.nbytes:
                block = _retry_interrupted(file.read, min(view.nbytes - offset, 1 << 22))
                if not block or block != view[offset : offset + len(block)]:
                    raise OSError(errno.EIO, f"the bytes read back differ from those written, from byte {offset} on")
                offset += len(block)
        if _retry_interrupted(file.read, 1):
            raise OSError(errno.EIO, "the file read back is longer than what was written")


def _sync_folder(folder: str) -> None:
    """Make the rename durable, where folders can be synced."""
    if sys.platform == "win32":
        return
    fd = _retry_interrupted(os.open, folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        _retry_interrupted(os.fsync, fd)
    except OSError as error:
        if error.errno not in _UNSUPPORTED_ERRORS:
            raise
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def _available_bytes(folder: str) -> int | None:
    if sys.platform == "win32":
        return None
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _file_size_limit() -> int | None:
    """The limit on the size of a file written by this process, in bytes, or None."""
    if sys.platform == "win32":
        return None
    soft = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _sync(fd: int) -> None:
    """Sync a file; on macOS also the drive's cache, which fsync does not flush there."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def _retry_interrupted(call: Callable[..., _Result], *args: object) -> _Result:
    """Call; repeat the call if a signal interrupts it."""
    for _ in range(1000):
        try:
            return call(*args)
        except InterruptedError:
            continue
    return call(*args)


def _describe_error(error: BaseException) -> str:
    """The cause of an error as text, with the name of the system's error code."""
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, FileError) or not isinstance(error, OSError) or not error.errno:
        return str(error)
    return f"{error.strerror} ({errno.errorcode.get(error.errno, error.errno)})"
