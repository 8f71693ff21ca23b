"""Data sets of image files: a folder per class, or a list file with lines ``path label``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from prototorch.data.dataset import Columns, Dataset, SampleError
from prototorch.data.fingerprint import update_with_array, update_with_files
from prototorch.data.image_io import IMAGE_SUFFIXES, ImageReader
from prototorch.data.label_words import encode_labels
from prototorch.data.read_limits import is_inside
from prototorch.data.safe_io import expand_path, printable_path, read_lines
from prototorch.errors import DataError, did_you_mean
from prototorch.spec import Spec

__all__ = [
    "TINY_FILE_BYTES",
    "FolderLabels",
    "ImageFileDataset",
    "find_image_files",
    "find_splits",
    "folder_labels",
    "is_list_line",
    "list_class_names",
    "open_image_files",
    "open_image_folder",
    "open_image_list",
]

MAX_MISSING = 100  # a list whose first images are all missing is refused when it is opened
MAX_DEPTH = 16  # of nested folders inside a class folder
MAX_LIST_BYTES = 1 << 30  # bytes of a list file
MAX_LINE_BYTES = 1 << 16  # of a line of a list file
TINY_FILE_BYTES = 1 << 12  # decoding files below this size is mostly Python code, which threads do not speed up
SPLIT_NAMES = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip


class ImageFileDataset(Dataset):
    """Image files, decoded when they are read: columns ``image`` (uint8 [c, h, w]), ``label`` (int64 or float32 []).

    Args:
        paths: the files.
        labels: the label of each file, int64 or float32 [n]; None for images without labels.
        reader: decodes the files. If it has no size, all images must have the size of the first readable one.
        classes: the class names.
        name: for messages.
        sorted_by_class: as for `Dataset`.
        root: the folder, with links resolved, outside of which links to files are not followed; None: they are.
        lines: the line of each file in a list file, for messages.

    Raises:
        DataError: no files, or (without a size) none of the first 100 can be read.
    """

    grain_size = 8

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        labels: np.ndarray | None,
        reader: ImageReader,
        classes: Sequence[str] = (),
        name: str = "images",
        sorted_by_class: bool = False,
        root: str | None = None,
        lines: Sequence[int] | None = None,
    ):
        self.root, self.lines = root, lines
        if not len(paths):
            raise DataError(f"{name}: has no image files ({', '.join(sorted(IMAGE_SUFFIXES))})")
        self.name, self.paths, self.reader, self.sorted_by_class = name, paths, reader, sorted_by_class
        self._labels = labels
        self._shape = self._find_shape()
        self.max_threads = 1 if _median_file_size(paths) < TINY_FILE_BYTES else None
        self.inputs = ("image",)
        self.columns = {"image": Spec(self._shape, "uint8")}
        self.targets = ()
        if self._labels is not None:
            self.columns["label"] = Spec((), self._labels.dtype.name)
            self.targets = ("label",)
            self.classes = {"label": tuple(classes)} if classes else {}

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, indices: np.ndarray) -> Columns:
        return self._read(indices, None)[0]

    def read_into(self, indices: np.ndarray, outs: Mapping[str, np.ndarray]) -> Columns:
        return self._read(indices, None, outs.get("image"))[0]

    def read_valid(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        errors: list[SampleError] = []
        columns, valid = self._read(indices, errors)
        return columns, valid, errors

    def origin(self, index: int) -> str:
        return printable_path(self.paths[index])

    def column_array(self, column: str) -> np.ndarray | None:
        return self._labels if column == "label" else None

    def update_fingerprint(self, digest: Any) -> None:
        update_with_files(digest, self.paths)
        if self._labels is not None:
            update_with_array(digest, "label", self._labels)

    def _read(
        self, indices: np.ndarray, errors: list[SampleError] | None, out: np.ndarray | None = None
    ) -> tuple[Columns, np.ndarray]:
        images = np.empty((len(indices), *self._shape), np.uint8) if out is None else out
        valid: list[int] = []
        for index in indices:
            try:
                images[len(valid)] = self._read_image(int(index))
                valid.append(int(index))
            except SampleError as error:
                if errors is None:
                    raise
                errors.append(error)
        valid_indices = np.array(valid, np.int64)
        columns: Columns = {"image": images[: len(valid)] if len(valid) < len(images) else images}
        if self._labels is not None:
            columns["label"] = self._labels[valid_indices]
        return columns, valid_indices

    def _read_image(self, index: int) -> np.ndarray:
        try:
            image = self._decode(self.paths[index])
        except DataError as error:
            place = "" if self.lines is None else f"{self.name}, line {self.lines[index]}: "
            raise SampleError(f"{place}{error}", index, self.origin(index)) from None
        if image.shape != self._shape:
            raise SampleError(
                f"{self.origin(index)}: has {_format_image_size(image.shape)}, expected "
                f"{_format_image_size(self._shape)} as in the first image; set `size` to resize all images",
                index,
                self.origin(index),
            )
        return image

    def _decode(self, path: str | os.PathLike[str]) -> np.ndarray:
        if self.root is not None and os.path.islink(path) and not is_inside(os.path.realpath(path), self.root):
            raise DataError(f"{printable_path(path)}: is a link to a file outside of {printable_path(self.root)}")
        return self.reader.read(path)

    def _find_shape(self) -> tuple[int, ...]:
        if self.reader.size is not None:
            return (self.reader.channels, *self.reader.size)
        errors = []
        for path in self.paths[:100]:
            try:
                return self._decode(path).shape
            except DataError as error:
                errors.append(str(error))
        raise DataError(f"{self.name}: none of the first {len(errors)} images can be read: {errors[0]}")


def _median_file_size(paths: Sequence[str | os.PathLike[str]]) -> int:
    """The median size of a few of the files, in bytes."""
    sizes = []
    for path in paths[:: len(paths) // 9 + 1]:
        with contextlib.suppress(OSError, ValueError):
            sizes.append(os.stat(path).st_size)
    return sorted(sizes)[len(sizes) // 2] if sizes else 0


def find_splits(folder: Path) -> dict[str, Path]:
    """Split -> subfolder ``train``, ``validation``, ``test``, or a common alias; empty without a training folder."""
    splits = {SPLIT_NAMES[p.name.lower()]: p for p in _list_subfolders(folder) if p.name.lower() in SPLIT_NAMES}
    return splits if "train" in splits else {}


def list_class_names(folder: Path) -> tuple[str, ...]:
    """The names of the class folders inside a folder, sorted."""
    return tuple(path.name for path in _list_subfolders(folder))


class FolderLabels(NamedTuple):
    """What a folder of images says of files in it: the number of each one's class, the names of the classes, and the
    split of each ("train", "test"); all empty where it has no class folders."""

    labels: list[int]
    classes: tuple[str, ...]
    splits: list[str]


def folder_labels(folder: Path, files: Sequence[str]) -> FolderLabels:
    """The classes of image files in a folder with one subfolder per class, or with splits of that form."""
    parts = find_splits(folder) or {"": folder}
    classes = list_class_names(parts.get("train", folder))
    inside: list[tuple[str, str]] = []
    for file in files:
        split, root = next(((s, p) for s, p in parts.items() if PurePath(file).is_relative_to(p)), ("", folder))
        names = PurePath(file).relative_to(root).parts
        inside.append((split, names[0] if len(names) > 1 else ""))
    if len(classes) < 2 or any(name not in classes for _, name in inside) or (len(parts) > 1 and "" in dict(inside)):
        return FolderLabels([], (), [])
    return FolderLabels([classes.index(name) for _, name in inside], classes, [split for split, _ in inside if split])


def open_image_folder(
    folder: Path, reader: ImageReader, classes: Sequence[str] = (), name: str = "", root: str | None = None
) -> ImageFileDataset:
    """A data set of a folder with one subfolder per class. Hidden files are ignored.

    ``classes`` are the class names in label order; by default the names of the subfolders, sorted. ``root``: as for
    `ImageFileDataset`.

    Raises:
        DataError: no class folders, a folder that is not one of ``classes``, or no image files.
    """
    folders = list_class_names(folder)
    if not folders:
        raise DataError(f"{printable_path(folder)}: has no class folders; expected one folder of images per class")
    classes = tuple(classes) or folders
    for other in folders:
        if other not in classes:
            raise DataError(
                f"{printable_path(folder)}: the folder {other!r} is not one of the {len(classes)} classes"
                f"{did_you_mean(other, classes)} ({_abbreviate(classes)})"
            )
    paths: list[str] = []
    labels: list[int] = []
    for label, word in enumerate(classes):
        files = find_image_files(folder / word) if word in folders else []
        paths += files
        labels += [label] * len(files)
    return ImageFileDataset(
        paths,
        np.array(labels, np.int64),
        reader,
        classes,
        name or printable_path(folder),
        sorted_by_class=len(classes) > 1,
        root=root,
    )


def find_image_files(folder: str | os.PathLike[str], suffixes: frozenset[str] | set[str] = IMAGE_SUFFIXES) -> list[str]:
    """The image files in a folder and its subfolders (or those with other suffixes), sorted by path; links to folders
    are not followed."""
    paths: list[str] = []
    _collect_files(os.fspath(folder), suffixes, 0, paths)
    return sorted(paths)


def open_image_list(
    path: Path, reader: ImageReader, classes: Sequence[str] = (), name: str = "", root: Path | None = None
) -> ImageFileDataset:
    """A data set of a list file: a line ``path label`` per image.

    Paths are relative to ``root``, by default the folder of the list file, and lie inside it after links are resolved.
    Labels are integers, numbers (float32 targets), or class names (numbered in the order of ``classes``, by default
    sorted). A line that starts with ``#`` is a comment.

    Raises:
        DataError: a line without a label, with an unknown class or with a path outside of ``root``, or text that is
            not UTF-8. Lines are not quoted: the file may be of another kind.
    """
    try:
        text = read_lines(path, MAX_LINE_BYTES, MAX_LIST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{printable_path(path)}: is not UTF-8 text (byte {error.start})") from None
    images = _ImageRoot(path.parent if root is None else root)
    paths, words, lines = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        parts = line.rsplit(maxsplit=1)
        if len(parts) < 2:
            raise DataError(f"{printable_path(path)}, line {number}: expected a path and a label, got one word")
        image = images.find(parts[0])
        if image is None:
            raise DataError(
                f"{printable_path(path)}, line {number}: the image is outside of {printable_path(images.resolved)}: "
                "a list names images inside its own folder, or inside the one that data { folder: ... } names"
            )
        if _has_image_name_inside(parts[0]) and not os.path.lexists(image):
            raise DataError(
                f"{printable_path(path)}, line {number}: there is no image {printable_path(image)}; a line is "
                "`path label`: the last word alone is the label, and all before it the path"
            )
        paths.append(image)
        words.append(parts[1])
        lines.append(number)
    labels, names = encode_labels(words, classes, lambda at: f"{printable_path(path)}, line {lines[at]}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        at = int(np.argmin(np.isfinite(labels)))
        raise DataError(
            f"{printable_path(path)}, line {lines[at]}: the label is {labels[at]}; expected finite numbers, or class "
            "names listed in data { classes: [...] }"
        )
    if paths and not any(map(os.path.lexists, paths[:MAX_MISSING])):
        raise DataError(
            f"{printable_path(path)}, line {lines[0]}: there is no image {printable_path(paths[0])}"
            f"{_count_others(len(paths[:MAX_MISSING]) - 1)}; paths in a list are relative to its own folder, or to the "
            "one that data { folder: ... } names"
        )
    name = name or printable_path(path)
    return ImageFileDataset(paths, labels, reader, names, name, root=images.resolved, lines=lines)


def _has_image_name_inside(path: str) -> bool:
    """Whether the path ends in other words than its image, as where a line has several labels."""
    *names, last = path.split()
    return not _is_image_name(last) and any(map(_is_image_name, names))


def _is_image_name(word: str) -> bool:
    return os.path.splitext(word)[1].lower() in IMAGE_SUFFIXES


def is_list_line(line: str, root: Path) -> bool:
    """Whether a line names an image and a label, as in a list file whose images lie in this folder."""
    parts = line.rsplit(maxsplit=1)
    if len(parts) < 2:
        return False
    has_image = any(map(_is_image_name, parts[0].split())) and not {",", ";", "\t"} & set(parts[0])
    return has_image or os.path.lexists(os.path.join(root, parts[0]))


def _count_others(count: int) -> str:
    return f" (nor the next {count})" if count else ""


class _ImageRoot:
    """The folder that the images of a list lie in."""

    def __init__(self, folder: Path):
        self.folder, self.resolved = folder, os.path.realpath(folder)
        self._is_allowed: dict[str, bool] = {}  # by the folder of the image: lists are long

    def find(self, name: str) -> str | None:
        """The path of an image, absolute or relative to the folder; None where its folder is outside."""
        path = os.path.join(self.folder, name)
        parent = os.path.dirname(path)
        if parent not in self._is_allowed:
            self._is_allowed[parent] = is_inside(os.path.realpath(parent), self.resolved)
        return path if self._is_allowed[parent] else None


def open_image_files(paths: Sequence[str | os.PathLike[str]], reader: ImageReader) -> ImageFileDataset:
    """A data set without labels, for prediction, of files and of all image files in folders.

    Raises:
        DataError: a folder cannot be read, or there are no image files.
    """
    files: list[str] = []
    for path in map(expand_path, paths):
        files += find_image_files(path) if path.is_dir() else [os.fspath(path)]
    name = printable_path(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
    return ImageFileDataset(files, None, reader, name=name)


def _list_subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise DataError(f"{printable_path(folder)}: cannot be read: {error.strerror or error}") from None


def _collect_files(folder: str, suffixes: frozenset[str] | set[str], depth: int, paths: list[str]) -> None:
    if depth > MAX_DEPTH:
        raise DataError(f"{printable_path(folder)}: folders are nested deeper than {MAX_DEPTH}")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    _collect_files(entry.path, suffixes, depth + 1, paths)
                elif os.path.splitext(entry.name)[1].lower() in suffixes:
                    paths.append(entry.path)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{printable_path(folder)}: cannot be read: {error.strerror or error}") from None


def _abbreviate(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _format_image_size(shape: tuple[int, ...]) -> str:
    return f"{shape[2]} x {shape[1]} pixels ({shape[0]} channels)"
