"""Where a solver writes its snapshots."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prototorch.errors import ModelWarning, warn_user
from prototorch.text.caffe.message import Message
from prototorch.train.output_paths import resolve_inside

__all__ = ["SnapshotPrefix", "snapshot_prefix"]


@dataclass(frozen=True)
class SnapshotPrefix:
    """path: what stands in front of ``_iter_N.caffemodel``. folder: that it must not lead out of; None: anywhere."""

    path: str
    folder: str | None

    def check(self, names: tuple[str, ...]) -> None:
        """Raise UsageError for paths that lead out of the folder, by links."""
        if self.folder is not None:
            for name in names:
                resolve_inside(os.path.relpath(name, self.folder), self.folder)


def snapshot_prefix(
    solver: Message, path: Path | None, stated: str | None, run_dir: str | os.PathLike[str] | None
) -> SnapshotPrefix:
    """The prefix of a solver.

    path: of its text. stated: by the user, who may write anywhere. run_dir: the folder that the solver's own
    ``snapshot_prefix`` is relative to (None: the working directory). One that leads out of it keeps its last part, with
    a warning. A solver without one has that of its text's name; a folder gets that name, too.
    """
    stem = "solver" if path is None else path.stem
    if stated is not None:
        return SnapshotPrefix(os.path.join(stated, stem) if os.path.isdir(stated) else stated, None)
    folder = os.fspath(run_dir) if run_dir is not None else os.curdir
    name = solver["snapshot_prefix"] if solver.has("snapshot_prefix") else stem
    parts = PurePosixPath(name).parts
    if os.path.isabs(name) or ".." in parts:
        inside = parts[-1] if parts and parts[-1] not in ("/", "..") else stem
        warn_user(f"snapshot_prefix {name!r} leads out of {folder!r}: snapshots are written to "
                  f"{os.path.join(folder, inside)}_iter_N...; --snapshot-prefix (prefix= in Python) sets another place",
                  ModelWarning)  # fmt: skip
        name = inside
    elif name.endswith("/") or os.path.isdir(name) or os.path.isdir(os.path.join(folder, name)):
        name = os.path.join(name, stem)
    return SnapshotPrefix(name if run_dir is None else os.path.join(folder, name), folder)
