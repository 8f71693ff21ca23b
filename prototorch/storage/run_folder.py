"""The folder of a training run from the command line, locked by one process at a time.

model.h5                      the trained model
history.json, log.jsonl       loss and metrics of each epoch
snapshot_step000123.h5        the complete training state, the newest few
latest.json                   the list of snapshots
before/                       the snapshots and the log of an unfinished run that was followed by another one
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Protocol

from prototorch.errors import SnapshotError
from prototorch.storage.atomic_write import remove_orphans, write_bytes
from prototorch.storage.run_lock import RunLock
from prototorch.storage.snapshot_folder import SnapshotFolder

__all__ = ["RunFolder"]


class _SupportsSave(Protocol):
    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""


def _open_without_links(path: str, flags: int) -> int:
    """Open a file for `open`, but not through a symbolic link, which a hostile folder may contain."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


class RunFolder:
    """The folder of one run, as a context manager. Entering creates the folder and acquires its lock.

    Raises FileError, with the holder's process ID and start time, if another process has the lock, and SnapshotError
    if the folder cannot be created.
    """

    def __init__(self, path: Path, keep: int = 2):
        self.path = path
        self.snapshots = SnapshotFolder(path, keep=keep)
        self._lock = RunLock(path)

    @property
    def log_path(self) -> Path:
        """The path of the log."""
        return self.path / "log.jsonl"

    def __enter__(self) -> RunFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SnapshotError(f"{self.path}: cannot create this folder: {error.strerror}") from error
        self._lock.acquire()
        remove_orphans(self.path)  # incomplete files of a killed process
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def prepare(self, size: int) -> None:
        """Check, before the first step, that snapshots of ``size`` bytes fit. Raises SnapshotError."""
        self.snapshots.prepare(size)

    def newest_snapshot(self) -> Path | None:
        """The newest valid snapshot, or None if there are none. Raises ModelFileError if all are damaged."""
        return self.snapshots.newest_snapshot()

    def start_run(self) -> Path | None:
        """Prepare the folder for a new run; returns the folder with the files of an unfinished run, or None.

        The snapshots and the log of a finished run are removed. Those of an unfinished one are moved to the folder
        ``before`` and replace its content.
        """
        newest = max((path.stat().st_mtime_ns for path in self.snapshots.paths()), default=None)
        model = self.path / "model.h5"
        archive = None
        if newest is not None and not (model.exists() and model.stat().st_mtime_ns >= newest):
            archive = self.path / "before"
            with RunFolder(archive) as before:
                before.snapshots.clear()
                before.log_path.unlink(missing_ok=True)
                for path in (*self.snapshots.paths(), self.snapshots.list_path, self.log_path):
                    if path.exists():
                        os.replace(path, archive / path.name)
        self.snapshots.clear()
        self.log_path.unlink(missing_ok=True)
        return archive

    def save_snapshot(self, model: _SupportsSave, step: int) -> Path:
        """Save the training state at a step; returns the path."""
        return self.snapshots.add(step, model.save)

    def append_log(self, entry: Mapping[str, object]) -> None:
        """Append an entry to the log. Raises SnapshotError if it cannot be written, or is a symbolic link."""
        try:
            with open(self.log_path, "a", encoding="utf-8", opener=_open_without_links) as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise SnapshotError(f"{self.log_path}: cannot write it: {error.strerror}") from error

    def save_result(self, model: _SupportsSave, history: Mapping[str, object]) -> Path:
        """Save the trained model and its history; returns the path of the model."""
        path = self.path / "model.h5"
        model.save(path)
        write_bytes(self.path / "history.json", json.dumps(history, indent=1).encode())
        return path
