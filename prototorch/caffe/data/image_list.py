"""Lists of images as Caffe reads them: in each line the name of a file and, behind the last space, its label."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prototorch.data.safe_io import printable_path, read_lines
from prototorch.errors import DataError

__all__ = ["ImageList", "read_image_list"]

MAX_LIST_BYTES = 1 << 30  # bytes of a list
MAX_LINE_BYTES = 1 << 16  # bytes of a line
_LABEL = re.compile(r"\s*[+-]?\d+")
_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True)
class ImageList:
    """A list. name: printable, for messages. names: as the list has them, which may have spaces. labels: int64."""

    name: str
    names: list[str]
    labels: np.ndarray

    def line(self, index: int) -> str:
        """The place of an entry, for messages."""
        return f"{self.name}, line {index + 1}"


def read_image_list(path: Path) -> ImageList:
    """The entries of a list.

    A line without a space is a name with the label 0, and so is a last word that does not begin with an integer
    (Caffe's ``atoi``). Raises DataError for a file that is missing or empty, has an empty line, or a label beyond 32
    bits.
    """
    name = printable_path(path)
    data = bytes(read_lines(path, MAX_LINE_BYTES, MAX_LIST_BYTES))
    lines = data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n") if data else []
    if not lines:
        raise DataError(f"{name}: is empty; expected a line 'FILE LABEL' for each image")
    names, labels = [], np.empty(len(lines), np.int64)
    for number, text in enumerate(lines):
        line = text.removesuffix("\r")
        file, _, word = line.rpartition(" ")
        if not file:
            file = word = line
        match = _LABEL.match(word)
        label = int(match[0][:20]) if match else 0
        if not file.strip() or label not in _INT32:
            reason = "is empty" if not file.strip() else f"has the label {label}, which does not fit in 32 bits"
            raise DataError(f"{name}, line {number + 1}: {reason}; expected 'FILE LABEL'")
        names.append(file)
        labels[number] = label
    return ImageList(name, names, labels)
