"""Lists of windows in images, as R-CNN writes them for Caffe's WindowData.

Source: ``src/caffe/layers/window_data_layer.cpp`` of BVLC/caffe. For each image: ``# INDEX``, the file, its channels,
height and width, the number of windows, and for each window its class, its overlap with an object, and ``x1 y1 x2 y2``
(pixels from 0 on, the last ones inside).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prototorch.data.safe_io import printable_path, read_lines
from prototorch.errors import DataError

__all__ = ["WindowList", "read_window_list"]

MAX_LIST_BYTES = 1 << 32  # bytes of a list
MAX_LINE_BYTES = 1 << 16  # bytes of a line
_INT32 = 1 << 31


@dataclass
class WindowList:
    """A list. name: printable. images: the files' names. channels: of the last image, as Caffe takes it. foreground,
    background: the windows by their overlap, int32 rows ``image, label, x1, y1, x2, y2``; the label of a background
    window is 0."""

    name: str
    images: list[str] = field(default_factory=list)
    channels: int = 0
    foreground: np.ndarray = field(default_factory=lambda: np.zeros((0, 6), np.int32))
    background: np.ndarray = field(default_factory=lambda: np.zeros((0, 6), np.int32))


def read_window_list(path: Path, foreground_overlap: float, background_overlap: float) -> WindowList:
    """Read a list of windows.

    foreground_overlap: the least overlap of a window with an object; background_overlap: of a window of the background
    the overlap is below it. Other windows are left out.

    Raises DataError, with the line: a word is missing or no number, an image's index is not its place in the list, a
    window of the foreground has a label below 1, or the list has no windows of one kind.
    """
    words = _Words(path)
    windows = WindowList(words.name)
    foreground, background = array("i"), array("i")
    while (mark := words.take("'#'", is_optional=True)) is not None:
        number = words.integer("the index of an image")
        if mark != "#" or number != len(windows.images):
            raise words.error(f"expected '# {len(windows.images)}', the next image")
        name = words.take("the file of an image")
        assert name is not None
        windows.images.append(name)
        windows.channels = words.integer("channels")
        words.integer("height")
        words.integer("width")
        for _ in range(words.integer("the number of windows")):
            label, overlap = words.integer("a class"), words.number("an overlap")
            box = [words.integer(name) for name in ("x1", "y1", "x2", "y2")]
            if overlap >= foreground_overlap:
                if label < 1:
                    raise words.error(f"a window with the overlap {overlap:g} is an object, but its class is {label}")
                foreground.extend((number, label, *box))
            elif overlap < background_overlap:
                background.extend((number, 0, *box))
    for rows, what in ((foreground, "foreground"), (background, "background")):
        if not rows:
            raise DataError(
                f"{words.name}: has no windows of the {what} (overlap of {foreground_overlap:g} and more: foreground, "
                f"below {background_overlap:g}: background)"
            )
    windows.foreground = np.array(foreground, np.int32).reshape(-1, 6)
    windows.background = np.array(background, np.int32).reshape(-1, 6)
    return windows


class _Words:
    """The words of a text between white space, with the line of the last one."""

    def __init__(self, path: Path):
        self.name, self.line = printable_path(path), 0
        self._data = bytes(read_lines(path, MAX_LINE_BYTES, MAX_LIST_BYTES))
        self._words = self._iter_words()

    def _iter_words(self) -> Iterator[str]:
        for number, line in enumerate(self._data.split(b"\n"), 1):
            self.line = number
            for word in line.split():
                yield word.decode("utf-8", "surrogateescape")

    def take(self, what: str, is_optional: bool = False) -> str | None:
        word = next(self._words, None)
        if word is None and not is_optional:
            raise self.error(f"the list ends where {what} is expected")
        return word

    def integer(self, what: str) -> int:
        word = str(self.take(what))
        value = int(word) if word.lstrip("+-").isascii() and word.lstrip("+-").isdigit() and len(word) < 12 else None
        if value is None or not -_INT32 <= value < _INT32:
            raise self.error(f"expected {what}, an integer of 32 bits")
        return value

    def number(self, what: str) -> float:
        word = str(self.take(what))
        try:
            return float(np.float32(word))
        except ValueError:
            raise self.error(f"expected {what}, a number") from None

    def error(self, text: str) -> DataError:
        return DataError(f"{self.name}, line {self.line}: {text}")
