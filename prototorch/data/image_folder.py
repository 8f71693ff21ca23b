"""Pictures in folders (one folder a class) or in a list file (lines ``path label``)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prototorch.data.dataset import Columns, Dataset, SampleError
from prototorch.data.image_io import IMAGE_SUFFIXES, ImageReader
from prototorch.data.safe_io import expand_path, printable_path, read_file
from prototorch.errors import DataError, did_you_mean
from prototorch.spec import Spec

MAX_DEPTH = 16  # of folders inside a class's folder
MAX_LIST_BYTES = 1 << 30  # bytes of a list file
TINY_FILE_BYTES = 1 << 12  # bytes: decoding so small a file is mostly Python's own work, which threads cannot share
SPLIT_NAMES = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip


class ImageFileDataset(Dataset):
    """Picture files, decoded when they are read: columns ``image`` (uint8 [c, h, w]) and ``label`` (int64 []).

    Args:
        paths: the files.
        labels: the class of each, int64 [n]; None for pictures without labels.
        reader: how they are decoded. Without a size all must have the size of the first one that can be read.
        classes: names of the classes.
        name: for messages.

    Raises:
        DataError: no files, or (without a size) none that can be read.
    """

    grain_size = 8

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        labels: np.ndarray | None,
        reader: ImageReader,
        classes: Sequence[str] = (),
        name: str = "pictures",
        sorted_by_class: bool = False,
    ):
        if not len(paths):
            raise DataError(f"{name}: holds no pictures ({', '.join(sorted(IMAGE_SUFFIXES))})")
        self.name, self.paths, self.reader, self.sorted_by_class = name, paths, reader, sorted_by_class
        self._labels = None if labels is None else np.asarray(labels, np.int64)
        self._shape = self._find_shape()
        self.max_threads = 1 if _median_file_size(paths) < TINY_FILE_BYTES else None
        self.inputs = ("image",)
        self.columns = {"image": Spec(self._shape, "uint8")}
        self.targets = ()
        if self._labels is not None:
            self.columns["label"] = Spec((), "int64")
            self.targets = ("label",)
            self.classes = {"label": tuple(classes)} if classes else {}

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, indices: np.ndarray) -> Columns:
        return self._read(indices, None)[0]

    def read_valid(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        wrong: list[SampleError] = []
        columns, kept = self._read(indices, wrong)
        return columns, kept, wrong

    def origin(self, index: int) -> str:
        return printable_path(self.paths[index])

    def column_array(self, column: str) -> np.ndarray | None:
        return self._labels if column == "label" else None

    def _read(self, indices: np.ndarray, wrong: list[SampleError] | None) -> tuple[Columns, np.ndarray]:
        images = np.empty((len(indices), *self._shape), np.uint8)
        kept: list[int] = []
        for index in indices:
            try:
                images[len(kept)] = self._one(int(index))
                kept.append(int(index))
            except SampleError as error:
                if wrong is None:
                    raise
                wrong.append(error)
        chosen = np.array(kept, np.int64)
        columns: Columns = {"image": images[: len(kept)]}
        if self._labels is not None:
            columns["label"] = self._labels[chosen]
        return columns, chosen

    def _one(self, index: int) -> np.ndarray:
        try:
            image = self.reader.read(self.paths[index])
        except DataError as error:
            raise SampleError(str(error), index, self.origin(index)) from None
        if image.shape != self._shape:
            raise SampleError(
                f"{self.origin(index)}: is {_format_image_size(image.shape)}, "
                f"the pictures before it are {_format_image_size(self._shape)}; "
                "give the data a size to bring all to the same one",
                index,
                self.origin(index),
            )
        return image

    def _find_shape(self) -> tuple[int, ...]:
        if self.reader.size is not None:
            return (self.reader.channels, *self.reader.size)
        problems = []
        for path in self.paths[:100]:
            try:
                return self.reader.read(path).shape
            except DataError as error:
                problems.append(str(error))
        raise DataError(f"{self.name}: none of the first {len(problems)} pictures can be read: {problems[0]}")


def _median_file_size(paths: Sequence[str | os.PathLike[str]]) -> int:
    """The middle one of the sizes of a few of the files, in bytes."""
    sizes = []
    for path in paths[:: len(paths) // 9 + 1]:
        with contextlib.suppress(OSError, ValueError):
            sizes.append(os.stat(path).st_size)
    return sorted(sizes)[len(sizes) // 2] if sizes else 0


def find_splits(folder: Path) -> dict[str, Path]:
    """The folders ``train``, ``validation``, ``test`` (and their common other names) inside a folder."""
    found = {SPLIT_NAMES[p.name.lower()]: p for p in _list_subfolders(folder) if p.name.lower() in SPLIT_NAMES}
    return found if "train" in found else {}


def list_class_names(folder: Path) -> tuple[str, ...]:
    """The class folders inside a folder, in the order of their names' characters."""
    return tuple(path.name for path in _list_subfolders(folder))


def open_image_folder(
    folder: Path, reader: ImageReader, classes: Sequence[str] = (), name: str = ""
) -> ImageFileDataset:
    """A folder with one folder a class. ``classes`` gives their order (else sorted by name); hidden files are left out.

    Raises:
        DataError: no class folders, a class without its folder or a folder that is no class, or no pictures at all.
    """
    found = list_class_names(folder)
    if not found:
        raise DataError(
            f"{printable_path(folder)}: has no class folders: it should hold one folder of pictures for each class"
        )
    classes = tuple(classes) or found
    for other in found:
        if other not in classes:
            raise DataError(
                f"{printable_path(folder)}: the folder {other!r} is not one of the {len(classes)} classes"
                f"{did_you_mean(other, classes)} ({_abbreviate(classes)})"
            )
    paths: list[str] = []
    labels: list[int] = []
    for label, word in enumerate(classes):
        files = find_image_files(folder / word) if word in found else []
        paths += files
        labels += [label] * len(files)
    return ImageFileDataset(
        paths,
        np.array(labels, np.int64),
        reader,
        classes,
        name or printable_path(folder),
        sorted_by_class=len(classes) > 1,
    )


def find_image_files(folder: str | os.PathLike[str]) -> list[str]:
    """The picture files in a folder and the folders in it, sorted by path; links to folders are not followed."""
    found: list[str] = []
    _collect_image_files(os.fspath(folder), 0, found)
    return sorted(found)


def open_image_list(path: Path, reader: ImageReader, classes: Sequence[str] = (), name: str = "") -> ImageFileDataset:
    """A list file: a line ``path label`` for each picture, paths relative to the list file.

    Labels are whole numbers, or names of classes (in the order of ``classes``, else sorted). A line that begins with
    ``#`` is a comment.

    Raises:
        DataError: with the line: no label, an unknown class, or text that is not UTF-8.
    """
    try:
        text = read_file(path, MAX_LIST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{printable_path(path)}: is not UTF-8 text (byte {error.start})") from None
    paths, words, lines = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        parts = line.rsplit(maxsplit=1)
        if len(parts) < 2:
            raise DataError(f"{printable_path(path)}, line {number}: needs a path and a label, it is {line[:80]!r}")
        paths.append(os.path.join(path.parent, parts[0]))
        words.append(parts[1])
        lines.append(number)
    labels, names = _encode_labels(words, lines, classes, printable_path(path))
    return ImageFileDataset(paths, labels, reader, names, name or printable_path(path))


def open_image_files(paths: Sequence[str | os.PathLike[str]], reader: ImageReader) -> ImageFileDataset:
    """Pictures without labels, to predict from: files, and folders with everything below them.

    Raises:
        DataError: one does not exist, or there are no pictures.
    """
    found: list[str] = []
    for given in map(expand_path, paths):
        found += find_image_files(given) if given.is_dir() else [os.fspath(given)]
    name = printable_path(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
    return ImageFileDataset(found, None, reader, name=name)


def _encode_labels(
    words: list[str], lines: list[int], classes: Sequence[str], name: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    numbers = all(word.lstrip("+-").isdecimal() and len(word) < 19 for word in words)
    if numbers and not all(word in classes for word in words):
        return np.array([int(word) for word in words], np.int64), tuple(classes)
    classes = tuple(classes) or tuple(sorted(set(words)))
    index = {word: i for i, word in enumerate(classes)}
    for word, line in zip(words, lines, strict=True):
        if word not in index:
            hint = did_you_mean(word, classes)
            raise DataError(f"{name}, line {line}: {word!r} is not one of the classes ({_abbreviate(classes)}).{hint}")
    return np.array([index[word] for word in words], np.int64), classes


def _list_subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise DataError(f"{printable_path(folder)}: cannot be read: {error.strerror or error}") from None


def _collect_image_files(folder: str, depth: int, found: list[str]) -> None:
    if depth > MAX_DEPTH:
        raise DataError(f"{printable_path(folder)}: folders are nested more than {MAX_DEPTH} deep")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    _collect_image_files(entry.path, depth + 1, found)
                elif os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
                    found.append(entry.path)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{printable_path(folder)}: cannot be read: {error.strerror or error}") from None


def _abbreviate(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _format_image_size(shape: tuple[int, ...]) -> str:
    return f"{shape[2]} x {shape[1]} pixels ({shape[0]} channels)"
