"""From a name or a path to data sets, by what is there: the content decides, not the file's ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prototorch.data.array_conversion import datasets_from_arrays
from prototorch.data.builtin_datasets import (
    DATASET_NAMES,
    find_idx_files,
    find_labels_file,
    load_builtin_dataset,
    read_idx_pair,
    read_idx_splits,
)
from prototorch.data.csv_reader import read_csv
from prototorch.data.dataset import Dataset
from prototorch.data.idx import is_idx, read_idx
from prototorch.data.image_folder import find_splits, list_class_names, open_image_folder, open_image_list
from prototorch.data.image_io import ImageReader
from prototorch.data.npz import is_npy, is_zip, read_npy, read_npz
from prototorch.data.safe_io import expand_path, inflate_head, is_gzip, printable_path, read_head
from prototorch.errors import DataError, did_you_mean

DatasetSplits = dict[str, Dataset]
ArrayFileReader = Callable[[Path], dict[str, np.ndarray]]


@dataclass(frozen=True)
class SourceOptions:
    """How a source is read; what does not concern its kind is not looked at.

    labels: the columns that are learned, by name (of a CSV table also by index); empty: chosen as each kind says.
        A model that learns its own input names that.
    features: the columns of a CSV file the model reads; empty: all others.
    classes: names of the classes, in order.
    reader: how picture files become arrays.
    folder: where a named set is looked for first.
    """

    labels: Sequence[str | int] = ()
    features: Sequence[str | int] = ()
    classes: Sequence[str] = ()
    reader: ImageReader = field(default_factory=ImageReader)
    folder: str | None = None


_ARRAY_FORMATS: list[tuple[str, Callable[[bytes], bool], ArrayFileReader]] = [
    ("npz", is_zip, read_npz),
    ("npy", is_npy, lambda path: {"x": read_npy(path)}),
]


def register_array_format(kind: str, recognise: Callable[[bytes], bool], read: ArrayFileReader) -> None:
    """Let files of another kind be sources: ``recognise`` looks at the first 16 bytes, ``read`` gives arrays by name.

    A room above this one registers its reader here (HDF5 files are read by storage).
    """
    _ARRAY_FORMATS[:] = [entry for entry in _ARRAY_FORMATS if entry[0] != kind]
    _ARRAY_FORMATS.append((kind, recognise, read))


def open_source(source: str | os.PathLike[str], options: SourceOptions | None = None) -> DatasetSplits:
    """The data sets of a source by part: ``train``, and ``validation`` and ``test`` where the source has them.

    Args:
        source: a name (`DATASET_NAMES`), or the path of: a folder of IDX files, of pictures with one folder a class
        (or with
            ``train``, ``validation``, ``test`` folders of such); an IDX file of pictures with its labels beside it; a
            file of named arrays (npz, HDF5); a list of pictures; a CSV file.
        options: how to read it.

    Raises:
        DataError: it is not there, of no known kind, or damaged.
        ResourceError: it does not fit in memory.
    """
    options = options or SourceOptions()
    if isinstance(source, str) and source in DATASET_NAMES:
        return _with_targets(dict(load_builtin_dataset(source, options.folder)), options)
    path = expand_path(source)
    if path.is_dir():
        return _with_targets(_open_folder(path, options), options)
    if not os.path.lexists(path):
        near = did_you_mean(str(source), [*DATASET_NAMES, *_list_siblings(path)])
        raise DataError(f"{printable_path(path)}: there is no such file or folder, and no data set of this name{near}")
    return _open_file(path, options)


def _with_targets(parts: DatasetSplits, options: SourceOptions) -> DatasetSplits:
    labels = [str(label) for label in options.labels]
    return {part: found.with_targets(labels) for part, found in parts.items()} if labels else parts


def _open_folder(path: Path, options: SourceOptions) -> DatasetSplits:
    pairs = find_idx_files(path)
    if pairs:
        return dict(read_idx_splits(pairs, tuple(options.classes), printable_path(path)))
    parts = find_splits(path)
    if parts:
        classes = tuple(options.classes) or list_class_names(parts["train"])
        return {part: open_image_folder(folder, options.reader, classes) for part, folder in parts.items()}
    return {"train": open_image_folder(path, options.reader, options.classes)}


def _open_file(path: Path, options: SourceOptions) -> DatasetSplits:
    head = read_head(path, 4096)
    if not head:
        raise DataError(f"{printable_path(path)}: is an empty file")
    inner = inflate_head(head, 16, printable_path(path)) if is_gzip(head) else head
    if is_idx(inner) and len(inner) >= 8:
        return _with_targets({"train": _open_idx_file(path, options)}, options)
    for _, recognise, read in _ARRAY_FORMATS:
        if recognise(head[:16]):
            names = [str(label) for label in options.labels]
            return dict(datasets_from_arrays(read(path), printable_path(path), names, options.classes))
    if is_gzip(head) or b"\0" in head:
        known = ", ".join(kind for kind, _, _ in _ARRAY_FORMATS)
        raise DataError(
            f"{printable_path(path)}: is none of the kinds that can be read: IDX, {known}, CSV, a list of pictures"
        )
    if _is_image_list(path, head):
        return _with_targets({"train": open_image_list(path, options.reader, options.classes)}, options)
    labels = list(options.labels) or [-1]
    label = labels[0] if len(labels) == 1 else labels
    return {"train": read_csv(path, label, options.classes, options.features)}


def _open_idx_file(path: Path, options: SourceOptions) -> Dataset:
    if "images" in path.name:
        return read_idx_pair(path, find_labels_file(path), tuple(options.classes))
    return datasets_from_arrays({"x": read_idx(path)}, printable_path(path), (), ())["train"]


def _is_image_list(path: Path, head: bytes) -> bool:
    text = head.decode("utf-8-sig", "replace")
    line = next((line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    parts = line.rsplit(maxsplit=1)
    return len(parts) == 2 and os.path.lexists(os.path.join(path.parent, parts[0]))


def _list_siblings(path: Path) -> list[str]:
    try:
        return [str(path.parent / name) if path.parent != Path() else name for name in os.listdir(path.parent)]
    except OSError:
        return []
