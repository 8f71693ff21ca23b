"""A run folder: what a training from the command line leaves behind, held by one process at a time.

model.h5                      the trained model
history.json, log.jsonl       loss and metrics of each epoch
snapshot_step000123.h5        the training's whole state, the newest few
latest.json                   the list of snapshots
before/                       the snapshots and the log of a training that had not ended when another one began
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from prototorch.errors import SnapshotError
from prototorch.storage.atomic_write import remove_orphans, write_bytes
from prototorch.storage.run_lock import RunLock
from prototorch.storage.snapshot_folder import SnapshotFolder


class _SupportsSave(Protocol):
    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""


class RunFolder:
    """The folder of one run. Entering it makes it and takes its lock; a second process is refused, with the first one's
    number and start. Raises FileError, SnapshotError."""

    def __init__(self, path: Path, keep: int = 2):
        self.path = path
        self.snapshots = SnapshotFolder(path, keep=keep)
        self._lock = RunLock(path)

    @property
    def log_path(self) -> Path:
        """Where the log is."""
        return self.path / "log.jsonl"

    def __enter__(self) -> RunFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SnapshotError(f"{self.path}: cannot make this folder: {error.strerror}") from error
        self._lock.acquire()
        remove_orphans(self.path)  # what a killed process left half-written
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def prepare(self, size: int) -> None:
        """Make sure, before the first step, that snapshots of this many bytes fit. Raises SnapshotError."""
        self.snapshots.prepare(size)

    def newest_snapshot(self) -> Path | None:
        """The newest snapshot that is whole, if there is one."""
        return self.snapshots.newest_snapshot()

    def start_run(self) -> Path | None:
        """Make room for a new training. The snapshots and the log of an earlier one that ended are removed; those of
        one that did not end are moved into the folder ``before``, which is given back, in the place of what was there.
        """
        newest = max((path.stat().st_mtime_ns for path in self.snapshots.paths()), default=None)
        model = self.path / "model.h5"
        aside = None
        if newest is not None and not (model.exists() and model.stat().st_mtime_ns >= newest):
            aside = self.path / "before"
            with RunFolder(aside) as before:
                before.snapshots.clear()
                before.log_path.unlink(missing_ok=True)
                for path in (*self.snapshots.paths(), self.snapshots.list_path, self.log_path):
                    if path.exists():
                        os.replace(path, aside / path.name)
        self.snapshots.clear()
        self.log_path.unlink(missing_ok=True)
        return aside

    def save_snapshot(self, model: _SupportsSave, step: int) -> Path:
        """Keep the state of a training at a step."""
        return self.snapshots.add(step, model.save)

    def append_log(self, entry: Mapping[str, Any]) -> None:
        """Add a line to the log."""
        try:
            with open(self.log_path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise SnapshotError(f"{self.log_path}: cannot write it: {error.strerror}") from error

    def save_result(self, model: _SupportsSave, history: Mapping[str, Any]) -> Path:
        """Keep the trained model and its history."""
        path = self.path / "model.h5"
        model.save(path)
        write_bytes(self.path / "history.json", json.dumps(history, indent=1).encode())
        return path
