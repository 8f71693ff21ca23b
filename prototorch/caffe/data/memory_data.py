"""MemoryData: arrays that a program sets.

Source: ``src/caffe/layers/memory_data_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.caffe.data.blob_source import Blobs, BlobSource
from prototorch.caffe.data.transform import ImageTransform
from prototorch.caffe.text.message import Message
from prototorch.errors import DataError

__all__ = ["MemorySource"]


class MemorySource(BlobSource):
    """A batch is the next rows of the arrays that were set last; behind the last one comes the first again.

    Args:
        param: the layer's ``memory_data_param``: ``batch_size``, ``channels``, ``height``, ``width``.
        tops: the names of the images and the labels.
        transform: of the images of `add_images`; arrays of `set_arrays` are taken as they are.

    Raises DataError for a size below 1.
    """

    prefetch = 0

    def __init__(self, param: Message, tops: list[str], transform: ImageTransform):
        super().__init__()
        self.name = "MemoryData"
        sizes = [param[name] for name in ("batch_size", "channels", "height", "width")]
        if min(sizes) < 1:
            raise DataError(f"batch_size, channels, height and width must be 1 or more, not {sizes}")
        self._tops, self._transform = tops, transform
        self.shapes = {tops[0]: tuple(sizes), tops[1]: (sizes[0],)}
        self.check_batch_memory(np.dtype(transform.dtype).itemsize)
        self._images: np.ndarray | None = None
        self._labels = np.zeros(0)
        self._num_added = 0

    @property
    def batch_size(self) -> int:
        """Rows of a batch. Setting it drops nothing; the arrays must have a multiple of it."""
        return self.shapes[self._tops[0]][0]

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        if value < 1:
            raise DataError(f"batch_size must be 1 or more, not {value}")
        self._check_rows(len(self._labels), value)
        for top in self._tops:
            self.shapes[top] = (value, *self.shapes[top][1:])

    def set_arrays(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Use these arrays from their first row on; they are not copied.

        images: [n, channels, height, width]; labels: [n], or [n, 1, 1, 1]. n is a multiple of the batch size. Raises
        DataError for other shapes.
        """
        expected = self.shapes[self._tops[0]][1:]
        if images.ndim != 4 or images.shape[1:] != expected or not len(images):
            raise DataError(
                f"MemoryData takes images of the shape [n, {', '.join(map(str, expected))}], not {list(images.shape)}"
            )
        if labels.size != len(images) or labels.shape[:1] != images.shape[:1]:
            raise DataError(f"MemoryData takes labels of the shape [{len(images)}], not {list(labels.shape)}")
        self._check_rows(len(images), self.batch_size)
        self._images, self._labels = images, labels.reshape(-1)
        self.seek(0)

    def add_images(self, images: Sequence[np.ndarray], labels: Sequence[int]) -> None:
        """Use these images [channels, height, width] after the layer's transformation (Caffe's AddDatumVector).

        Their number is a multiple of the batch size. Raises DataError for images that do not fit.
        """
        shape = self.shapes[self._tops[0]][1:]
        out = np.empty((len(images), *shape), self._transform.dtype)
        for i, image in enumerate(images):
            got = self._transform.output_shape(image.shape, f"image {i}")
            if got != shape:
                raise DataError(f"image {i} gives channels, height, width {list(got)}; MemoryData has {list(shape)}")
            self._transform.apply(image, out[i], self._num_added, i)
        self._num_added += 1
        self.set_arrays(out, np.asarray(labels))

    def make_batch(self, number: int) -> Blobs:
        if self._images is None:
            raise DataError("MemoryData has no data yet; set them with set_input_arrays")
        first = number * self.batch_size % len(self._images)
        rows = slice(first, first + self.batch_size)
        dtype = self._transform.dtype
        return {self._tops[0]: self._images[rows].astype(dtype), self._tops[1]: self._labels[rows].astype(dtype)}

    def _check_rows(self, rows: int, batch_size: int) -> None:
        if rows % batch_size:
            raise DataError(f"MemoryData has {rows:,} rows, which is no multiple of the batch size {batch_size:,}")
