"""A folder of snapshots: a new name for each, the newest few kept, the newest whole one found again.

``NAME_step000123.h5`` are the snapshots, ``latest.json`` lists them in the order in which they were written and says
which is the best and which are pinned. A snapshot is durable before the list names it, and the list names it before an
older one is removed. So after a crash at any moment each file is whole, and one that the list does not know is the
newest. A list that is lost or damaged costs the marks, not the snapshots.
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

from prototorch.errors import ModelFileError, SnapshotError, UsageError
from prototorch.storage import container
from prototorch.storage.atomic_write import check_writable, remove_orphans, write_bytes
from prototorch.storage.container import Scalar

_Read = TypeVar("_Read")
_LIST_NAME = "latest.json"
_MAX_LIST_BYTES = 16 << 20


@dataclass(frozen=True)
class LoadedSnapshot(Generic[_Read]):
    """A snapshot that was read: its ``path`` and ``contents``, and what is wrong with each newer one."""

    path: Path
    contents: _Read
    errors: tuple[ModelFileError, ...]


@dataclass
class _SnapshotList:
    """What ``latest.json`` says: names in the order of writing, the best, the pinned."""

    names: list[str] = field(default_factory=list)
    best: str | None = None
    pinned: set[str] = field(default_factory=set)


class SnapshotFolder:
    """The snapshots of one training run in ``directory``, of which the newest ``keep`` stay (at least 1).

    The best one and pinned ones stay besides. One process at a time may write (`lock.RunLock` sees to that).
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 3, name: str = "snapshot"):
        if keep < 1:
            raise UsageError(f"keep={keep}: at least 1 snapshot must be kept")
        if not re.fullmatch(r"[\w.+-]{1,100}", name) or name.startswith("."):
            raise UsageError(f"name={name!r:.80}: use letters, digits and any of _ . + -")
        self.directory, self.keep, self.name = Path(os.path.abspath(directory)), keep, name
        self._pattern = re.compile(re.escape(name) + r"_step(\d{6,18})\.h5", re.ASCII)

    def prepare(self, size: int) -> list[Path]:
        """Before the first step: make the folder, make sure that snapshots of ``size`` bytes fit, remove orphans.

        Gives back the orphans removed. Raises SnapshotError as `durable.probe`.
        """
        check_writable(self.directory, size, self.keep + 1)
        return remove_orphans(self.directory)

    @property
    def list_path(self) -> Path:
        """Where the list is."""
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
        pinned: bool = False,
    ) -> Path:
        """Write a snapshot of ``arrays`` and ``meta``, then remove the ones that are too many.

        Raises SnapshotError when it cannot be written; all earlier ones are then still there.
        """
        return self.add(step, lambda path: container.write(path, arrays, meta), best=best, pinned=pinned)

    def add(self, step: int, write: Callable[[Path], object], *, best: bool = False, pinned: bool = False) -> Path:
        """As `save`, the file being written by ``write`` (which goes through `container.write`, so it is verified)."""
        path = self.path_of(step)
        self._prune(self._ordered())  # what a crash left over, so that there is never more than one too many
        write(path)
        container.peek(path)
        now = self._ordered()
        now.names = [name for name in now.names if name != path.name] + [path.name]
        now.best = path.name if best else now.best
        now.pinned |= {path.name} if pinned else set()
        self._write(now)
        self._prune(now)
        return path

    def pin(self, step: int, pinned: bool = True) -> None:
        """Keep the snapshot of a step for ever, or no longer. Raises UsageError when there is none."""
        now, name = self._ordered(), self.path_of(step).name
        if name not in now.names:
            raise UsageError(f"{self.directory}: there is no snapshot of step {step}")
        now.pinned = now.pinned | {name} if pinned else now.pinned - {name}
        self._write(now)

    def paths(self) -> list[Path]:
        """All snapshots that are there, the newest last; whether they are whole is not looked at."""
        return [self.directory / name for name in self._ordered().names]

    def best_snapshot(self) -> Path | None:
        """The snapshot that was saved as the best, if there is one."""
        name = self._ordered().best
        return None if name is None else self.directory / name

    def newest_snapshot(self) -> Path | None:
        """The newest whole snapshot, or None when there is no snapshot. Raises ModelFileError when none is whole."""
        found = self.load(container.verify)
        return None if found is None else found.path

    def load(self, read: Callable[[Path], _Read]) -> LoadedSnapshot[_Read] | None:
        """Read the newest snapshot that ``read`` (such as `container.read`) does not refuse; None when there is none.

        Raises ModelFileError, with the fault of each, when there are snapshots and none of them is whole.
        """
        broken: list[ModelFileError] = []
        for path in reversed(self.paths()):
            try:
                return LoadedSnapshot(path, read(path), tuple(broken))
            except ModelFileError as error:
                broken.append(error)
        if broken:
            faults = "\n".join(f"  {error}" for error in broken)
            raise ModelFileError(f"{self.directory}: none of {len(broken)} snapshots can be read:\n{faults}")
        return None

    def clear(self) -> None:
        """Remove every snapshot and the list. Raises SnapshotError naming the one that cannot be removed."""
        for path in self.paths():
            _remove_file(path)
        _remove_file(self.list_path)

    def _ordered(self) -> _SnapshotList:
        """The list, made to agree with the files that are there."""
        try:
            steps = {
                name: int(match[1]) for name in os.listdir(self.directory) if (match := self._pattern.fullmatch(name))
            }
        except FileNotFoundError:
            return _SnapshotList()
        except OSError as error:
            raise SnapshotError(f"{self.directory}: cannot look for snapshots in it: {error.strerror}") from error
        now = self._read()
        known = [name for name in dict.fromkeys(now.names) if name in steps]
        unknown = sorted(steps.keys() - set(known), key=lambda name: steps[name])
        best = now.best if now.best in steps else None
        return _SnapshotList(known + unknown, best, now.pinned & steps.keys())

    def _read(self) -> _SnapshotList:
        try:
            with open(self.list_path, encoding="utf-8") as file:
                found = json.loads(file.read(_MAX_LIST_BYTES))
            names, best, pinned = found["snapshots"], found["best"], found["pinned"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return _SnapshotList()
        texts = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        marks = {name for name in pinned if isinstance(name, str)} if isinstance(pinned, list) else set()
        return _SnapshotList(texts, best if isinstance(best, str) else None, marks)

    def _write(self, now: _SnapshotList) -> None:
        content = {
            "format": 1,
            "latest": now.names[-1] if now.names else None,
            "snapshots": now.names,
            "best": now.best,
            "pinned": sorted(now.pinned),
        }
        write_bytes(self.list_path, json.dumps(content, indent=1).encode())

    def _prune(self, now: _SnapshotList) -> None:
        ordinary = [name for name in now.names if name != now.best and name not in now.pinned]
        for name in ordinary[: -self.keep]:
            _remove_file(self.directory / name)


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot remove it: {error.strerror}; it takes room that is needed") from error
