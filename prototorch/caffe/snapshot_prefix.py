"""Where a solver writes its snapshots."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.train.output_paths import resolve_inside

__all__ = ["SnapshotPrefix", "snapshot_prefix"]

MAX_NAME, MAX_PATH = 200, 3800  # bytes of a prefix: 255 and 4095 less _iter_N.solverstate.h5 and a temporary name


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
    a warning. A solver without one has that of its text's name; a folder gets that name, too. Raises TextError, or
    UsageError for a stated one, where it cannot be in front of the names of files.
    """
    stem = "solver" if path is None else path.stem
    if stated is not None:
        wrong = _find_mistake(stated)
        if wrong is not None:
            raise UsageError(f"the prefix of snapshots {wrong}")
        return SnapshotPrefix(os.path.join(stated, stem) if os.path.isdir(stated) else stated, None)
    folder = os.fspath(run_dir) if run_dir is not None else os.curdir
    name = solver["snapshot_prefix"] if solver.has("snapshot_prefix") else stem
    wrong = _find_mistake(name)
    if wrong is not None:
        fail_at(f"snapshot_prefix {wrong}", solver.field_span("snapshot_prefix"))
    parts = PurePosixPath(name).parts
    if os.path.isabs(name) or ".." in parts:
        inside = parts[-1] if parts and parts[-1] not in ("/", "..") else stem
        warn_user(
            f"snapshot_prefix {name!r} leads out of {folder!r}: snapshots are written to "
            f"{os.path.join(folder, inside)}_iter_N...; --snapshot-prefix (prefix= in Python) sets another place",
            ModelWarning,
        )
        name = inside
    elif name.endswith("/") or os.path.isdir(name) or os.path.isdir(os.path.join(folder, name)):
        name = os.path.join(name, stem)
    return SnapshotPrefix(name if run_dir is None else os.path.join(folder, name), folder)


def _find_mistake(prefix: str) -> str | None:
    """Why no file can have a name that starts so; None where one can."""
    control = next((c for c in prefix if unicodedata.category(c) in ("Cc", "Zl", "Zp")), None)
    if control is not None:
        return f"has the control character {control!a}: no part of the name of a file"
    encoded = prefix.encode("utf-8", "surrogatepass")
    name = len(encoded.rsplit(b"/", 1)[-1])
    if len(encoded) > MAX_PATH or max(map(len, encoded.split(b"/"))) > MAX_NAME:
        return f"is too long: {len(encoded)} bytes, {name} behind the last '/'; at most {MAX_PATH} and {MAX_NAME}"
    return None
