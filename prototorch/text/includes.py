"""Reading of files that a text includes, or whose nets are in it: below the folder of the main file, through no link.

``prototorch/blocks/resnet.proto`` is a file of the package, unless the folder of the main file has one of that path.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath

from prototorch.base.package_files import package_folder
from prototorch.errors import did_you_mean
from prototorch.text import limits

SHIPPED = "\0prototorch"  # the first part of the path of a file of the package; no other path has a NUL
_SHIPPED_FOLDERS = ("prototorch", "blocks")  # how the path of a shipped file begins


class IncludeError(Exception):
    """The file must not or cannot be opened."""


class IncludeFiles:
    """Opens files below a root folder. ``root`` None: the text is no file, and nothing can be included."""

    def __init__(self, root: str | None, bytes_read: int = 0):
        self.root = root
        self.bytes = bytes_read

    def locate(
        self,
        path: str,
        base: tuple[str, ...],
        suffixes: tuple[str, ...] = (limits.INCLUDE_SUFFIX,),
        what: str = "an included file",
        namer: str = "the including file",
    ) -> tuple[str, ...]:
        """The parts of a path below the root, for a file that is named in one of folder ``base``.

        suffixes: the ends of names that are allowed: messages show lines of a text, which must be meant to be one.
        what, namer: how messages call it, and the file that names it. Raises IncludeError.
        """
        path_parts = PurePosixPath(path).parts
        if path_parts[:2] == _SHIPPED_FOLDERS and not self._has_own(path_parts, base):
            base, path = (SHIPPED,), "/".join(path_parts[1:])
        elif self.root is None and base[:1] != (SHIPPED,):
            raise IncludeError(
                "A text that is not a file cannot include one; those of the package it can: "
                'include "prototorch/blocks/resnet.proto".'
            )
        if not path or "\0" in path or "\\" in path:
            raise IncludeError(f"{path!r} is not a path of a file ('/' separates folders).")
        if PurePosixPath(path).is_absolute() or (len(path) > 1 and path[1] == ":"):
            raise IncludeError(f"The path of {what} must be relative to {namer}, not absolute.")
        parts = list(base)
        for part in PurePosixPath(path).parts:
            if part == "..":
                if not parts or parts == [SHIPPED]:
                    raise IncludeError(f"{what[0].upper()}{what[1:]} must be below the folder of the main file.")
                parts.pop()
            else:
                parts.append(part)
        if not parts:
            raise IncludeError(f"{path!r} is not a file.")
        if not parts[-1].endswith(suffixes):
            raise IncludeError(f"{path!r}: the name of {what} must end in {' or '.join(suffixes)}.")
        return tuple(parts)

    def _has_own(self, parts: tuple[str, ...], base: tuple[str, ...]) -> bool:
        """Whether the folder of the main file has a file of that path."""
        return self.root is not None and base[:1] != (SHIPPED,) and os.path.lexists(self.name((*base, *parts)))

    def name(self, parts: tuple[str, ...]) -> str:
        """The path as messages show it."""
        return describe_file(parts) if parts[0] == SHIPPED else os.path.join(self.root or "", *parts)

    def read(self, parts: tuple[str, ...], verb: str = "included") -> bytes:
        """The bytes of a file: opened folder by folder without following links; raises IncludeError."""
        with os.fdopen(self._open_regular(parts, verb), "rb") as file:
            data = file.read(limits.MAX_FILE_BYTES + 1)
        self.bytes += len(data)
        if self.bytes > limits.MAX_FILE_BYTES:
            raise IncludeError(f"The text and all it includes have more than {limits.MAX_FILE_BYTES} bytes (16 MiB).")
        return data

    def check_regular(self, parts: tuple[str, ...], verb: str = "included") -> str:
        """The path of a file that is one, and no link; raises IncludeError."""
        os.close(self._open_regular(parts, verb))
        return self.name(parts)

    def _open_regular(self, parts: tuple[str, ...], verb: str) -> int:
        refusal = f"{describe_file(parts)!r} cannot be {verb}"
        try:
            handle = self._open(parts)
        except OSError as error:
            root, below = self._root_and_path(parts)
            link = error.errno is not None and os.path.islink(os.path.join(root, *below))
            why = "it is a symbolic link" if link else (error.strerror or "it cannot be opened")
            raise IncludeError(f"{refusal}: {why}.{self._suggest_shipped(parts)}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise IncludeError(f"{refusal}: it is not a file.")
        return handle

    def _open(self, parts: tuple[str, ...]) -> int:
        careful = (
            os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        )
        root, parts = self._root_and_path(parts)
        if os.open not in os.supports_dir_fd:  # a system without openat: look for links first
            for count in range(1, len(parts) + 1):
                if os.path.islink(os.path.join(root, *parts[:count])):
                    raise OSError(0, "there is a symbolic link on the way")
            return os.open(os.path.join(root, *parts), careful)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                inner = os.open(part, careful | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            return os.open(parts[-1], careful, dir_fd=folder)
        finally:
            os.close(folder)

    def _root_and_path(self, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """The folder that a file is read below, and its path there."""
        if parts[0] == SHIPPED:
            return str(package_folder("models")), parts[1:]
        return self.root or ".", parts

    @staticmethod
    def _suggest_shipped(parts: tuple[str, ...]) -> str:
        """The hint for a file that the package does not have."""
        if parts[0] != SHIPPED:
            return ""
        names = sorted(f"prototorch/blocks/{path.name}" for path in (package_folder("models") / "blocks").iterdir())
        return did_you_mean(describe_file(parts), names) or f" There are {', '.join(names)}."


def describe_file(parts: tuple[str, ...]) -> str:
    """The path of an included file below its root, as messages show it."""
    return "/".join(parts).removeprefix("\0")
