"""A folder of snapshots: a new file for each, pruning to the newest few, recovery of the newest valid one.

``NAME_step000123.h5`` are the snapshots, ``latest.json`` lists them in the order in which they were written, with the
best and the pinned ones, and with those that are removed next. A snapshot is durable before it is listed, and listed
before an older one is removed. So after a crash at any moment each file is complete, and one that is not listed is the
newest. If the list is lost or
damaged, the best and pinned marks are lost, but no snapshot.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from prototorch.engine.storage import container
from prototorch.engine.storage.atomic_write import check_writable, write_bytes
from prototorch.engine.storage.tree_paths import Scalar
from prototorch.errors import ModelFileError, SnapshotError, UsageError

__all__ = ["SnapshotFolder"]

_Read = TypeVar("_Read")
_LIST_NAME = "latest.json"
_MAX_LIST_BYTES = 16 << 20


@dataclass(frozen=True)
class LoadedSnapshot(Generic[_Read]):
    """A snapshot that was read: its ``path`` and ``contents``, and the ``errors`` of the newer ones."""

    path: Path
    contents: _Read
    errors: tuple[ModelFileError, ...]


@dataclass
class _SnapshotList:
    """The content of ``latest.json``: names in the order of writing, the best, the pinned."""

    names: list[str] = field(default_factory=list)
    best: str | None = None
    pins: set[str] = field(default_factory=set)
    pruned: list[str] = field(default_factory=list)  # removed after the list was written: after a crash, the oldest


class SnapshotFolder:
    """The snapshots of one training run in ``directory``, pruned to the newest ``keep`` (at least 1).

    The best and the pinned ones are never pruned. One process at a time may write, which `run_lock.RunLock` ensures.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 3, name: str = "snapshot"):
        if keep < 1:
            raise UsageError(f"keep must be at least 1, got {keep}")
        if not re.fullmatch(r"[\w.+-]{1,100}", name) or name.startswith("."):
            raise UsageError(f"name must consist of letters, digits and _ . + -, got {name!r:.80}")
        self.directory, self.keep, self.name = Path(os.path.abspath(directory)), keep, name
        self._pattern = re.compile(re.escape(name) + r"_step(\d{6,18})\.h5", re.ASCII)

    def prepare(self, size: int) -> None:
        """Before the first step: create the folder, and check that snapshots of ``size`` bytes fit.

        Raises SnapshotError as `check_writable`.
        """
        check_writable(self.directory, size, self.keep + 1)

    @property
    def list_path(self) -> Path:
        """The file that lists the snapshots that are complete."""
        return self.directory / _LIST_NAME

    def path_of(self, step: int) -> Path:
        """The path of the snapshot of a step."""
        return self.directory / f"{self.name}_step{step:06d}.h5"

    def save(
        self,
        step: int,
        arrays: Mapping[str, np.ndarray],
        meta: Mapping[str, Scalar] | None = None,
        *,
        best: bool = False,
        pin: bool = False,
    ) -> Path:
        """Write a snapshot of ``arrays`` and ``meta``, then prune; returns its path.

        Raises SnapshotError if it cannot be written; all earlier ones then still exist.
        """
        return self.add(step, lambda path: container.write(path, arrays, meta), best=best, pin=pin)

    def add(self, step: int, write: Callable[[Path], object], *, best: bool = False, pin: bool = False) -> Path:
        """As `save`, with the file written by ``write``, which must use `container.write`."""
        path = self.path_of(step)
        before = self._list_snapshots()
        if self._prunable(before) or path.name in self._read_list().pruned:
            self._prune(before)  # after a crash, so that there is never more than one in excess
            self._write_list(before)
        write(path)
        container.peek(path)
        current = self._list_snapshots()
        current.names = [name for name in current.names if name != path.name] + [path.name]
        current.best = path.name if best else current.best
        current.pins |= {path.name} if pin else set()
        self._prune(current)
        return path

    def pin(self, step: int, pin: bool = True) -> None:
        """Exempt the snapshot of a step from pruning, or no longer. Raises UsageError if there is none."""
        current, name = self._list_snapshots(), self.path_of(step).name
        if name not in current.names:
            raise UsageError(f"{self.directory}: there is no snapshot of step {step}")
        current.pins = current.pins | {name} if pin else current.pins - {name}
        self._write_list(current)

    def paths(self) -> list[Path]:
        """The paths of all snapshots, the newest last; their content is not verified."""
        return [self.directory / name for name in self._list_snapshots().names]

    def best_snapshot(self) -> Path | None:
        """The snapshot that was saved as the best, or None."""
        name = self._list_snapshots().best
        return None if name is None else self.directory / name

    def newest_snapshot(self) -> Path | None:
        """The newest valid snapshot, or None if there are none. Raises ModelFileError if all are damaged."""
        snapshot = self.load(container.verify)
        return None if snapshot is None else snapshot.path

    def load(self, read: Callable[[Path], _Read]) -> LoadedSnapshot[_Read] | None:
        """Read the newest snapshot for which ``read`` (such as `container.read`) succeeds; None if there are none.

        Raises ModelFileError, with the error of each, if there are snapshots and all are damaged.
        """
        errors: list[ModelFileError] = []
        for path in reversed(self.paths()):
            try:
                return LoadedSnapshot(path, read(path), tuple(errors))
            except ModelFileError as error:
                errors.append(error)
        if errors:
            listing = "\n".join(f"  {error}" for error in errors)
            raise ModelFileError(f"{self.directory}: none of {len(errors)} snapshots can be read:\n{listing}")
        return None

    def clear(self) -> None:
        """Remove all snapshots and the list. Raises SnapshotError for a file that cannot be removed."""
        for path in self.paths():
            _remove_file(path)
        _remove_file(self.list_path)

    def _list_snapshots(self) -> _SnapshotList:
        """The list, corrected to agree with the files in the folder."""
        try:
            steps = {
                name: int(match[1]) for name in os.listdir(self.directory) if (match := self._pattern.fullmatch(name))
            }
        except FileNotFoundError:
            return _SnapshotList()
        except OSError as error:
            raise SnapshotError(f"{self.directory}: cannot list its snapshots: {error.strerror}") from error
        current = self._read_list()
        names = [name for name in dict.fromkeys([*current.pruned, *current.names]) if name in steps]
        new_names = sorted(steps.keys() - set(names), key=lambda name: steps[name])
        best = current.best if current.best in steps else None
        return _SnapshotList(names + new_names, best, current.pins & steps.keys())

    def _read_list(self) -> _SnapshotList:
        try:
            with open(self.list_path, encoding="utf-8") as file:
                content = json.loads(file.read(_MAX_LIST_BYTES))
            names, best, pins = content["snapshots"], content["best"], content["pinned"]
            pruned = content.get("pruned", [])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return _SnapshotList()
        best_name = best if isinstance(best, str) else None
        return _SnapshotList(_strings(names), best_name, set(_strings(pins)), _strings(pruned))

    def _write_list(self, current: _SnapshotList) -> None:
        content = {
            "format": 1,
            "latest": current.names[-1] if current.names else None,
            "snapshots": current.names,
            "pruned": current.pruned,
            "best": current.best,
            "pinned": sorted(current.pins),
        }
        write_bytes(self.list_path, json.dumps(content, indent=1).encode())

    def _prune(self, current: _SnapshotList) -> None:
        """Write the list of the snapshots that stay, then remove the others."""
        current.pruned = self._prunable(current)
        current.names = [name for name in current.names if name not in current.pruned]
        self._write_list(current)
        for name in current.pruned:
            _remove_file(self.directory / name)
        current.pruned = []

    def _prunable(self, current: _SnapshotList) -> list[str]:
        """The names in excess, the oldest first."""
        return [n for n in current.names if n != current.best and n not in current.pins][: -self.keep]


def _strings(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot remove it: {error.strerror}; its space is needed") from error
