"""A run folder: what a training from the command line leaves behind, held by one process at a time.

model.h5                      the trained model
history.json, log.jsonl       loss and metrics of each epoch
snapshot_step000123.h5        the training's whole state, the newest few
latest.json                   the list of snapshots
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from prototorch.errors import SnapshotError
from prototorch.storage.durable import sweep, write_bytes
from prototorch.storage.lock import RunLock
from prototorch.storage.snapshots import SnapshotFolder


class _Saves(Protocol):
    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""


class RunFolder:
    """The folder of one run. Entering it makes it and takes its lock; a second process is refused, with the first one's
    number and start. Raises FileError, SnapshotError."""

    def __init__(self, path: Path, keep: int = 2):
        self.path = path
        self.snapshots = SnapshotFolder(path, keep=keep)
        self._lock = RunLock(path)

    def __enter__(self) -> RunFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SnapshotError(f"{self.path}: cannot make this folder: {error.strerror}") from error
        self._lock.acquire()
        sweep(self.path)  # what a killed process left half-written
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def prepare(self, size: int) -> None:
        """Make sure, before the first step, that snapshots of this many bytes fit. Raises SnapshotError."""
        self.snapshots.prepare(size)

    def newest(self) -> Path | None:
        """The newest snapshot that is whole, if there is one."""
        return self.snapshots.newest()

    def clear(self) -> None:
        """Remove the snapshots and the log of an earlier run."""
        self.snapshots.clear()
        (self.path / "log.jsonl").unlink(missing_ok=True)

    def snapshot(self, model: _Saves, step: int) -> Path:
        """Keep the state of a training at a step."""
        return self.snapshots.add(step, model.save)

    def log(self, entry: Mapping[str, Any]) -> None:
        """Add a line to the log."""
        try:
            with open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise SnapshotError(f"{self.path / 'log.jsonl'}: cannot write it: {error.strerror}") from error

    def finish(self, model: _Saves, history: Mapping[str, Any]) -> Path:
        """Keep the trained model and its history."""
        path = self.path / "model.h5"
        model.save(path)
        write_bytes(self.path / "history.json", json.dumps(history, indent=1).encode())
        return path
