"""Data: the images of a database of Datums, LMDB or LevelDB.

Source: ``src/caffe/layers/data_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import os
import warnings
from math import prod

import numpy as np

from prototorch.caffe.data.blob_source import Blobs, BlobSource
from prototorch.caffe.data.datum import Datum, read_datum
from prototorch.caffe.data.ordered_records import OrderedRecords
from prototorch.caffe.data.record_database import RecordDatabase, printable_key
from prototorch.caffe.data.transform import ImageTransform, random_numbers
from prototorch.data.checks import DataWarning
from prototorch.data.safe_io import check_memory
from prototorch.errors import DataError

__all__ = ["DatabaseSource"]

MAX_DECODING_THREADS = 4


class DatabaseSource(BlobSource):
    """A batch is the next records in the order of their keys; behind the last one comes the first again.

    All images of a batch must have the same shape after the transformation; the first of each batch decides about it.

    Args:
        database: the records; it is closed with the source.
        tops: one or two names: the images, and the labels.
        batch_size: records of a batch.
        transform: of the images.
        rand_skip: a number of records below it is drawn, and left out at the start.
        prefetch: batches that are made ahead.

    Raises DataError (on opening and while reading): there are no records, one is no Datum or has a damaged image, or
    does not fit the transformation.
    """

    def __init__(
        self,
        database: RecordDatabase,
        tops: list[str],
        batch_size: int,
        transform: ImageTransform,
        rand_skip: int = 0,
        prefetch: int = 4,
    ):
        super().__init__()
        if batch_size < 1:
            raise DataError(f"batch_size must be 1 or more, not {batch_size}")
        self.name, self.prefetch = database.path, prefetch
        self._database, self._tops, self._transform = database, tops, transform
        self._batch_size = batch_size
        self._skip = random_numbers(transform.seed, 0, 1 << 32, 1)[0] % rand_skip if rand_skip else 0
        self._records: OrderedRecords | None = None
        first = self._first_datum()
        if transform.color_mode != "unchanged" and not first.is_encoded:
            warnings.warn(
                f"{self.name}: force_color and force_gray have no effect: its records are pixels, not image files",
                DataWarning,
                stacklevel=4,
            )
        self.threads = min(MAX_DECODING_THREADS, os.cpu_count() or 1) if first.is_encoded else 1
        self.shapes = {tops[0]: (batch_size, *transform.output_shape(first.image.shape, self.name))}
        if len(tops) > 1:
            self.shapes[tops[1]] = (batch_size,)
        self.check_batch_memory(np.dtype(transform.dtype).itemsize)

    def make_batch(self, number: int) -> Blobs:
        dtype = self._transform.dtype
        images: np.ndarray | None = None
        labels = np.empty(self._batch_size, dtype)
        assert self._records is not None
        for i, (key, value) in enumerate(self._records.take(number)):
            datum = self._read(key, value)
            name = self._record_name(key)
            shape = self._transform.output_shape(datum.image.shape, name)
            if images is None:
                check_memory(self._batch_size * prod(shape) * 4, f"{self.name}: a batch")
                images = np.empty((self._batch_size, *shape), dtype)
            if images.shape[1:] != shape:
                raise DataError(
                    f"{name}: gives channels, height, width {list(shape)}, but the batch began with "
                    f"{list(images.shape[1:])}; set crop_size, resize the images, or set batch_size to 1"
                )
            self._transform.apply(datum.image, images[i], number, i)
            labels[i] = datum.label
        assert images is not None
        batch = {self._tops[0]: images}
        if len(self._tops) > 1:
            batch[self._tops[1]] = labels
        return batch

    def start(self, number: int) -> None:
        self._records = OrderedRecords(self._database, self._batch_size, self._skip, number)

    def stop(self) -> None:
        if self._records is not None:
            self._records.close()
        super().stop()

    def close(self) -> None:
        super().close()
        self._database.close()

    def _first_datum(self) -> Datum:
        """The record that batch 0 begins with."""
        if self._skip and self._skip >= len(self._database):
            raise DataError(f"rand_skip has drawn {self._skip:,}, but {self.name} has {len(self._database):,} records")
        record = next(self._database.records(self._skip), None)
        if record is None:
            raise DataError(f"{self.name}: the {self._database.format} has no records")
        return self._read(*record)

    def _read(self, key: bytes, value: bytes) -> Datum:
        return read_datum(value, self._record_name(key), self._transform.color_mode)

    def _record_name(self, key: bytes) -> str:
        return f"{self.name}: record {printable_key(key)}"
