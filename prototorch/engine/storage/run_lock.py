"""Lock of a run folder: one process at a time may write; the error for a second one identifies the first.

The folder's file ``.lock`` is locked with ``flock`` where that works; ``.lock.json`` identifies the holder (process
ID, host, start). Where locks do not work (some network file systems), the second file alone decides: it is created
exclusively, and one left by a process that has ended is replaced.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from prototorch.engine.storage.process_identity import ProcessIdentity
from prototorch.errors import FileError

if sys.platform != "win32":
    import fcntl

__all__ = ["FolderInUseError", "RunLock"]

_CONTENTION_ERRORS = (errno.EAGAIN, errno.EACCES)
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MAX_ATTEMPTS = 10  # to read the identity of a holder that has just started, 50 ms apart


class FolderInUseError(FileError):
    """Another process, or another lock of this one, holds the folder."""


class RunLock:
    """The lock of a run folder, as a context manager or by `acquire` and `release`.

    It is released at the latest when the process ends. `acquire` raises FileError if another process, or another
    `RunLock` of this one, holds it.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(os.path.abspath(folder))
        self._fd: int | None = None
        self._token = ""

    def acquire(self) -> RunLock:
        """Acquire the lock. The folder is created if it does not exist."""
        if self._token:
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.folder / ".lock", _LOCK_FLAGS, 0o666)
            problem = _try_lock(self._fd)
            if problem in _CONTENTION_ERRORS:
                self._raise_if_held()
            self._token = self._claim(has_flock=problem is None)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError) and not isinstance(error, FileError):
                raise FileError(f"{self.folder}: cannot be used as a run folder: {error.strerror}") from error
            raise
        return self

    def release(self) -> None:
        """Release the lock; does nothing if it is not held, or in a process forked from the holder."""
        if self._token and _read_holder(self.folder).get("mark") == self._token and self._is_holder():
            with contextlib.suppress(OSError):
                (self.folder / ".lock.json").unlink()
        self._token = ""
        self._close()

    def __enter__(self) -> RunLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _is_holder(self) -> bool:
        return _holder_process(_read_holder(self.folder)) == ProcessIdentity.current()

    def _close(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def _raise_if_held(self) -> None:
        """The lock was refused: raise FileError if its holder runs; otherwise the file system only seems to lock."""
        for _ in range(_MAX_ATTEMPTS):
            holder = _read_holder(self.folder)
            process = _holder_process(holder)
            if process is not None:
                if process.is_dead():
                    return
                raise _in_use_error(self.folder, holder)
            time.sleep(0.05)
        raise _in_use_error(self.folder, {})

    def _claim(self, has_flock: bool) -> str:
        """Create ``.lock.json``. One of a process that has ended is replaced; raises FileError for a running one."""
        path = self.folder / ".lock.json"
        current = ProcessIdentity.current()
        token = secrets.token_hex(8)
        text = json.dumps(
            {
                "pid": current.pid,
                "host": socket.gethostname(),
                "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
                "place": current.namespace,
                "start": current.start,
                "locked": has_flock,
                "mark": token,
            }
        )
        for _ in range(_MAX_ATTEMPTS):
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                self._remove_stale(path, has_flock)
                continue
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(fd)
            return token
        raise _in_use_error(self.folder, _read_holder(self.folder))

    def _remove_stale(self, path: Path, has_flock: bool) -> None:
        """Remove a stale ``.lock.json``, or raise FileError if its writer may still run."""
        holder = _read_holder(self.folder)
        process = _holder_process(holder)
        if process is None and not has_flock:
            time.sleep(0.05)  # it may be incomplete because it is being written
            holder = _read_holder(self.folder)
            process = _holder_process(holder)
        # This process has the lock, so a holder that had the lock has ended, on whatever host.
        has_ended = process is None or process.is_dead() or (has_flock and bool(holder.get("locked")))
        if not has_ended:
            raise _in_use_error(self.folder, holder)
        stale = path.with_name(f".lock.json.stale-{secrets.token_hex(4)}")
        try:
            path.rename(stale)
        except FileNotFoundError:
            return
        try:
            if _read_json(stale).get("mark") != holder.get("mark"):  # another process was faster: restore its file
                os.link(stale, path)
        finally:
            stale.unlink()


def _try_lock(fd: int) -> int | None:
    """Lock the open file without waiting; None, or the error number."""
    if sys.platform == "win32":
        return errno.ENOTSUP
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno or errno.ENOLCK
    return None


def _read_holder(folder: Path) -> dict[str, object]:
    return _read_json(folder / ".lock.json")


def _read_json(path: Path) -> dict[str, object]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.loads(file.read(4096))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _holder_process(holder: dict[str, object]) -> ProcessIdentity | None:
    pid, namespace, start = holder.get("pid"), holder.get("place"), holder.get("start")
    if isinstance(pid, int) and isinstance(namespace, str) and isinstance(start, str):
        return ProcessIdentity(pid, namespace, start)
    return None


def _in_use_error(folder: Path, holder: dict[str, object]) -> FolderInUseError:
    if not holder:
        return FolderInUseError(f"{folder}: another process is using this run folder")
    description = f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('started')}"
    is_elsewhere = (process := _holder_process(holder)) is not None and process.is_elsewhere()
    hint = f"; if that process has ended, remove {folder / '.lock.json'}" if is_elsewhere else ""
    return FolderInUseError(f"{folder}: this run folder is in use by {description}{hint}")
