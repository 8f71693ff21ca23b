"""Which data a saved model may name: files inside the folders that its reader allows, after links are resolved."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from prototorch.data.safe_io import printable_path
from prototorch.errors import UsageError

__all__ = ["Paths", "ReadLimits", "is_inside", "resolved_paths"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True)
class ReadLimits:
    """The limits on the data that a saved model names; what its user names is not limited.

    Attributes:
        model: the path of the saved model, for messages.
        declared_paths: the paths that the model names itself, as they are written.
        folders: the allowed folders and files, absolute and with all links resolved.
    """

    model: str
    declared_paths: frozenset[str]
    folders: tuple[str, ...]

    def check(self, source: str, path: str | os.PathLike[str]) -> None:
        """Raise UsageError where the model itself names ``source`` and ``path``, where it is found, is not allowed."""
        resolved = os.path.realpath(path)
        if source in self.declared_paths and not any(is_inside(resolved, folder) for folder in self.folders):
            raise UsageError(
                f"{printable_path(self.model)} names data at {printable_path(resolved)}, outside of "
                f"{', '.join(printable_path(folder) for folder in self.folders)}: a saved model reads data inside the "
                "working directory only. --allow-read DIR (allow_read= of load_model) allows another folder; data "
                "given with --data or in Python are always read"
            )


def resolved_paths(paths: Paths) -> tuple[str, ...]:
    """One path or several, absolute and with all links resolved."""
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    return tuple(os.path.realpath(os.path.expanduser(path)) for path in several)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; both absolute, with links resolved."""
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)
