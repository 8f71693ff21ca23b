"""From a name or a path to data sets, by what is there: the content decides, not the file's ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import DataError, did_you_mean
from .bounded import inflate_head, is_gzip, read_head, resolve, shown
from .csvs import read_csv
from .dataset import Dataset
from .folders import class_names, picture_folder, picture_list, splits_in
from .idx import is_idx, read_idx
from .memory import from_named
from .named import NAMES, idx_files, idx_pair, idx_parts, labels_beside, load_named
from .npz import is_npy, is_zip, read_npy, read_npz
from .pictures import PictureReader

Parts = dict[str, Dataset]
ArrayReader = Callable[[Path], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Options:
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
    reader: PictureReader = field(default_factory=PictureReader)
    folder: str | None = None


_ARRAY_FILES: list[tuple[str, Callable[[bytes], bool], ArrayReader]] = [
    ("npz", is_zip, read_npz),
    ("npy", is_npy, lambda path: {"x": read_npy(path)}),
]


def add_array_files(kind: str, recognise: Callable[[bytes], bool], read: ArrayReader) -> None:
    """Let files of another kind be sources: ``recognise`` looks at the first 16 bytes, ``read`` gives arrays by name.

    A room above this one registers its reader here (HDF5 files are read by storage).
    """
    _ARRAY_FILES[:] = [entry for entry in _ARRAY_FILES if entry[0] != kind]
    _ARRAY_FILES.append((kind, recognise, read))


def open_source(source: str | os.PathLike[str], options: Options | None = None) -> Parts:
    """The data sets of a source by part: ``train``, and ``validation`` and ``test`` where the source has them.

    Args:
        source: a name (`NAMES`), or the path of: a folder of IDX files, of pictures with one folder a class (or with
            ``train``, ``validation``, ``test`` folders of such); an IDX file of pictures with its labels beside it; a
            file of named arrays (npz, HDF5); a list of pictures; a CSV file.
        options: how to read it.

    Raises:
        DataError: it is not there, of no known kind, or damaged.
        ResourceError: it does not fit in memory.
    """
    options = options or Options()
    if isinstance(source, str) and source in NAMES:
        return _learning(dict(load_named(source, options.folder)), options)
    path = resolve(source)
    if path.is_dir():
        return _learning(_folder(path, options), options)
    if not os.path.lexists(path):
        near = did_you_mean(str(source), [*NAMES, *_neighbours(path)])
        raise DataError(f"{shown(path)}: there is no such file or folder, and no data set of this name{near}")
    return _file(path, options)


def _learning(parts: Parts, options: Options) -> Parts:
    labels = [str(label) for label in options.labels]
    return {part: found.learning(labels) for part, found in parts.items()} if labels else parts


def _folder(path: Path, options: Options) -> Parts:
    pairs = idx_files(path)
    if pairs:
        return dict(idx_parts(pairs, tuple(options.classes), shown(path)))
    parts = splits_in(path)
    if parts:
        classes = tuple(options.classes) or class_names(parts["train"])
        return {part: picture_folder(folder, options.reader, classes) for part, folder in parts.items()}
    return {"train": picture_folder(path, options.reader, options.classes)}


def _file(path: Path, options: Options) -> Parts:
    head = read_head(path, 4096)
    if not head:
        raise DataError(f"{shown(path)}: is an empty file")
    inner = inflate_head(head, 16, shown(path)) if is_gzip(head) else head
    if is_idx(inner) and len(inner) >= 8:
        return _learning({"train": _idx_file(path, options)}, options)
    for _, recognise, read in _ARRAY_FILES:
        if recognise(head[:16]):
            names = [str(label) for label in options.labels]
            return dict(from_named(read(path), shown(path), names, options.classes))
    if is_gzip(head) or b"\0" in head:
        known = ", ".join(kind for kind, _, _ in _ARRAY_FILES)
        raise DataError(f"{shown(path)}: is none of the kinds that can be read: IDX, {known}, CSV, a list of pictures")
    if _is_list(path, head):
        return _learning({"train": picture_list(path, options.reader, options.classes)}, options)
    labels = list(options.labels) or [-1]
    label = labels[0] if len(labels) == 1 else labels
    return {"train": read_csv(path, label, options.classes, options.features)}


def _idx_file(path: Path, options: Options) -> Dataset:
    if "images" in path.name:
        return idx_pair(path, labels_beside(path), tuple(options.classes))
    return from_named({"x": read_idx(path)}, shown(path), (), ())["train"]


def _is_list(path: Path, head: bytes) -> bool:
    text = head.decode("utf-8-sig", "replace")
    line = next((line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    parts = line.rsplit(maxsplit=1)
    return len(parts) == 2 and os.path.lexists(os.path.join(path.parent, parts[0]))


def _neighbours(path: Path) -> list[str]:
    try:
        return [str(path.parent / name) if path.parent != Path() else name for name in os.listdir(path.parent)]
    except OSError:
        return []
