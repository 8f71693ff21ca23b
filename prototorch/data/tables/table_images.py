"""Tables with columns of images: the files are decoded as samples are read, the other columns are in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.data.dataset import ArrayDataset, Columns, Dataset, SampleError
from prototorch.data.image_folder import ImageFileDataset
from prototorch.data.image_io import ImageReader
from prototorch.data.read_limits import is_inside
from prototorch.errors import DataError

__all__ = ["ImageTable", "open_image_column"]


def open_image_column(
    paths: np.ndarray, folder: str, reader: ImageReader, label: str, origins: Sequence[str]
) -> ImageFileDataset:
    """The images of a column.

    paths: of the files [rows], texts, relative to ``folder``, the table's. label: of the column, for messages; origins:
    of its cells. Raises DataError for a path that leads out of the folder, after links are resolved.
    """
    root, files = os.path.realpath(folder), []
    for path, origin in zip(paths, origins, strict=True):
        if "\0" in path or not is_inside(os.path.realpath(os.path.join(root, path)), root):
            raise DataError(f"{origin}: the path of an image leads out of the table's folder")
        files.append(os.path.join(folder, path))
    return ImageFileDataset(files, None, reader, name=label, root=root)


class ImageTable(Dataset):
    """Rows of a table of which some inputs are images.

    Args:
        table: the other columns, in memory.
        images: input -> its images, one for each row.
        inputs: all inputs, in order.
    """

    grain_size = 8

    def __init__(self, table: ArrayDataset, images: Mapping[str, ImageFileDataset], inputs: Sequence[str]):
        self._table, self._images = table, dict(images)
        self.name, self.inputs, self.targets, self.weight = table.name, tuple(inputs), table.targets, table.weight
        self.classes, self.table_columns = table.classes, table.table_columns
        self.columns = {**table.columns, **{name: one.columns["image"] for name, one in images.items()}}
        threads = [one.max_threads for one in images.values()]
        self.max_threads = None if None in threads else max(n for n in threads if n is not None)

    def __len__(self) -> int:
        return len(self._table)

    def read(self, indices: np.ndarray) -> Columns:
        return self.read_into(indices, {})

    def read_into(self, indices: np.ndarray, outs: Mapping[str, np.ndarray]) -> Columns:
        columns = self._table.read_into(indices, {n: out for n, out in outs.items() if n not in self._images})
        for name, images in self._images.items():
            try:
                own = {"image": outs[name]} if name in outs else {}
                columns[name] = images.read_into(indices, own)["image"]
            except SampleError as error:
                place = self.origin(error.index)
                raise SampleError(f"{place}: {error}", error.index, place) from None
        return columns

    def origin(self, index: int) -> str:
        return self._table.origin(index)

    def column_array(self, column: str) -> np.ndarray | None:
        return None if column in self._images else self._table.column_array(column)

    def update_fingerprint(self, digest: Any) -> None:
        self._table.update_fingerprint(digest)
        for images in self._images.values():
            images.update_fingerprint(digest)
