"""Where a file that a Caffe text names is looked for: relative to the working directory, then beside the text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from prototorch.data.read_limits import ReadLimits
from prototorch.data.safe_io import expand_path, printable_path
from prototorch.errors import DataError, did_you_mean

__all__ = ["FileSearch"]


@dataclass(frozen=True)
class FileSearch:
    """How names in a text become paths.

    folders: those searched behind the working directory, as that of the text, in this order.
    limits: the folders in which all files must lie, those that a list names included; None: no limit.
    """

    folders: tuple[str, ...] = ()
    limits: ReadLimits | None = None

    def find(self, name: str, what: str = "file", list_line: str = "") -> Path:
        """The path of the file or folder of this name.

        what: what the file is, for the message ("list of HDF5 files"). list_line: the list and line that name it; the
        message has these and not the name, since the list may be any file. Raises DataError if there is none, with the
        folders that were searched; UsageError if it lies outside of the limits.
        """
        if not name:
            raise DataError(f"no {what} is given: the field is empty")
        path = next((p for p in self._candidates(name) if os.path.lexists(p)), None)
        if path is None and list_line:
            raise DataError(f"{list_line}: there is no such {what} (the name is not quoted: a list may be any file)")
        if path is None:
            raise DataError(f"{what} {printable_path(name)!r}: there is no such file{self._searched(name)}")
        self.check(name, path)
        return path

    def check(self, name: str, path: str | os.PathLike[str]) -> None:
        """Raise UsageError unless a path, which a text names so, lies within the limits."""
        if self.limits is not None:
            replace(self.limits, declared_paths=frozenset({name})).check(name, path)

    def with_folder_of(self, path: str | os.PathLike[str]) -> FileSearch:
        """The search for names that stand in this file: its own folder comes behind the working directory."""
        folders = dict.fromkeys((str(Path(path).parent), *self.folders))
        return replace(self, folders=tuple(folders))

    def _candidates(self, name: str) -> Iterable[Path]:
        path = expand_path(name)
        yield path
        if not path.is_absolute():
            yield from (Path(folder) / path for folder in self.folders)

    def _searched(self, name: str) -> str:
        path = expand_path(name)
        if path.is_absolute():
            return did_you_mean(name, _siblings(path))
        folders = dict.fromkeys(os.path.abspath(folder) for folder in (os.curdir, *self.folders))
        where = " or ".join(printable_path(folder) for folder in folders)
        names = [os.path.relpath(s, folder) for folder in folders for s in _siblings(Path(folder) / path)]
        return f" in {where}.{did_you_mean(name, names)}"


def _siblings(path: Path) -> list[str]:
    try:
        return [str(path.parent / name) for name in os.listdir(path.parent)]
    except OSError:
        return []
