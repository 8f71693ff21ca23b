"""What a prediction is for: image files, folders of images, images of Pillow, tables, files of arrays, texts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from prototorch.data.array_conversion import TARGET_NAMES, as_dataset
from prototorch.data.csv_reader import read_csv
from prototorch.data.dataset import ArrayDataset
from prototorch.data.frames import match_columns
from prototorch.data.image_folder import find_image_files
from prototorch.data.image_io import ImageReader
from prototorch.data.ordered_pool import OrderedPool, closing
from prototorch.data.pipeline.columns import Columns
from prototorch.data.pipeline.signature import ModelSignature, Shape
from prototorch.data.pipeline.source import DataSource
from prototorch.data.pipeline.table_statements import table_options
from prototorch.data.pipeline.tables import encode_table
from prototorch.data.safe_io import printable_path
from prototorch.data.sources import find_source, is_array_file, is_dataset_source, is_table, read_array_file
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.table_files import read_header, table_kind
from prototorch.data.tables.table_options import TableOptions
from prototorch.data.tables.table_source import open_table
from prototorch.data.text_files import read_texts
from prototorch.errors import DataError, UsageError

__all__ = ["Samples", "open_paths", "open_samples"]

READ_AHEAD = 16  # images that wait for their batch
IMAGE_SECONDS = 120.0  # that reading one image may take


@dataclass(frozen=True)
class Samples:
    """Samples to predict.

    groups: the columns of samples of one shape each; images that have no common size are several groups, which are read
        as they are taken.
    names: of the samples; of images it grows as they are read; empty: their numbers.
    read_errors: a message for each image that could not be read and was left out.
    targets: what the source says of the samples, by column. folder: of the images, whose subfolders may be classes.
    """

    groups: Iterable[Columns]
    names: list[str] = field(default_factory=list)
    read_errors: list[str] = field(default_factory=list)
    targets: dict[str, np.ndarray] = field(default_factory=dict)
    folder: Path | None = None


def open_samples(x: Any, signature: ModelSignature, batch_size: int, steps: int | None = None) -> Samples:
    """The samples that `Model.predict` is given: what `DataSource` takes, or what `open_paths` takes, a path or a list
    of paths, or images of Pillow. An image that cannot be read is a DataError."""
    if isinstance(x, Samples):
        return x
    if isinstance(x, str | PathLike):
        return open_paths([fspath(x)], signature, batch_size, skips_unreadable=False)
    items = list(x) if isinstance(x, list | tuple) else [x]
    if items and all(isinstance(item, Image.Image) for item in items):
        return _open_images(items, signature, batch_size, skips_unreadable=False)
    are_paths = all(
        isinstance(item, PathLike) or (isinstance(item, str) and not signature.text_names) for item in items
    )
    if items and are_paths:
        return open_paths([fspath(item) for item in items], signature, batch_size, skips_unreadable=False)
    return Samples((DataSource(x, steps=steps).columns(signature),))


def open_paths(
    what: Sequence[str], signature: ModelSignature, batch_size: int, skips_unreadable: bool = True
) -> Samples:
    """Samples from image files, folders of images, one file of arrays (npy, npz, HDF5), one CSV table, or one other
    data source; of a model that reads texts from texts, files of a text per line, tables, and folders of text files.

    skips_unreadable: whether images that cannot be read are left out and listed.

    Raises:
        DataError: a missing path, a folder without images, arrays that are not those of the model.
        UsageError: images and tables together, or several tables.
    """
    if signature.text_names and signature.table.encoding is None and not _holds_ids(what[0]):
        return _open_texts(what, signature)
    paths: list[str] = []
    tables: list[Path] = []
    for item in what:
        path = find_source(item)
        if path is None or is_dataset_source(path):
            if len(what) > 1:
                raise UsageError(f"{item}: a data set is predicted alone, without other files")
            return _open_dataset(item, signature)
        if path.is_dir():
            images = find_image_files(path)
            if not images:
                raise DataError(f"{item}: holds no images")
            paths += images
        elif is_table(path):
            tables.append(path)
        else:
            paths.append(item)
    if not tables:
        folder = Path(what[0]) if len(what) == 1 and Path(what[0]).is_dir() else None
        return _open_images(paths, signature, batch_size, skips_unreadable, folder)
    if paths or len(tables) > 1:
        raise UsageError("predict takes images and folders of images, or one array file or table, not both")
    return _open_arrays(tables[0], signature)


def _open_dataset(source: str, signature: ModelSignature) -> Samples:
    """The samples of a data source that has its own inputs and targets."""
    columns = DataSource(source).columns(signature)
    targets = {name: columns.dataset.column_array(name) for name in columns.dataset.targets}
    return Samples((columns,), targets={name: array for name, array in targets.items() if array is not None})


def _holds_ids(item: str) -> bool:
    """Whether this is a file of arrays: of ids, where the model reads texts."""
    try:
        is_file = os.path.isfile(item)
    except (OSError, ValueError):  # a long text is no path
        return False
    return is_file and is_array_file(Path(item))


def _open_texts(what: Sequence[str], signature: ModelSignature) -> Samples:
    if len(signature.inputs) != 1:
        raise UsageError(
            f"the model reads {len(signature.inputs)} inputs; `prototorch generate` makes a text of a text"
        )
    names, texts = read_texts(what, _features(signature))
    return Samples((DataSource(texts).columns(signature),), names)


def _open_arrays(path: Path, signature: ModelSignature) -> Samples:
    """The samples of a file of arrays, or of a table."""
    if not is_array_file(path) and signature.table.encoding is not None:
        options, labels = table_options(None, signature, learn=False), signature.table.labels
        table = open_table(path, labels, (), (), options=options)
        return Samples((encode_table(Columns(signature, table)),))
    if not is_array_file(path):
        dataset = _read_table(path, signature)
        target = dataset.column_array(dataset.targets[0]) if dataset.targets else None
        return Samples((Columns(signature, dataset),), targets={} if target is None else {"y": target})
    arrays, inputs = read_array_file(path), tuple(signature.inputs)
    targets = {name: arrays[name] for name in TARGET_NAMES if name in arrays and name not in inputs}
    rest = [name for name in arrays if name not in targets]
    x: Any
    if all(name in arrays for name in inputs):
        x = {name: arrays[name] for name in inputs}
    elif "x" in arrays or len(arrays) == 1 or (len(rest) == 1 and len(inputs) == 1):
        x = arrays["x"] if "x" in arrays else arrays[(rest or list(arrays))[0]]
    else:
        expected = ", ".join(inputs)
        raise DataError(f"{path}: holds {', '.join(arrays)}; the model reads {expected} (or one array 'x')")
    dataset = as_dataset(x, inputs=inputs, name=str(path))
    return Samples((Columns(signature, dataset),), targets=targets)


def _read_table(path: Path, signature: ModelSignature) -> ArrayDataset:
    """The columns of a table that the model was trained on; without their names all, or all but the target's."""
    options = TableOptions(table=None if signature.data is None else signature.data.table)
    if len(signature.inputs) > 1:
        names, is_header = read_header(path, None if signature.data is None else signature.data.table)
        groups = match_columns(names, signature, printable_path(path)) if is_header else None
        return _open_columns(path, groups=groups, options=options)
    features = _features(signature)
    if features:
        return _open_columns(path, features=features, options=options)
    table = _open_columns(path, options=options)
    shape = signature.input_shape if len(signature.inputs) == 1 else ()
    if shape and shape[-1] is not None and table.columns["x"].shape[0] == shape[-1] + 1:
        label = [] if signature.data is None else [*signature.data.label]
        return _open_columns(path, label or [-1], options=options)
    return table


def _open_columns(
    path: Path,
    labels: Sequence[str | int] = (),
    features: Sequence[str | int] = (),
    groups: TableColumns | None = None,
    options: TableOptions | None = None,
) -> ArrayDataset:
    """The columns of a table of numbers."""
    if table_kind(path) in (None, "csv"):
        return read_csv(path, labels, features=features, groups=groups)
    table = open_table(path, labels, features, (), groups, options)
    assert isinstance(table, ArrayDataset)
    return table


def _features(signature: ModelSignature) -> list[str | int]:
    """The feature columns that the model was trained on, by name or index; empty where they are not known."""
    return [*(signature.table.features or (() if signature.data is None else signature.data.features))]


def _open_images(
    images: Sequence[str | Image.Image],
    signature: ModelSignature,
    batch_size: int,
    skips_unreadable: bool,
    folder: Path | None = None,
) -> Samples:
    shape = signature.image_shape
    if len(signature.inputs) != 1 or shape is None or len(shape) != 3 or shape[0] not in (1, 3, None):
        listing = ", ".join(f"{name} {_format_shape(shape)}" for name, shape in signature.inputs.items())
        first = images[0] if isinstance(images[0], str) else "an image"
        raise DataError(
            f"{first}: the model's input is not an image but {listing}; give a .npy, .npz, .h5 or .csv file"
        )
    names: list[str] = []
    errors: list[str] = []
    groups = _read_groups(
        images, signature, _image_reader(signature, shape), 8 * batch_size, names, errors, skips_unreadable
    )
    return Samples(groups, names, errors, folder=folder)


def _read_groups(
    images: Sequence[str | Image.Image],
    signature: ModelSignature,
    reader: ImageReader,
    limit: int,
    names: list[str],
    errors: list[str],
    skips_unreadable: bool,
) -> Iterator[Columns]:
    """The images in order, in groups of one size and at most ``limit``; names and errors are appended.

    Raises DataError for an image that cannot be read, unless these are skipped and not all.
    """
    pending: list[np.ndarray] = []
    inputs = tuple(signature.inputs)

    def read(index: int) -> np.ndarray | DataError:
        image = images[index]
        try:
            return reader.read(image) if isinstance(image, str) else reader.convert(image, f"image {index}")
        except DataError as error:
            return error

    threads = min(len(images), 8, os.cpu_count() or 1)
    pool = OrderedPool(
        read,
        len(images),
        threads=threads,
        read_ahead=READ_AHEAD,
        timeout=IMAGE_SECONDS,
        describe=lambda index: str(images[index]),
    )
    with closing(pool):
        for index, image in enumerate(images):
            pixels = pool.take()
            if isinstance(pixels, DataError):
                if not skips_unreadable:
                    raise pixels
                errors.append(str(pixels))
                continue
            if pending and (pixels.shape != pending[0].shape or len(pending) == limit):
                yield Columns(signature, as_dataset(np.stack(pending), inputs=inputs))
                pending.clear()
            names.append(image if isinstance(image, str) else f"image {index}")
            pending.append(pixels)
    if not names:
        raise DataError("\n".join(errors))
    yield Columns(signature, as_dataset(np.stack(pending), inputs=inputs))


def _image_reader(signature: ModelSignature, shape: Shape) -> ImageReader:
    """The reader of images that training used: by the data block, else by the model's input shape."""
    data = signature.data
    size: Any = data.size if data is not None else None
    if size is None and not signature.resizes_images and None not in shape[1:]:
        size = (shape[1], shape[2])
    color = (data.color if data is not None else None) or (
        "gray" if shape[0] == 1 and not signature.converts_color else "rgb"
    )
    return ImageReader(size, color, data.resize if data is not None else "stretch")


def _format_shape(shape: Shape) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
