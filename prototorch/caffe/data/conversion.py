"""Images to a database of Datums, and back: lists, folders of classes and other data sets, LMDB and LevelDB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prototorch.caffe.data.database_writer import DatabaseFormat, new_folder, write_database
from prototorch.caffe.data.databases import is_database, open_database
from prototorch.caffe.data.datum import encode_datum, encode_image_file
from prototorch.caffe.data.image_list import read_image_list
from prototorch.caffe.data.image_records import ImageRecords, encode_pixels, write_images
from prototorch.caffe.data.images import gray_pixels, resize_image
from prototorch.data.builtin_datasets import DATASET_NAMES
from prototorch.data.dataset import Dataset
from prototorch.data.image_folder import find_image_files, find_splits, list_class_names
from prototorch.data.safe_io import expand_path, printable_path, read_head
from prototorch.data.shuffling import permutation
from prototorch.data.sources import find_source, open_source
from prototorch.errors import DataError, UsageError

__all__ = ["ConversionOptions", "convert_data"]

_SAMPLES_AT_ONCE = 256


@dataclass(frozen=True)
class ConversionOptions:
    """How `convert_data` makes records.

    backend: "lmdb" or "leveldb"; None: by the ending of the output. root: what stands before the names of a list; None:
    the folder of the list. is_gray, size, encode_type, is_size_checked, on_missing: see `ImageRecords`. is_shuffled:
    records in random order, by ``seed``. split: the part of a data set. is_forced: replace what exists.
    """

    backend: DatabaseFormat | None = None
    root: str | None = None
    is_gray: bool = False
    size: tuple[int, int] | None = None
    encode_type: str = ""
    is_size_checked: bool = False
    on_missing: Callable[[str], None] | None = None
    is_shuffled: bool = False
    seed: int = 0
    split: str = "train"
    is_forced: bool = False

    @property
    def image_records(self) -> ImageRecords:
        return ImageRecords(self.is_gray, self.size, self.encode_type, self.is_size_checked, self.on_missing)


def convert_data(source: str, output: Path, options: ConversionOptions) -> tuple[int, str]:
    """Write the images of a source as a database, or those of a database as files; see `prototorch data convert`.

    Returns the number of images, and what the output is. Raises DataError for what cannot be read, UsageError for an
    output that exists and options that do not apply, FileError where the output cannot be written.
    """
    if os.path.lexists(output) and not options.is_forced:
        raise UsageError(f"{printable_path(output)}: exists; --force replaces it")
    path = None if source in DATASET_NAMES else find_source(source)
    ending = output.suffix.removeprefix(".").lower()
    backend = options.backend or ("leveldb" if ending == "leveldb" else "lmdb")
    if path is not None and is_database(path):
        return _convert_database(
            path, output, backend if options.backend or ending in ("lmdb", "leveldb") else None, options
        )
    records = _image_records(source, path, options)
    return write_database(output, records, backend, force=options.is_forced), _FORMAT_NAMES[backend]


_FORMAT_NAMES = {"lmdb": "an LMDB", "leveldb": "a LevelDB"}


def _convert_database(
    path: Path, output: Path, backend: DatabaseFormat | None, options: ConversionOptions
) -> tuple[int, str]:
    image_options = [name for name in ("is_gray", "size", "encode_type", "is_size_checked", "is_shuffled", "root")
             if getattr(options, name)]  # fmt: skip
    if image_options:
        names = ", ".join(f"--{name.removeprefix('is_').replace('_', '-')}" for name in image_options)
        raise UsageError(f"a database is converted as it is: {names} does not apply")
    with open_database(path) as database:
        if backend is not None:
            return write_database(output, database.records(), backend, force=options.is_forced), _FORMAT_NAMES[backend]
        with new_folder(output, options.is_forced) as folder:
            return write_images(database, folder), "a folder of images with list.txt"


def _image_records(source: str, path: Path | None, options: ConversionOptions) -> Iterator[tuple[bytes, bytes]]:
    """The records of a list, a folder of classes, or another data set."""
    if path is not None and path.is_dir():
        folder = find_splits(path).get(options.split, path)
        classes = list_class_names(folder)
        if classes:
            files = [
                (str(Path(file).relative_to(folder)), label)
                for label, name in enumerate(classes)
                for file in find_image_files(folder / name)
            ]
            names, labels = [name for name, _ in files], np.array([label for _, label in files], np.int64)
            return options.image_records.records(*_in_order(names, labels, options), str(folder))
    if path is not None and path.is_file() and b"\0" not in read_head(path, 4096) and path.suffix.lower() != ".csv":
        images = read_image_list(path)
        root = str(path.parent if options.root is None else expand_path(options.root))
        return options.image_records.records(*_in_order(images.names, images.labels, options), root)
    splits = open_source(source)
    if options.split not in splits:
        raise DataError(f"{source}: has no part {options.split!r}; it has {', '.join(splits)}")
    return _dataset_records(splits[options.split], options)


def _in_order(names: list[str], labels: np.ndarray, options: ConversionOptions) -> tuple[list[str], np.ndarray]:
    if not options.is_shuffled:
        return names, labels
    order = permutation(len(names), options.seed, 0)
    return [names[i] for i in order.tolist()], labels[order]


def _dataset_records(dataset: Dataset, options: ConversionOptions) -> Iterator[tuple[bytes, bytes]]:
    """The records of a data set of images with labels. Three channels become blue, green, red, as in Caffe."""
    spec = dataset.columns[dataset.inputs[0]]
    is_labelled = len(dataset.targets) == 1 and dataset.columns[dataset.targets[0]].shape == ()
    if len(spec.shape) not in (2, 3) or spec.dtype != "uint8" or not is_labelled:
        raise DataError(
            f"{dataset.name}: a database needs images [channels, height, width] of uint8 with one label each; this has "
            f"{list(spec.shape)} of {spec.dtype}, and the targets {', '.join(dataset.targets) or 'none'}"
        )
    order = permutation(len(dataset), options.seed, 0) if options.is_shuffled else np.arange(len(dataset))
    for start in range(0, len(order), _SAMPLES_AT_ONCE):
        columns = dataset.read(order[start : start + _SAMPLES_AT_ONCE])
        labels = columns[dataset.targets[0]]
        for i, pixels in enumerate(columns[dataset.inputs[0]]):
            image = pixels if pixels.ndim == 3 else pixels[None]
            yield f"{start + i:08}".encode(), _record(image, int(labels[i]), options)


def _record(image: np.ndarray, label: int, options: ConversionOptions) -> bytes:
    if len(image) == 3:
        image = image[::-1]
        if options.is_gray:
            image = gray_pixels(image)
    if options.size is not None:
        image = resize_image(np.ascontiguousarray(image), options.size)
    if options.encode_type:
        ending = "png" if options.encode_type == "auto" else options.encode_type
        return encode_image_file(encode_pixels(image, ending), label)
    return encode_datum(image, label)
