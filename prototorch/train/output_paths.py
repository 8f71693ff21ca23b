"""Paths of the files that a training writes: what a model text declares stays inside the run folder."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping
from pathlib import Path

from prototorch.errors import UsageError

__all__ = ["check_file_path", "default_run_dir", "format_path", "resolve_inside"]

_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?(\d{0,2})[,_]?(?:\.(\d{1,2}))?[bcdeEfFgGnosxX%]?", re.DOTALL)
_MAX_WIDTH = 64
_MAX_PRECISION = 32


def default_run_dir(name: str) -> Path:
    """The run folder of a model with this name: ``runs/NAME``. Raises UsageError for a name that leads elsewhere, and
    where ``runs`` is a link."""
    folder = Path("runs", name)
    root = os.path.realpath("runs")
    if os.path.islink("runs"):
        raise UsageError(
            f"runs is a link to {root}, which is not followed: give the run folder, with run_dir= in Python or "
            f"--run-dir on the command line, such as {os.path.join(root, name)!r}"
        )
    if not name or ".." in folder.parts or not _is_below(os.path.realpath(folder), root):
        raise UsageError(
            f"the model's name {name!r} leads to {folder}, which is not a folder below runs: "
            "give the run folder, with run_dir= in Python or --run-dir on the command line"
        )
    return folder


def resolve_inside(path: str, folder: str | os.PathLike[str]) -> str:
    """The absolute path of ``path``, relative to ``folder``, with all links resolved; its own folder is created.

    Raises UsageError if it is not inside ``folder``.
    """
    root = os.path.realpath(folder)
    try:
        resolved = os.path.realpath(os.path.join(root, path))
    except (ValueError, OSError) as error:  # a NUL in the path, a cycle of links
        raise UsageError(f"{path!r} is not a path: {error}") from None
    if not _is_below(resolved, root):
        raise UsageError(
            f"{path!r} is outside of the run folder {os.fspath(folder)}: a model file writes inside "
            "it only; callbacks given in Python may write elsewhere, and --run-dir (run_dir= in Python) sets the folder"
        )
    os.makedirs(os.path.dirname(resolved), exist_ok=True)
    return resolved


def check_file_path(path: str, user: str, creates_folders: bool = False) -> None:
    """Raise UsageError if ``user`` could not write a file at a path: it is a folder, or its folder does not exist or
    cannot be written to."""
    folder = os.path.dirname(path) or "."
    while creates_folders and not os.path.lexists(folder):
        folder = os.path.dirname(folder) or "."
    if os.path.isdir(path):
        problem = "is a folder, expected a file"
    elif not os.path.isdir(folder):
        problem = f"its folder {folder} " + ("is a file" if os.path.lexists(folder) else "does not exist")
    elif not os.access(path if os.path.lexists(path) else folder, os.W_OK):
        problem = "cannot be written: permission denied"
    else:
        return
    raise UsageError(f"{user} {path!r}: {problem}")


def format_path(pattern: str, values: Mapping[str, object]) -> str:
    """Format a pattern such as ``"{epoch:03d}-{val_loss:.2f}.h5"``: as `str.format` with plain names only.

    A field is one of the names of ``values``; its format has a width of at most 64 and a precision of at most 32.
    Raises UsageError for anything else.
    """
    parts = []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(pattern):
            parts.append(literal)
            if name is None:
                continue
            if name not in values:
                raise UsageError(f"{pattern!r} names {name!r}, but there are {', '.join(values)}")
            match = _SPEC.fullmatch(spec or "")
            if conversion or match is None or int(match[1] or 0) > _MAX_WIDTH or int(match[2] or 0) > _MAX_PRECISION:
                raise UsageError(
                    f"{pattern!r}: the format of {name!r} must be one of numbers, such as {{{name}:03d}} or "
                    f"{{{name}:.2f}}, with a width of at most {_MAX_WIDTH} and a precision of at most {_MAX_PRECISION}"
                )
            parts.append(format(values[name], spec or ""))
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(f"{pattern!r} is not a valid pattern: {error}") from None
    return "".join(parts)


def _is_below(path: str, root: str) -> bool:
    return path != root and os.path.commonpath([path, root]) == root
