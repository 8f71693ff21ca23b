"""``transform_param``: crop, mirror, mean and scale of an image, as Caffe's DataTransformer.

Source: ``src/caffe/data_transformer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import numpy as np

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.data.images import ColorMode
from prototorch.caffe.data.mean_file import read_mean
from prototorch.caffe.text.message import Message
from prototorch.data.safe_io import printable_path
from prototorch.data.shuffling import philox
from prototorch.errors import DataError

__all__ = ["ImageMean", "ImageTransform", "random_numbers"]

_STREAM = 3  # of the random numbers; 0 to 2 are those of the loader


def random_numbers(seed: int, batch: int, item: int, count: int) -> list[int]:
    """Random 64-bit integers, a function of the seed and of the place of an item in the run."""
    numbers: list[int] = philox(seed, batch, item, stream=_STREAM).random_raw(count).tolist()
    return numbers


class ImageMean:
    """What is subtracted from images: ``mean_file`` or ``mean_value`` of a TransformationParameter.

    Attributes: ``image``, [channels, height, width], None without a file; ``values``, one for each channel, or one for
    all; ``path``, of the file. Raises DataError where both are given.
    """

    def __init__(self, param: Message, search: FileSearch, dtype: str):
        self.image: np.ndarray | None = None
        self.path = ""
        self.values = np.asarray(param["mean_value"], dtype)
        if param.has("mean_file"):
            if len(self.values):
                raise DataError("transform_param has both a mean_file and mean_value; one of them must go")
            path = search.find(param["mean_file"], "mean file")
            self.path, self.image = printable_path(path), read_mean(path).astype(dtype, copy=False)

    def channel_values(self, channels: int) -> np.ndarray:
        """``mean_value`` as [channels, 1, 1]. Raises DataError for another number of values."""
        if len(self.values) not in (1, channels):
            raise DataError(
                f"transform_param has {len(self.values)} mean_value, but the images have {channels} channels; "
                f"expected 1 or {channels}"
            )
        return np.broadcast_to(self.values, channels)[:, None, None]


class ImageTransform:
    """The transformation of a data layer's images.

    Args:
        param: the layer's ``transform_param``.
        phase: "TRAIN", where the crop's place is drawn, or "TEST", where it is the middle.
        seed: of the crop's place and of mirroring.
        search: for the mean file.
        dtype: of the results, "float32" or "float64"; all arithmetic is in it.

    Raises DataError: fields that exclude each other, or a mean file that cannot be read.
    """

    def __init__(self, param: Message, phase: str, seed: int, search: FileSearch, dtype: str = "float32"):
        if param["force_color"] and param["force_gray"]:
            raise DataError("transform_param has both force_color and force_gray; one of them must go")
        self.color_mode: ColorMode = "unchanged"
        if param["force_color"] or param["force_gray"]:
            self.color_mode = "color" if param["force_color"] else "gray"
        self.crop_size: int = param["crop_size"]
        self.is_mirrored: bool = param["mirror"]
        self.is_crop_random = phase == "TRAIN" and self.crop_size > 0
        self.scale = np.dtype(dtype).type(param["scale"])
        self.mean = ImageMean(param, search, dtype)
        self.seed, self.dtype = seed, dtype

    def output_shape(self, shape: tuple[int, ...], name: str) -> tuple[int, int, int]:
        """Channels, height and width of what an image of this shape becomes. Raises DataError where it is smaller than
        the crop, or does not have the shape of the mean; ``name`` is the image's."""
        channels, height, width = shape
        crop = self.crop_size
        if crop > height or crop > width:
            raise DataError(f"{name}: crop_size is {crop}, but the image has {height} x {width} pixels")
        if self.mean.image is not None and self.mean.image.shape != shape:
            raise DataError(
                f"{name}: the image has channels, height, width {list(shape)}, but the mean {self.mean.path} "
                f"{list(self.mean.image.shape)}"
            )
        if len(self.mean.values):
            self.mean.channel_values(channels)
        return (channels, crop, crop) if crop else (channels, height, width)

    def apply(self, image: np.ndarray, out: np.ndarray, batch: int, item: int) -> None:
        """Transform an image [channels, height, width] into ``out``, which has its `output_shape`.

        batch, item: the place in the run, which decides about the crop and mirroring.
        """
        top, left, flip = self._draw(image.shape, batch, item)
        rows, columns = slice(top, top + out.shape[1]), slice(left, left + out.shape[2])
        target = out[..., ::-1] if flip else out
        source = image[:, rows, columns]
        if self.mean.image is not None:
            np.subtract(source, self.mean.image[:, rows, columns], out=target, dtype=self.dtype)
        elif len(self.mean.values):
            np.subtract(source, self.mean.channel_values(len(image)), out=target, dtype=self.dtype)
        else:
            target[...] = source
        if self.scale != 1:
            out *= self.scale

    def _draw(self, shape: tuple[int, ...], batch: int, item: int) -> tuple[int, int, bool]:
        """Where the crop starts, and whether the image is mirrored."""
        _, height, width = shape
        room = (height - self.crop_size, width - self.crop_size) if self.crop_size else (0, 0)
        if not self.is_crop_random and not self.is_mirrored:
            return room[0] // 2, room[1] // 2, False
        mirror, row, column = random_numbers(self.seed, batch, item, 3)
        flip = self.is_mirrored and mirror >> 63 == 1
        if not self.is_crop_random:
            return room[0] // 2, room[1] // 2, flip
        return row % (room[0] + 1), column % (room[1] + 1), flip
