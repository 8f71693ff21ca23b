"""WindowData: windows of images, of objects and of the background, warped to one size.

Source: ``src/caffe/layers/window_data_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass

import numpy as np

from prototorch.caffe.data.blob_source import Blobs, BlobSource
from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.data.images import decode_image, resize_image
from prototorch.caffe.data.transform import ImageMean, random_numbers
from prototorch.caffe.data.window_list import read_window_list
from prototorch.caffe.text.message import Message
from prototorch.data.image_io import MAX_FILE_BYTES
from prototorch.data.safe_io import check_memory, read_file
from prototorch.errors import DataError

__all__ = ["WindowPlacement", "WindowSource", "place_window"]

MAX_DECODING_THREADS = 4


@dataclass(frozen=True)
class WindowPlacement:
    """A window: rows and columns of the image, the height and width that they are resized to, and where the result
    begins in the crop."""

    rows: slice
    columns: slice
    height: int
    width: int
    top: int
    left: int


def place_window(
    box: tuple[int, int, int, int],
    image_size: tuple[int, int],
    crop: int,
    context_pad: int = 0,
    square: bool = False,
    flip: bool = False,
    dtype: str = "float32",
) -> WindowPlacement:
    """Where a window goes in a crop.

    box: x1, y1, x2, y2. image_size: height and width. crop: of the result. context_pad: pixels of the result on each
    side that show what is around the window. square: widen the window to a square. flip: whether the result is
    mirrored. dtype: of the arithmetic. What lies outside of the image stays empty. Raises ValueError for a window that
    is not in the image.
    """
    x1, y1, x2, y2 = box
    height, width, top, left = crop, crop, 0, 0
    if context_pad > 0 or square:
        real = np.dtype(dtype).type
        scale = real(crop) / real(crop - 2 * context_pad)
        half_height, half_width = real((y2 - y1 + 1) / 2), real((x2 - x1 + 1) / 2)
        center_x, center_y = real(x1) + half_width, real(y1) + half_height
        if square:
            half_height = half_width = max(half_height, half_width)
        x1, x2 = _round(center_x - half_width * scale), _round(center_x + half_width * scale)
        y1, y2 = _round(center_y - half_height * scale), _round(center_y + half_height * scale)
        scale_x, scale_y = real(crop) / real(max(1, x2 - x1 + 1)), real(crop) / real(max(1, y2 - y1 + 1))
        pad_x1, pad_y1 = max(0, -x1), max(0, -y1)
        pad_x2, pad_y2 = max(0, x2 - image_size[1] + 1), max(0, y2 - image_size[0] + 1)
        x1, x2, y1, y2 = x1 + pad_x1, x2 - pad_x2, y1 + pad_y1, y2 - pad_y2
        top, left = _round(real(pad_y1) * scale_y), _round(real(pad_x2 if flip else pad_x1) * scale_x)
        width = min(_round(real(x2 - x1 + 1) * scale_x), crop - left)
        height = min(_round(real(y2 - y1 + 1) * scale_y), crop - top)
    if not (0 <= x1 <= x2 < image_size[1] and 0 <= y1 <= y2 < image_size[0] and height > 0 and width > 0):
        raise ValueError
    return WindowPlacement(slice(y1, y2 + 1), slice(x1, x2 + 1), height, width, top, left)


def _round(value: np.floating) -> int:
    """To the nearest integer, halves away from 0 (C's ``round``)."""
    number = float(value)
    return math.floor(number + 0.5) if number >= 0 else math.ceil(number - 0.5)


class WindowSource(BlobSource):
    """A batch has windows of the background, then windows of objects, each drawn from all of its kind.

    Args:
        param: the layer's ``window_data_param``: ``source`` (see `read_window_list`), ``root_folder``, ``batch_size``,
            ``fg_threshold``, ``bg_threshold``, ``fg_fraction`` (the share of objects in a batch), ``context_pad``,
            ``crop_mode`` ("warp" or "square"), ``cache_images`` (keep the files in memory), ``scale``.
        transform_param: its ``crop_size``, ``mirror``, ``mean_file`` and ``mean_value`` are used. The factor is that
            of ``param``; a ``scale`` here is not used, as in Caffe.
        tops: the names of the images and the labels; the label of the background is 0.
        seed: of the windows that are drawn, and of mirroring.
        search: where the list, the images and the mean are.
        dtype, prefetch: as for the other sources.

    Raises DataError (on opening and while reading): a file is missing or damaged, a window is outside of its image.
    """

    def __init__(
        self,
        param: Message,
        transform_param: Message,
        tops: list[str],
        seed: int,
        search: FileSearch,
        dtype: str = "float32",
        prefetch: int = 4,
    ):
        super().__init__()
        self._crop, self._pad = transform_param["crop_size"], param["context_pad"]
        if self._crop < 1 or (2 * self._pad >= self._crop > 0 and self._pad):
            raise DataError(f"WindowData takes a crop_size above 2 x context_pad, not {self._crop} with {self._pad}")
        if param["batch_size"] < 1:
            raise DataError(f"batch_size must be 1 or more, not {param['batch_size']}")
        path = search.find(param["source"], "list of windows")
        self._windows = read_window_list(path, param["fg_threshold"], param["bg_threshold"])
        self.name, self.prefetch = self._windows.name, prefetch
        if self._windows.channels != 3:
            raise DataError(f"{self.name}: the images have {self._windows.channels} channels; WindowData reads 3")
        self._search, self._root = search.with_folder_of(path), param["root_folder"]
        self._is_square, self._is_mirrored = param["crop_mode"] == "square", transform_param["mirror"]
        self._batch_size = param["batch_size"]
        self._num_objects = int(np.float32(self._batch_size) * np.float32(param["fg_fraction"]))
        if not 0 <= self._num_objects <= self._batch_size:
            raise DataError(f"fg_fraction must be 0 to 1, not {param['fg_fraction']:g}")
        self._scale = np.dtype(dtype).type(param["scale"])
        self._tops, self._seed, self._dtype = tops, seed, dtype
        self._mean = self._crop_mean(ImageMean(transform_param, search, dtype))
        self._files: dict[int, bytes | bytearray] | None = {} if param["cache_images"] else None
        self._lock = threading.Lock()
        self.threads = min(MAX_DECODING_THREADS, os.cpu_count() or 1)
        self.shapes = {tops[0]: (self._batch_size, 3, self._crop, self._crop), tops[1]: (self._batch_size,)}
        self.check_batch_memory(np.dtype(dtype).itemsize)

    def make_batch(self, number: int) -> Blobs:
        images = np.zeros(self.shapes[self._tops[0]], self._dtype)
        labels = np.empty(self._batch_size, self._dtype)
        for i in range(self._batch_size):
            is_object = i >= self._batch_size - self._num_objects
            windows = self._windows.foreground if is_object else self._windows.background
            draw, mirror = random_numbers(self._seed, number, i, 2)
            image, label, *box = windows[draw % len(windows)].tolist()
            self._fill(images[i], image, (box[0], box[1], box[2], box[3]), self._is_mirrored and mirror >> 63 == 1)
            labels[i] = label
        return {self._tops[0]: images, self._tops[1]: labels}

    def _fill(self, out: np.ndarray, index: int, box: tuple[int, int, int, int], flip: bool) -> None:
        """Put a window into a crop; where it has no pixels the crop stays 0."""
        image = self._read(index)
        size = (image.shape[1], image.shape[2])
        try:
            place = place_window(box, size, self._crop, self._pad, self._is_square, flip, self._dtype)
        except ValueError:
            raise DataError(
                f"{self.name}: the window {list(box)} of {self._windows.images[index]!r} does not lie in the image, "
                f"which has {image.shape[2]} x {image.shape[1]} pixels"
            ) from None
        pixels = resize_image(np.ascontiguousarray(image[:, place.rows, place.columns]), (place.height, place.width))
        target = (slice(None), slice(place.top, place.top + place.height), slice(place.left, place.left + place.width))
        out[target] = pixels[..., ::-1] if flip else pixels
        out[target] -= np.broadcast_to(self._mean, out.shape)[target]
        out[target] *= self._scale

    def _crop_mean(self, mean: ImageMean) -> np.ndarray:
        """What is subtracted from a crop: the middle of a mean image, or a value for each channel."""
        if mean.image is None:
            return mean.channel_values(3) if len(mean.values) else np.zeros((1, 1, 1), self._dtype)
        channels, height, width = mean.image.shape
        start = (width - self._crop) // 2  # of rows as well, as in Caffe
        if channels != 3 or start < 0 or start + self._crop > height:
            raise DataError(
                f"the mean {mean.path} has channels, height, width {[channels, height, width]}; the crop needs 3 "
                f"channels, {self._crop} columns, and as many rows from row {max(0, start)} on"
            )
        return mean.image[:, start : start + self._crop, start : start + self._crop]

    def _read(self, index: int) -> np.ndarray:
        name = self._root + self._windows.images[index]
        data = None if self._files is None else self._files.get(index)
        try:
            if data is None:
                list_line = f"{self.name}, image {index}"
                data = read_file(self._search.find(name, "image", list_line), MAX_FILE_BYTES)
                self._keep(index, data)
            return decode_image(data, name)
        except DataError as error:
            raise DataError(str(error) if str(error).startswith(self.name) else f"{self.name}: {error}") from None

    def _keep(self, index: int, data: bytes | bytearray) -> None:
        if self._files is not None:
            with self._lock:
                self._files[index] = data
                check_memory(sum(map(len, self._files.values())), f"{self.name}: cache_images")
