"""The exception hierarchy. Every error a user can meet is one of these, each with the exit code of the command line.

PrototorchError            1   (never raised itself)
├── UsageError             2   a wrong argument, from Python or from the shell
│   ├── GradientError      2   ... a gradient that cannot be computed
│   └── MissingMethodError 2   ... a class that lacks a method, such as forward (a NotImplementedError as well)
├── ModelError             3   the model is wrong
│   ├── TextError          3   ... in its text: holds every mistake, each with its position
│   └── ShapeError         3   ... in its shapes: raised by an op's shape inference or a layer
│       └── RangeError     3   ... an index or the number of an axis is out of range (an IndexError as well)
│           └── IndexRangeError  4  ... an index or a label in a tensor or in data (a DataError as well)
├── DataError              4   the data do not match the model: labels, shapes, a corrupt image, an empty set
├── FileError              5   a file cannot be read or written
│   ├── ModelFileError     5   ... a weight or checkpoint file that is damaged, malicious or of another format
│   ├── SnapshotError      5   ... a checkpoint could not be written; the previous one is intact
│   └── WeightsError       5   ... weights that do not match the model
├── TrainingError          6   the training went wrong (loss not finite, ...)
├── ResourceError          7   out of memory, or a limit was reached
│   └── OutOfMemoryError   7   ... of a GPU's memory (a RuntimeError as well)
└── BackendError           8   the requested backend or device is not available
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

from prototorch.base.confusables import describe_character, skeleton
from prototorch.base.terminal import escape_controls

__all__ = [
    "BackendError",
    "DataError",
    "FileError",
    "GradientError",
    "IndexRangeError",
    "MissingMethodError",
    "ModelError",
    "ModelFileError",
    "ModelWarning",
    "OutOfMemoryError",
    "PrototorchError",
    "RangeError",
    "ResourceError",
    "ShapeError",
    "SnapshotError",
    "TextError",
    "TrainingError",
    "UsageError",
    "WeightsError",
]


class PrototorchError(Exception):
    """The root of every error prototorch raises on purpose. Its text shows control characters as escapes.

    diagnostic: the mistake with its place in a text, where it is known; the message shows it.
    """

    exit_code = 1
    diagnostic: Any = None

    def __str__(self) -> str:
        return escape_controls(super().__str__())


class UsageError(PrototorchError, ValueError, RuntimeError):
    """A wrong argument."""

    exit_code = 2


class MissingMethodError(UsageError, NotImplementedError):
    """A method that a subclass must define, such as a module's `forward`."""


class GradientError(UsageError):
    """A gradient that cannot be computed: a value that it needs was changed or freed, or there is none. It is a
    RuntimeError, too, as in PyTorch."""


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


class ShapeError(ModelError, RuntimeError):
    """Incompatible shapes; the op or layer that raised it reports which and why."""


class RangeError(ShapeError, IndexError):
    """An index, or the number of an axis, that is out of range."""


class DataError(PrototorchError, ValueError):
    """Data that cannot be trained on."""

    exit_code = 4


class IndexRangeError(RangeError, DataError):
    """An index or a label among the values of a tensor or of data that is out of range."""

    exit_code = DataError.exit_code


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


class WeightsError(FileError, RuntimeError):
    """Weights that do not match the model they are loaded into; a RuntimeError as PyTorch's of `load_state_dict`."""


class TrainingError(PrototorchError, ArithmeticError):
    """Training cannot go on, for example because the loss is not finite."""

    exit_code = 6


class ResourceError(PrototorchError, MemoryError):
    """More memory (or another resource) is needed than is available."""

    exit_code = 7


class OutOfMemoryError(ResourceError, RuntimeError):
    """A GPU has no memory left for a tensor (torch.cuda.OutOfMemoryError)."""


class BackendError(PrototorchError, RuntimeError):
    """A requested backend or device that is not available here."""

    exit_code = 8


class ModelWarning(UserWarning):
    """Something about the model that is valid and probably unintended."""


class DataWarning(UserWarning):
    """Something about the data that is probably unintended."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line outside of this package that the call came from.

    The command line shows it as one line, ``warning: message``.
    """
    package, level, frame = os.path.dirname(__file__) + os.sep, 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(escape_controls(message), category, stacklevel=level + 1)


_MAX_CANDIDATES, _MAX_COMPARED = 10_000, 300  # names that are looked at, and that a word is compared with
_MAX_COMPARED_LENGTH = 40  # characters of a word for which there is a hint


@lru_cache(maxsize=256)
def explain_word(word: str, in_module: bool = False) -> str:
    """``: for TensorFlow's 'layers.dense', write ...`` for a word of TensorFlow 1's, else an empty string.

    word: with the name of its module (``layers.dense``), or, but for ``in_module``, without it. The table of words is
    loaded when a word is explained.
    """
    words: dict[str, str] = importlib.import_module("prototorch.base.tensorflow_words").TENSORFLOW_WORDS
    last = word.rpartition(".")[2]
    matches = [word] if word in words or in_module else [name for name in words if name.rpartition(".")[2] == last]
    return f": for TensorFlow's {matches[0]!r}, {words[matches[0]]}" if matches and matches[0] in words else ""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known names, or an empty string where none is near.

    In this order: the same name in letters that look alike (Cyrillic, fullwidth: the letter is named); the same name in
    upper or lower case; a name that differs in one letter; the names that contain the word, up to five
    (``crossentropy`` is a part of three losses); the most similar name, if only a few letters differ; a name that is a
    part of the word (``adam_optimizer``). Long words
    have no hint, and of very many names only some are compared.
    """
    if len(word) > _MAX_COMPARED_LENGTH:
        return ""
    names = list(islice(candidates, _MAX_CANDIDATES))
    if len(names) > _MAX_COMPARED:
        names = [n for n in names if abs(len(n) - len(word)) <= 2][:_MAX_COMPARED]
    return _did_you_mean(word, tuple(n for n in names if len(n) <= 2 * _MAX_COMPARED_LENGTH))


@lru_cache(maxsize=256)
def _did_you_mean(word: str, names: tuple[str, ...]) -> str:
    plain = skeleton(word)
    same = [n for n in names if n.lower() == word.lower()]
    similar = _most_similar(word, names)
    is_typo = bool(similar) and len(word) > 4 and _edit_distance(_to_ascii(word), _to_ascii(similar[0])) == 1
    matches = same[:1] or (similar if is_typo else _containing(word, names) or similar or _contained(word, names))
    if plain != word and not matches:
        odd = next(c for c in word if not c.isascii())
        hint = did_you_mean(plain, [n for n in names if n != plain]) if plain not in names else ""
        if plain in names or hint:
            return f"{hint or f' Did you mean {plain!r}?'} {word!r} contains the {describe_character(odd)}."
    if not matches:
        return ""
    if len(matches) == 1 and matches[0][-2:] in ("1D", "3D") and not word.endswith(("1D", "3D")):
        matches = [n for n in names if n == matches[0][:-2] + "2D"] or matches  # images are the usual case
    *first, last = map(repr, matches)
    return f" Did you mean {', '.join(first)}{' or ' if first else ''}{last}?"


def _most_similar(word: str, names: Sequence[str]) -> list[str]:
    """The most similar name, if it differs in one letter of four at most."""
    plain = {_to_ascii(n): n for n in names}
    near = difflib.get_close_matches(_to_ascii(word), plain, n=3, cutoff=0.6)
    near = [n for n in near if _edit_distance(_to_ascii(word), n) <= max(1, (max(len(word), len(n)) + 2) // 4)]
    exact = difflib.get_close_matches(word, [n for n in names if _to_ascii(n) in near], n=1, cutoff=0)
    return exact or [plain[n] for n in near[:1]]


def _edit_distance(a: str, b: str) -> int:
    """Insertions, deletions, replacements and exchanges of neighbours that lead from one text to the other."""
    before, row = list[int](), list(range(len(b) + 1))
    for i, c in enumerate(a, 1):
        previous, before, row = before, row, [i]
        for j, d in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (c != d)))
            if previous and j > 1 and c == b[j - 2] and a[i - 2] == d:
                row[j] = min(row[j], previous[j - 2] + 1)
    return row[-1]


def _contained(word: str, names: Sequence[str]) -> list[str]:
    """The name that is one of the parts of a word: ``adam`` of ``adam_optimizer``; the longest one."""
    parts = {part for part in word.lower().replace("-", "_").split("_") if len(part) > 3}
    return sorted((n for n in names if n.lower() in parts), key=len)[-1:] if "_" in word or "-" in word else []


def _containing(word: str, names: Sequence[str]) -> list[str]:
    """The names that contain a word, one spelling each, if they are few; one alone that is hardly longer."""
    groups: dict[str, list[str]] = {}
    for name in names if len(word) > 3 else ():
        if word.lower() in name.lower() or _begins_a_part(_to_ascii(word), name):
            groups.setdefault(_to_ascii(name), []).append(name)
    spelt = sorted((_same_style(word, group) for group in groups.values()), key=len)
    if not spelt or len(spelt) > 5 or len(spelt[0]) <= len(word) + 2:
        return spelt[:1]
    return spelt


def _begins_a_part(word: str, name: str) -> bool:
    """Whether a name has the word, its separators left out, from the beginning of one of its parts on."""
    parts = re.split(r"[_\W]", name)
    return any(_to_ascii("".join(parts[i:])).startswith(word) for i in range(len(parts)))


def _same_style(word: str, spellings: list[str]) -> str:
    """The spelling in the case of the word (``BinaryCrossentropy`` or ``binary_crossentropy``)."""
    alike = [n for n in spellings if n.islower() == word.islower()]
    return difflib.get_close_matches(word, alike or spellings, 1, 0)[0]


def _to_ascii(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
