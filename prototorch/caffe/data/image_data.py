"""ImageData: the images of a list.

Source: ``src/caffe/layers/image_data_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import os
from functools import lru_cache
from math import prod

import numpy as np

from prototorch.caffe.data.blob_source import Blobs, BlobSource
from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.data.image_list import read_image_list
from prototorch.caffe.data.images import read_image
from prototorch.caffe.data.transform import ImageTransform, random_numbers
from prototorch.caffe.text.message import Message
from prototorch.data.safe_io import check_memory
from prototorch.data.shuffling import permutation
from prototorch.errors import DataError

__all__ = ["ImageListSource"]

MAX_DECODING_THREADS = 4


class ImageListSource(BlobSource):
    """A batch is the next images of the list; behind the last one comes the first again.

    All images of a batch must have the same shape after the transformation; the first of each batch decides about it.

    Args:
        param: the layer's ``image_data_param``: ``source`` (see `read_image_list`), ``root_folder`` (what stands before
            each name), ``batch_size``, ``new_height`` and ``new_width`` (both or none), ``is_color``, ``shuffle`` (a
            new order for each pass), ``rand_skip`` (a number of images below it is left out at the start).
        tops: the names of the images and the labels.
        transform: of the images.
        search: where the list and the images are.
        prefetch: batches that are made ahead.

    Raises DataError (on opening and while reading): the list or an image is missing or damaged, or does not fit.
    """

    def __init__(
        self, param: Message, tops: list[str], transform: ImageTransform, search: FileSearch, prefetch: int = 4
    ):
        super().__init__()
        self._size = self._new_size(param)
        if param["batch_size"] < 1:
            raise DataError(f"batch_size must be 1 or more, not {param['batch_size']}")
        path = search.find(param["source"], "list of images")
        self._list = read_image_list(path)
        self.name, self.prefetch = self._list.name, prefetch
        self._search = search.with_folder_of(path)
        self._tops, self._transform, self._batch_size = tops, transform, param["batch_size"]
        self._root, self._is_color, self._is_shuffled = param["root_folder"], param["is_color"], param["shuffle"]
        self._order = lru_cache(maxsize=4)(self._draw_order)
        self._skip = random_numbers(transform.seed, 0, 1 << 32, 1)[0] % param["rand_skip"] if param["rand_skip"] else 0
        if self._skip >= len(self._list.names):
            raise DataError(f"rand_skip has drawn {self._skip:,}, but {self.name} has {len(self._list.names):,} images")
        self.threads = min(MAX_DECODING_THREADS, os.cpu_count() or 1)
        first = int(self._indices(0)[0])
        shape = transform.output_shape(self._read(first).shape, self._list.line(first))
        self.shapes = {tops[0]: (self._batch_size, *shape), tops[1]: (self._batch_size,)}
        self.check_batch_memory(np.dtype(transform.dtype).itemsize)

    def make_batch(self, number: int) -> Blobs:
        indices = self._indices(number)
        images: np.ndarray | None = None
        for i, index in enumerate(indices.tolist()):
            image = self._read(index)
            shape = self._transform.output_shape(image.shape, self._list.line(index))
            if images is None:
                check_memory(self._batch_size * prod(shape) * 4, f"{self.name}: a batch")
                images = np.empty((self._batch_size, *shape), self._transform.dtype)
            if images.shape[1:] != shape:
                raise DataError(
                    f"{self._list.line(index)}: the image gives channels, height, width {list(shape)}, but the batch "
                    f"began with {list(images.shape[1:])}; set new_height and new_width, crop_size, or batch_size: 1"
                )
            self._transform.apply(image, images[i], number, i)
        assert images is not None
        return {self._tops[0]: images, self._tops[1]: self._list.labels[indices].astype(self._transform.dtype)}

    def _indices(self, number: int) -> np.ndarray:
        """The entries of the list that a batch has."""
        count = len(self._list.names)
        first = self._skip + number * self._batch_size
        positions = np.arange(first, first + self._batch_size)
        if not self._is_shuffled:
            return positions % count
        passes = positions // count
        out = np.empty(len(positions), np.int64)
        for current in range(int(passes[0]), int(passes[-1]) + 1):
            in_pass = passes == current
            out[in_pass] = self._order(current)[positions[in_pass] % count]
        return out

    def _draw_order(self, number: int) -> np.ndarray:
        return permutation(len(self._list.names), self._transform.seed, number)

    def _read(self, index: int) -> np.ndarray:
        path = self._search.find(self._root + self._list.names[index], "image", self._list.line(index))
        try:
            return read_image(path, "color" if self._is_color else "gray", self._size)
        except DataError as error:
            raise DataError(f"{self._list.line(index)}: {error}") from None

    @staticmethod
    def _new_size(param: Message) -> tuple[int, int] | None:
        height, width = param["new_height"], param["new_width"]
        if (height > 0) != (width > 0):
            raise DataError(f"new_height is {height} and new_width {width}; set both, or none")
        if max(height, width) > 1 << 15:
            raise DataError(f"new_height is {height:,} and new_width {width:,}; the limit is {1 << 15:,}")
        return (height, width) if height else None
