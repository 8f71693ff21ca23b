"""Opening of data sources: a name or a path -> data sets by split. The content decides the format, not the suffix."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from prototorch.base.index import Entry, Extension, entries
from prototorch.data import tables
from prototorch.data.array_conversion import datasets_from_arrays
from prototorch.data.builtin_datasets import (
    DATASET_NAMES,
    find_dataset_folder,
    find_idx_files,
    find_labels_file,
    load_builtin_dataset,
    read_idx_pair,
    read_idx_splits,
)
from prototorch.data.dataset import Dataset
from prototorch.data.idx import is_idx, read_idx
from prototorch.data.image_folder import (
    find_splits,
    is_list_line,
    list_class_names,
    open_image_folder,
    open_image_list,
)
from prototorch.data.image_io import IMAGE_SUFFIXES, ImageReader
from prototorch.data.npz import is_npy, is_zip, read_npy, read_npz
from prototorch.data.read_limits import ReadLimits
from prototorch.data.safe_io import expand_path, inflate_head, is_gzip, is_text, printable_path, read_head
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.table_options import TableOptions
from prototorch.data.text_source import TextFormat, open_texts
from prototorch.errors import DataError, did_you_mean

__all__ = [
    "ArrayFormat",
    "DatabaseFormat",
    "DatasetSplits",
    "SourceOptions",
    "describe_source",
    "find_source",
    "is_array_file",
    "is_dataset_source",
    "is_table",
    "open_source",
    "read_array_file",
    "register_array_format",
    "source_beside",
]

DatasetSplits = dict[str, Dataset]
ArrayFileReader = Callable[[Path], dict[str, np.ndarray]]


@dataclass(frozen=True)
class SourceOptions:
    """How a source is read. Options that do not apply to its format are ignored.

    labels: the target columns, by name (of a CSV table also by index); empty: the default of each format. For an
        autoencoder, the name of the input.
    features: the feature columns of a CSV file; empty: all except the targets. groups: those of each of several inputs
        and targets.
    classes: the class names, in label order.
    reader: decodes image files.
    folder: the folder that is searched first for a named set, and in which the images of a list lie.
    limits: on the data that a saved model names; None: none.
    text_folder: the folder of the text that names the source, for messages; see `source_beside`.
    text: how texts are read, for a model that reads texts; None: the source holds no texts.
    """

    labels: Sequence[str | int] = ()
    features: Sequence[str | int] = ()
    classes: Sequence[str] = ()
    reader: ImageReader = field(default_factory=ImageReader)
    folder: str | None = None
    limits: ReadLimits | None = None
    text_folder: str | None = None
    text: TextFormat | None = None
    groups: TableColumns | None = None
    table: TableOptions | None = None


@dataclass(frozen=True)
class ArrayFormat(Extension):
    """A format of files of named arrays. signature: the first bytes of its files. read: the arrays by name."""

    kind: str
    signature: bytes
    read: ArrayFileReader


@dataclass(frozen=True)
class DatabaseFormat(Extension):
    """A format of databases of samples.

    files: names of files, one of which is in each database that is a folder. magic: an offset, and the bytes there in
    each database that is a file. recognise: whether a path with these marks is a database. open: it as a data set.
    """

    kind: str
    files: tuple[str, ...]
    magic: tuple[int, bytes]
    recognise: Callable[[Path], bool]
    open: Callable[[Path, SourceOptions], Dataset]


#: kind, recognition by the first 16 bytes, reader
_ARRAY_FORMATS: list[tuple[str, Callable[[bytes], bool], ArrayFileReader]] = [
    ("npz", is_zip, read_npz),
    ("npy", is_npy, lambda path: {"x": read_npy(path)}),
]


def register_array_format(kind: str, recognise: Callable[[bytes], bool], read: ArrayFileReader) -> None:
    """Register a file format: ``recognise`` gets the first 16 bytes, ``read`` returns arrays by name.

    The last registration of a ``kind`` counts. (A format of the package itself is an `ArrayFormat`.)
    """
    _ARRAY_FORMATS[:] = [entry for entry in _array_formats() if entry[0] != kind]
    _ARRAY_FORMATS.append((kind, recognise, read))


def _array_formats() -> list[tuple[str, Callable[[bytes], bool], ArrayFileReader]]:
    """All formats of arrays, by kind, recognition and reader; what reads an extension is imported when it reads."""
    kinds = {kind for kind, _, _ in _ARRAY_FORMATS}
    extensions = [entry for entry in entries(ArrayFormat.__name__) if entry.facts["kind"] not in kinds]

    def has_signature(entry: Entry) -> Callable[[bytes], bool]:
        return lambda head: head.startswith(entry.facts["signature"])

    def reader(entry: Entry) -> ArrayFileReader:
        return lambda path: entry.load().read(path)

    return [*_ARRAY_FORMATS, *((entry.facts["kind"], has_signature(entry), reader(entry)) for entry in extensions)]


def _database_format(path: Path) -> DatabaseFormat | None:
    """The format of the database at a path; None for another source."""
    for entry in entries(DatabaseFormat.__name__):
        offset, mark = entry.facts["magic"]
        if path.is_dir():
            has_marks = any(os.path.lexists(path / name) for name in entry.facts["files"])
        else:
            has_marks = read_head(path, offset + len(mark))[offset:] == mark
        if has_marks and (database := entry.load()).recognise(path):
            return cast(DatabaseFormat, database)
    return None


def open_source(source: str | os.PathLike[str], options: SourceOptions | None = None) -> DatasetSplits:
    """The data sets of a source by split: ``train``, and ``validation`` and ``test`` if the source has them.

    Args:
        source: a name (one of `DATASET_NAMES`), or the path of: a folder of IDX files; a folder of images with one
            folder per class, or with ``train``, ``validation``, ``test`` folders of that form; an IDX file of images
            next to its label file; a file of named arrays (npz, HDF5); a database of images (LMDB, LevelDB); a list of
            images; a CSV file.
        options: how to read it.

    Raises:
        DataError: the source does not exist, has an unknown format, or is damaged.
        ResourceError: the source does not fit in memory.
        UsageError: the source is outside of the limits.
    """
    options = options or SourceOptions()
    if options.limits is not None and options.folder is not None:
        options.limits.check(options.folder, expand_path(options.folder))
    path = find_source(source, options.limits, options.text_folder)
    if path is None:
        return _with_targets(dict(load_builtin_dataset(str(source), options.folder)), options)
    if options.limits is not None and os.fspath(source) not in options.limits.declared_paths:
        options = replace(options, limits=None)  # the user has named it
    check = partial(options.limits.check, os.fspath(source)) if options.limits is not None else _allow
    if options.text is not None and not _holds_arrays(path):
        return open_texts(path, options.text, options.labels, options.features, options.classes, check)
    database = _database_format(path)
    if database is not None:
        return _with_targets({"train": database.open(path, options)}, options)
    if path.is_dir():
        return _with_targets(_open_folder(path, options, check), options)
    return _open_file(path, options, check)


def _allow(path: Path) -> None:
    """The check of paths without limits."""


def source_beside(source: str, text_folder: str) -> str:
    """A source that a text in this folder names: its path beside the text where it exists there, else as it is, so
    relative to the working directory."""
    if source in DATASET_NAMES or not text_folder:
        return source
    path = text_folder / expand_path(source)
    return str(path) if os.path.lexists(path) else source


def find_source(
    source: str | os.PathLike[str], limits: ReadLimits | None = None, text_folder: str | None = None
) -> Path | None:
    """The path of a source; None for the name of a data set. Raises DataError if there is none, with the folders that
    were searched (``text_folder``, of the text that names it, is one), UsageError if it is outside of the limits."""
    if isinstance(source, str) and source in DATASET_NAMES:
        return None
    path = expand_path(source)
    if limits is not None:
        limits.check(os.fspath(source), path)
    if not os.path.lexists(path):
        folders = [] if path.is_absolute() else [f for f in (text_folder, os.getcwd()) if f]
        where = " or ".join(dict.fromkeys(printable_path(os.path.abspath(folder)) for folder in folders))
        siblings = _list_siblings(path)
        if text_folder:
            siblings += [os.path.relpath(name, text_folder) for name in _list_siblings(text_folder / path)]
        hint = did_you_mean(str(source), [*DATASET_NAMES, *dict.fromkeys(siblings)])
        raise DataError(
            f"{printable_path(path)}: there is no such file or folder{f' in {where}' if where else ''}, "
            f"and no data set of this name.{hint}"
        )
    return path


def _with_targets(splits: DatasetSplits, options: SourceOptions) -> DatasetSplits:
    labels = [str(label) for label in options.labels]
    return {split: dataset.with_targets(labels) for split, dataset in splits.items()} if labels else splits


def _open_folder(path: Path, options: SourceOptions, check: Callable[[Path], None]) -> DatasetSplits:
    pairs = find_idx_files(path)
    if pairs:
        for file in (file for pair in pairs.values() for file in pair):
            check(file)
        return dict(read_idx_splits(pairs, tuple(options.classes), printable_path(path)))
    folders = find_splits(path)
    if folders:
        classes = tuple(options.classes) or list_class_names(folders["train"])
        return {split: _open_images(folder, options, classes, check) for split, folder in folders.items()}
    return {"train": _open_images(path, options, options.classes, check)}


def _open_images(
    folder: Path, options: SourceOptions, classes: Sequence[str], check: Callable[[Path], None]
) -> Dataset:
    """The images of a folder; with limits links out of it are not followed."""
    for path in (folder, *(folder / name for name in list_class_names(folder))):
        check(path)
    root = None if options.limits is None else os.path.realpath(folder)
    return open_image_folder(folder, options.reader, classes, root=root)


def _open_file(path: Path, options: SourceOptions, check: Callable[[Path], None]) -> DatasetSplits:
    head = read_head(path, 4096)
    if not head:
        raise DataError(f"{printable_path(path)}: is an empty file")
    inner = inflate_head(head, 16, printable_path(path)) if is_gzip(head) else head
    if is_idx(inner) and len(inner) >= 8:
        return _with_targets({"train": _open_idx_file(path, options, check)}, options)
    for _, recognise, read in _array_formats():
        if recognise(head[:16]) and not tables.is_workbook(head):
            names = [str(label) for label in options.labels]
            return dict(datasets_from_arrays(read(path), printable_path(path), names, options.classes))
    kind = tables.table_kind(path)
    if kind is None and (is_gzip(head) or b"\0" in head):
        kinds = ", ".join(kind for kind, _, _ in _array_formats())
        raise DataError(
            f"{printable_path(path)}: unknown format; supported are IDX, {kinds}, CSV, JSON lines, Parquet, Feather, "
            "Excel, SQLite, a list of images"
        )
    if kind in (None, "csv") and not is_gzip(head) and _is_image_list(_image_root(path, options), head):
        images = open_image_list(path, options.reader, options.classes, root=_image_root(path, options))
        return _with_targets({"train": images}, options)
    labels, features = list(options.labels) or [-1], list(options.features)
    return {"train": tables.open_table(path, labels, features, options.classes, options.groups, options.table)}


def is_dataset_source(path: Path) -> bool:
    """Whether a path is a data set with its own inputs and targets: IDX files, a database, a list of images; not an
    image, a folder of images, a file of arrays or a table."""
    if _database_format(path) is not None:
        return True
    if path.is_dir():
        return bool(find_idx_files(path))
    head = read_head(path, 4096)
    inner = inflate_head(head, 16, printable_path(path)) if is_gzip(head) else head
    is_list = is_text(head) and _is_image_list(path.parent, head)
    return (is_idx(inner) and len(inner) >= 8) or (is_list and path.suffix.lower() not in IMAGE_SUFFIXES)


def is_table(path: Path) -> bool:
    """Whether a file holds arrays or a table, not an image."""
    return is_array_file(path) or (tables.table_kind(path) is not None and path.suffix.lower() not in IMAGE_SUFFIXES)


def is_array_file(path: Path) -> bool:
    """Whether a file holds named arrays, such as npz or HDF5."""
    head = read_head(path, 4096)
    return not tables.is_workbook(head) and any(recognise(head[:16]) for _, recognise, _ in _array_formats())


def read_array_file(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; that of npy is ``x``. Raises DataError for a file of another format."""
    head = read_head(path, 16)
    for _, recognise, read in _array_formats():
        if recognise(head):
            return read(path)
    raise DataError(f"{printable_path(path)}: is no file of arrays")


def _holds_arrays(path: Path) -> bool:
    """Whether a source of a model that reads texts has arrays, of ids, instead."""
    if path.is_dir():
        return bool(find_idx_files(path))
    return is_idx(read_head(path, 16)) or is_array_file(path)


def _open_idx_file(path: Path, options: SourceOptions, check: Callable[[Path], None]) -> Dataset:
    if "images" in path.name:
        labels = find_labels_file(path)
        check(labels)
        return read_idx_pair(path, labels, tuple(options.classes))
    return datasets_from_arrays({"x": read_idx(path)}, printable_path(path), (), ())["train"]


def _image_root(path: Path, options: SourceOptions) -> Path:
    """The folder that the paths in a list of images are relative to."""
    return path.parent if options.folder is None else expand_path(options.folder)


def describe_source(source: str, folder: str | None = None) -> str:
    """Where a source is read from: its absolute path with all links resolved; for a set of the package its name."""
    if source not in DATASET_NAMES:
        return printable_path(os.path.realpath(expand_path(source)))
    where = find_dataset_folder(source, folder)
    return source if where is None else f"{source} in {printable_path(os.path.realpath(where))}"


def _is_image_list(root: Path, head: bytes) -> bool:
    text = head.decode("utf-8-sig", "replace")
    line = next((line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return is_list_line(line, root)


def _list_siblings(path: Path) -> list[str]:
    try:
        return [str(path.parent / name) if path.parent != Path() else name for name in os.listdir(path.parent)]
    except OSError:
        return []
