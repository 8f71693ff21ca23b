"""The folder of a training run from the command line, locked by one process at a time.

model.h5                      the trained model
result.json                   what it is: the epoch of its weights, why training ended, samples, evaluation
history.json, log.jsonl       loss and metrics of each epoch
snapshot_step000123.h5        the complete training state, the newest few
latest.json                   the list of snapshots
before/                       the snapshots and the log of an unfinished run that was followed by another one
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from prototorch.engine.storage import container
from prototorch.engine.storage.atomic_write import open_in_place, remove_orphans, write_bytes
from prototorch.engine.storage.run_lock import RunLock
from prototorch.engine.storage.snapshot_folder import LoadedSnapshot, SnapshotFolder
from prototorch.errors import ModelFileError, SnapshotError

__all__ = ["RunFolder"]

_Read = TypeVar("_Read")
_MAX_LOG_BYTES = 1 << 30
_RESERVED = re.compile(
    r"model\.h5|(history|result|latest|\.lock)\.json|log\.jsonl|\.lock|snapshot_step.*|before([/\\].*)?"
)


class _SupportsSave(Protocol):
    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file."""


class RunFolder:
    """The folder of one run, as a context manager. Entering creates the folder and acquires its lock.

    Raises FileError, with the holder's process ID and start time, if another process has the lock, and SnapshotError
    if the folder cannot be created.
    """

    def __init__(self, path: Path, keep: int = 2):
        self.path = path
        self.snapshots = SnapshotFolder(path, keep=keep)
        self._lock = RunLock(path)

    @staticmethod
    def is_reserved(path: str) -> bool:
        """Whether a path, relative to a run folder, is that of a file or folder which the run folder itself writes."""
        return _RESERVED.fullmatch(path) is not None

    @property
    def log_path(self) -> Path:
        """``log.jsonl``: one JSON object for each epoch."""
        return self.path / "log.jsonl"

    @property
    def model_path(self) -> Path:
        """The path of the trained model."""
        return self.path / "model.h5"

    @property
    def is_finished(self) -> bool:
        """Whether it holds a trained model that is not older than its snapshots."""
        newest = max((path.stat().st_mtime_ns for path in self.snapshots.paths()), default=0)
        return self.model_path.exists() and self.model_path.stat().st_mtime_ns >= newest

    def model_text(self) -> tuple[str, int] | None:
        """The text of the newest snapshot or of the trained model, with the version of its format; None if there is
        none, or none that can be read."""
        for path in (*reversed(self.snapshots.paths()), self.model_path):
            try:
                meta = container.peek(path).meta if path.exists() else {}
            except ModelFileError:
                continue
            text, version = meta.get("model_text"), meta.get("format")
            if isinstance(text, str) and isinstance(version, int):
                return text, version
        return None

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

    def load_newest(self, read: Callable[[Path], _Read]) -> LoadedSnapshot[_Read] | None:
        """The newest snapshot that ``read`` can read, with the errors of the newer ones; None if there are none.

        Raises ModelFileError if all are damaged.
        """
        return self.snapshots.load(read)

    def start_run(self) -> Path | None:
        """Prepare the folder for a new run; returns the folder with the files of an unfinished run, or None.

        The result, the snapshots and the log of a finished run are removed. The snapshots and the log of an unfinished
        one are moved to the folder ``before`` and replace its content.
        """
        archive = None
        if self.snapshots.paths() and not self.is_finished:
            archive = self.path / "before"
            if archive.is_symlink():
                raise SnapshotError(f"{archive}: is a link, and the files of an earlier run go there; remove it")
            with RunFolder(archive) as before:
                before.snapshots.clear()
                before.log_path.unlink(missing_ok=True)
                for path in (*self.snapshots.paths(), self.snapshots.list_path, self.log_path):
                    if path.exists():
                        os.replace(path, archive / path.name)
        self.snapshots.clear()
        for path in (self.log_path, self.model_path, self.path / "history.json", self.path / "result.json"):
            path.unlink(missing_ok=True)
        return archive

    def save_snapshot(self, model: _SupportsSave, step: int) -> Path:
        """Save the training state at a step; returns the path."""
        return self.snapshots.add(step, model.save)

    def append_log(self, entry: Mapping[str, object]) -> None:
        """Append an entry to the log. Raises SnapshotError if it cannot be written, or is a symbolic link."""
        try:
            with open(self.log_path, "a", encoding="utf-8", opener=open_in_place) as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise SnapshotError(f"{self.log_path}: cannot write it: {error.strerror}") from error

    def trim_log(self, epochs: int) -> None:
        """Remove the entries of the log that are not of the first ``epochs`` epochs, which will be trained again, and a
        last one that is incomplete. Raises SnapshotError if the log cannot be read or written."""
        try:
            with open(self.log_path, encoding="utf-8", errors="replace", opener=open_in_place) as file:
                lines = file.read(_MAX_LOG_BYTES).splitlines(keepends=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SnapshotError(f"{self.log_path}: cannot read it: {error.strerror}") from error
        kept_lines = [line for line in lines if line.endswith("\n") and _epoch_of(line) <= epochs]
        if kept_lines != lines:
            write_bytes(self.log_path, "".join(kept_lines).encode())

    def save_result(self, model: _SupportsSave, history: Mapping[str, object]) -> Path:
        """Save the trained model and its history; returns the path of the model."""
        model.save(self.model_path)
        write_bytes(self.path / "history.json", json.dumps(history, indent=1).encode())
        return self.model_path

    def save_summary(self, summary: str) -> None:
        """Save ``result.json``, which describes the trained model."""
        write_bytes(self.path / "result.json", summary.encode())


def _epoch_of(line: str) -> float:
    """The number of the epoch of a line of the log; infinite for a line without one."""
    try:
        epoch = json.loads(line)["epoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
    return epoch if isinstance(epoch, int) else math.inf
