"""Databases of Datums as data sets of `prototorch.data.open_source`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prototorch.caffe.data.databases import is_database, open_database
from prototorch.caffe.data.datum import Datum, read_datum
from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.data.images import ColorMode, resize_image
from prototorch.caffe.data.record_database import printable_key
from prototorch.data.dataset import Columns, Dataset, SampleError
from prototorch.data.fingerprint import update_with_files
from prototorch.data.sources import DatabaseFormat, SourceOptions
from prototorch.errors import DataError
from prototorch.spec import Spec

__all__ = ["DatumDataset"]


class DatumDataset(Dataset):
    """The images of an LMDB or LevelDB: columns ``image`` [c, h, w] (uint8, or float32 for ``float_data``) and
    ``label`` (int64 []).

    Channels are in the order of the database, which is blue, green, red in those that Caffe's tools and
    ``prototorch data convert`` make. Images of uint8 are resized (bilinear) to the size of the reader where it has one;
    others must have the shape of the first. The first use of it reads all keys (a LevelDB: the whole database).

    Args:
        path: the database.
        options: its ``reader`` gives the size, and the channels of records that are image files; ``classes`` the names.

    Raises DataError: it has no records, or the first is no image.
    """

    grain_size = 8

    def __init__(self, path: Path, options: SourceOptions):
        self._path = path
        self._database = open_database(path, FileSearch(limits=options.limits))
        self.name = self._database.path
        if not len(self._database):
            raise DataError(f"{self.name}: the {self._database.format} has no records")
        self._mode: ColorMode = "color" if options.reader.color == "rgb" else "gray"
        self._size = options.reader.size
        first = self._read_image(0)
        self.columns = {"image": Spec(first.image.shape, first.image.dtype.name), "label": Spec((), "int64")}
        self.inputs, self.targets = ("image",), ("label",)
        if options.classes:
            self.classes = {"label": tuple(options.classes)}

    def __len__(self) -> int:
        return len(self._database)

    def read(self, indices: np.ndarray) -> Columns:
        spec = self.columns["image"]
        images = np.empty((len(indices), *spec.shape), spec.dtype)
        labels = np.empty(len(indices), np.int64)
        for i, index in enumerate(indices.tolist()):
            datum = self._read_image(index)
            if datum.image.shape != spec.shape or datum.image.dtype != images.dtype:
                raise SampleError(
                    f"{self.origin(index)}: has {list(datum.image.shape)} of {datum.image.dtype}, expected "
                    f"{list(spec.shape)} of {spec.dtype} as in the first record; data {{ size: 224 }} resizes images",
                    index,
                    self.origin(index),
                )
            images[i], labels[i] = datum.image, datum.label
        return {"image": images, "label": labels}

    def origin(self, index: int) -> str:
        return f"{self.name}: record {printable_key(self._database.keys()[index])}"

    def update_fingerprint(self, digest: Any) -> None:
        folder = self._path if self._path.is_dir() else self._path.parent
        files = (
            sorted(p for p in folder.iterdir() if p.suffix in (".mdb", ".ldb", ".sst", ".log") and p.name != "lock.mdb")
            if self._path.is_dir()
            else [self._path]
        )
        update_with_files(digest, files)

    def _read_image(self, index: int) -> Datum:
        try:
            datum = read_datum(self._database.value(index), self.origin(index), self._mode)
        except DataError as error:
            raise SampleError(str(error), index, self.origin(index)) from None
        if self._size is None or datum.image.dtype != np.uint8:
            return datum
        return Datum(resize_image(datum.image, self._size), datum.label, datum.is_encoded)


FORMAT = DatabaseFormat(
    kind="Datums",
    files=("data.mdb", "CURRENT"),  # of LMDB, of LevelDB
    magic=(16, b"\xde\xc0\xef\xbe"),  # of LMDB
    recognise=is_database,
    open=DatumDataset,
)
