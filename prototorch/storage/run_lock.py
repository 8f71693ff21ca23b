"""One trainer for one run folder: the second is refused, and told who the first is.

The folder's file ``.lock`` is locked with ``flock`` where that works; ``.lock.json`` says who holds it (process
number, host, start). Where locks do not work (some network folders), the second file alone decides: it is made
exclusively, and one left by a dead process is taken over.
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
from typing import Any

from prototorch.errors import FileError
from prototorch.storage.process_identity import ProcessIdentity

if sys.platform != "win32":
    import fcntl

_CONTENTION_ERRORS = (errno.EAGAIN, errno.EACCES)
_MAX_ATTEMPTS = 10  # looks for the name of a holder that has just begun, 50 ms apart


class RunLock:
    """The right to write into a run folder, as a context manager or by `acquire` and `release`.

    It ends with the process in any case. Raises FileError from `acquire` when another process (or this one) holds it.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(os.path.abspath(folder))
        self._fd: int | None = None
        self._mark = ""

    def acquire(self) -> RunLock:
        """Take the lock. The folder is made when it is missing."""
        if self._mark:
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            problem = _try_lock(self._fd)
            if problem in _CONTENTION_ERRORS:
                self._refuse_the_living()
            self._mark = self._claim(locked=problem is None)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError) and not isinstance(error, FileError):
                raise FileError(f"{self.folder}: cannot be used as a run folder: {error.strerror}") from error
            raise
        return self

    def release(self) -> None:
        """Give the lock back; harmless when it is not held, or in a process forked from the holder."""
        if self._mark and _read_holder(self.folder).get("mark") == self._mark and self._mine():
            with contextlib.suppress(OSError):
                (self.folder / ".lock.json").unlink()
        self._mark = ""
        self._close()

    def __enter__(self) -> RunLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _mine(self) -> bool:
        return _holder_process(_read_holder(self.folder)) == ProcessIdentity.current()

    def _close(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def _refuse_the_living(self) -> None:
        """The lock is refused: by a living holder, or by a file system that only seems to lock."""
        for _ in range(_MAX_ATTEMPTS):
            holder = _read_holder(self.folder)
            process = _holder_process(holder)
            if process is not None:
                if process.is_dead():
                    return
                raise _in_use_error(self.folder, holder)
            time.sleep(0.05)
        raise _in_use_error(self.folder, {})

    def _claim(self, locked: bool) -> str:
        """Make ``.lock.json``; one that is there belongs to a dead process, or to a living one that is told."""
        path = self.folder / ".lock.json"
        me = ProcessIdentity.current()
        mark = secrets.token_hex(8)
        text = json.dumps(
            {
                "pid": me.pid,
                "host": socket.gethostname(),
                "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
                "place": me.namespace,
                "start": me.start,
                "locked": locked,
                "mark": mark,
            }
        )
        for _ in range(_MAX_ATTEMPTS):
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                self._take_over(path, locked)
                continue
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(fd)
            return mark
        raise _in_use_error(self.folder, _read_holder(self.folder))

    def _take_over(self, path: Path, locked: bool) -> None:
        """Put a stale ``.lock.json`` aside, or raise FileError when its writer may live."""
        holder = _read_holder(self.folder)
        process = _holder_process(holder)
        if process is None and not locked:
            time.sleep(0.05)  # it may be just being written
            holder = _read_holder(self.folder)
            process = _holder_process(holder)
        # With the lock in hand, whoever held it by the lock is gone, wherever it ran.
        gone = process is None or process.is_dead() or (locked and bool(holder.get("locked")))
        if not gone:
            raise _in_use_error(self.folder, holder)
        aside = path.with_name(f".lock.json.stale-{secrets.token_hex(4)}")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return
        try:
            if _read_json(aside).get("mark") != holder.get(
                "mark"
            ):  # somebody was quicker: that one is alive, put it back
                os.link(aside, path)
        finally:
            aside.unlink()


def _try_lock(fd: int) -> int | None:
    """Lock the open file without waiting; None, or the number of the error."""
    if sys.platform == "win32":
        return errno.ENOTSUP
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno or errno.ENOLCK
    return None


def _read_holder(folder: Path) -> dict[str, Any]:
    return _read_json(folder / ".lock.json")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(4096))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _holder_process(holder: dict[str, Any]) -> ProcessIdentity | None:
    pid, place, start = holder.get("pid"), holder.get("place"), holder.get("start")
    if isinstance(pid, int) and isinstance(place, str) and isinstance(start, str):
        return ProcessIdentity(pid, place, start)
    return None


def _in_use_error(folder: Path, holder: dict[str, Any]) -> FileError:
    if not holder:
        return FileError(f"{folder}: another process is using this run folder")
    who = f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('started')}"
    elsewhere = (process := _holder_process(holder)) is not None and process.is_elsewhere()
    hint = f"; if that one is no more, remove {folder / '.lock.json'}" if elsewhere else ""
    return FileError(f"{folder}: this run folder is in use by {who}{hint}")
