"""The exception hierarchy. Every error a user can meet is one of these, each with the exit code of the command line.

PrototorchError            1   (never raised itself)
├── UsageError             2   a wrong argument, from Python or from the shell
├── ModelError             3   the model is wrong
│   ├── TextError          3   ... in its text: holds every mistake, each with its position
│   └── ShapeError         3   ... in its shapes: raised by an op's shape inference or a layer
├── DataError              4   the data do not match the model: labels, shapes, a corrupt image, an empty set
├── FileError              5   a file cannot be read or written
│   ├── ModelFileError     5   ... a weight or checkpoint file that is damaged, malicious or of another format
│   ├── SnapshotError      5   ... a checkpoint could not be written; the previous one is intact
│   └── WeightsError       5   ... weights that do not match the model
├── TrainingError          6   the training went wrong (loss not finite, ...)
├── ResourceError          7   out of memory, or a limit was reached
└── BackendError           8   the requested backend or device is not available
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from prototorch.terminal import escape_controls

__all__ = [
    "BackendError",
    "DataError",
    "FileError",
    "ModelError",
    "ModelFileError",
    "ModelWarning",
    "PrototorchError",
    "ResourceError",
    "ShapeError",
    "SnapshotError",
    "TextError",
    "TrainingError",
    "UsageError",
    "WeightsError",
]


class PrototorchError(Exception):
    """The root of every error prototorch raises on purpose. Its text shows control characters as escapes."""

    exit_code = 1

    def __str__(self) -> str:
        return escape_controls(super().__str__())


class UsageError(PrototorchError, ValueError):
    """A wrong argument."""

    exit_code = 2


class ModelError(PrototorchError, ValueError):
    """The model is wrong."""

    exit_code = 3


class TextError(ModelError):
    """A model text with mistakes.

    ``mistakes`` holds all mistakes of one run, in the order of the text; ``str()`` shows each with its line.
    """

    def __init__(self, mistakes: Sequence[Any]):
        self.mistakes = tuple(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        return escape_controls("\n".join(str(m) for m in self.mistakes))


class ShapeError(ModelError):
    """Incompatible shapes; the op or layer that raised it reports which and why."""


class DataError(PrototorchError, ValueError):
    """Data that cannot be trained on."""

    exit_code = 4


class FileError(PrototorchError, OSError):
    """A file that cannot be read or written."""

    exit_code = 5

    def __init__(self, message: str):
        super().__init__(message)

    def __str__(self) -> str:
        return escape_controls(str(self.args[0]))


class ModelFileError(FileError):
    """A weight or checkpoint file that is damaged, malicious, or of another format."""


class SnapshotError(FileError):
    """A checkpoint could not be written. The previous one is intact."""


class WeightsError(FileError):
    """Weights that do not match the model they are loaded into."""


class TrainingError(PrototorchError, ArithmeticError):
    """Training cannot go on, for example because the loss is not finite."""

    exit_code = 6


class ResourceError(PrototorchError, MemoryError):
    """More memory (or another resource) is needed than is available."""

    exit_code = 7


class BackendError(PrototorchError, RuntimeError):
    """A requested backend or device that is not available here."""

    exit_code = 8


class ModelWarning(UserWarning):
    """Something about the model that is valid and probably unintended."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line outside of this package that the call came from.

    The command line shows it as one line, ``warning: message``.
    """
    package, level, frame = os.path.dirname(__file__) + os.sep, 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(escape_controls(message), category, stacklevel=level + 1)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known names, or an empty string.

    In this order: the same name in other letters (upper or lower case); the names that contain the word, up to five
    (``crossentropy`` is a part of three losses); the most similar name.
    """
    names = list(candidates)
    same = [n for n in names if n.lower() == word.lower()]
    matches = same[:1] or _containing(word, names) or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not matches:
        plain = {_to_ascii(n): n for n in names}
        matches = [plain[n] for n in difflib.get_close_matches(_to_ascii(word), plain, n=1, cutoff=0.6)]
    if not matches:
        return ""
    if len(matches) == 1 and matches[0][-2:] in ("1D", "3D") and not word.endswith(("1D", "3D")):
        matches = [n for n in names if n == matches[0][:-2] + "2D"] or matches  # images are the usual case
    *first, last = map(repr, matches)
    return f" Did you mean {', '.join(first)}{' or ' if first else ''}{last}?"


def _containing(word: str, names: list[str]) -> list[str]:
    """The names that contain a word, one spelling each, if they are few; one alone that is hardly longer."""
    found: dict[str, list[str]] = {}
    for name in names if len(word) > 3 else ():
        if _to_ascii(word) in _to_ascii(name):
            found.setdefault(_to_ascii(name), []).append(name)
    spelt = sorted((difflib.get_close_matches(word, group, 1, 0)[0] for group in found.values()), key=len)
    if not spelt or len(spelt) > 5 or len(spelt[0]) <= len(word) + 2:
        return spelt[:1]
    return spelt


def _to_ascii(name: str) -> str:
    return name.lower().replace("_", "")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
