"""Decoding of image files to arrays with Pillow, within limits.

Only the listed formats are tried (none of them runs another program), the size is checked before decoding, and any
exception of a decoder becomes a DataError with the file's name.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError

__all__ = [
    "IMAGE_SUFFIXES",
    "MAX_FILE_BYTES",
    "ImageReader",
    "apply_exif_orientation",
    "image_errors",
    "open_image",
]

IMAGE_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".pbm", ".tif", ".tiff"})
MAX_FILE_BYTES = 256 << 20  # bytes
MAX_PIXELS = 1 << 26  # 67 million: 8192 x 8192

ColorMode = Literal["rgb", "gray"]
ResizeMode = Literal["stretch", "crop", "pad"]


def open_image(data: bytes | bytearray | memoryview, name: str) -> Image.Image:
    """An image file whose header has been read; ``image.load()`` decodes it. To be called within `image_errors`.

    Raises DataError for more than `MAX_PIXELS` pixels, Pillow's exceptions for what it cannot read.
    """
    image = Image.open(io.BytesIO(data), formats=IMAGE_FORMATS)
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"{name}: has {width} x {height} pixels; the limit is {MAX_PIXELS:,}")
    return image


@contextlib.contextmanager
def image_errors(name: str) -> Iterator[None]:
    """What a decoder raises becomes a DataError with this name."""
    try:
        yield
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"{name}: {error}") from None
    except Image.UnidentifiedImageError:
        raise DataError(f"{name}: is not an image ({', '.join(IMAGE_FORMATS)})") from None
    except Exception as error:  # decoders may raise any exception on damaged files
        raise DataError(f"{name}: damaged image: {type(error).__name__}: {error}") from None


@dataclass(frozen=True)
class ImageReader:
    """Decodes image files to arrays: uint8 [channels, height, width], 0..255.

    size: (height, width) to resize to (bilinear, antialiased); None keeps the size of each image.
    color: ``"rgb"`` (3 channels) or ``"gray"`` (1; ITU-R 601-2 luma). An alpha channel is dropped.
    resize_mode: ``"stretch"`` ignores the aspect ratio, ``"crop"`` crops to it, ``"pad"`` adds black borders.

    The EXIF orientation is applied; of an animation the first frame is read; 16-bit grey values are scaled to 8 bits.
    """

    size: tuple[int, int] | None = None
    color: ColorMode = "rgb"
    resize_mode: ResizeMode = "stretch"

    @property
    def channels(self) -> int:
        """The number of channels: 3 for rgb, 1 for gray."""
        return 3 if self.color == "rgb" else 1

    def read(self, path: str | os.PathLike[str]) -> np.ndarray:
        """Decode an image file. Raises DataError, with the path: missing, not an image, damaged, too large."""
        data = read_file(path, MAX_FILE_BYTES)
        if not data:
            raise DataError(f"{printable_path(path)}: is an empty file")
        return self.decode(data, printable_path(path))

    def decode(self, data: bytes | bytearray, name: str) -> np.ndarray:
        """Decode the bytes of an image file; ``name`` is for messages. Raises as `read` does."""
        with image_errors(name):
            image = open_image(data, name)
            if self.size and image.format == "JPEG":
                image.draft(
                    None, (2 * self.size[1], 2 * self.size[0])
                )  # the decoder downsamples images that are far larger
            return self.convert(image, name)

    def convert(self, image: Image.Image, name: str) -> np.ndarray:
        """An image of Pillow as an array, as `read` decodes files; ``name`` is for messages. Raises as `read` does."""
        with image_errors(name):
            image.load()
            return self._to_array(self._resize(self._convert_color(apply_exif_orientation(image))))

    def _convert_color(self, image: Image.Image) -> Image.Image:
        if image.mode.startswith("I"):
            image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
        elif image.mode == "F":
            raise DataError("images of floating-point values are not supported; save them as npz")
        elif image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return image.convert("RGB" if self.color == "rgb" else "L")

    def _resize(self, image: Image.Image) -> Image.Image:
        if self.size is None or image.size == self.size[::-1]:
            return image
        size = self.size[::-1]
        if self.resize_mode == "crop":
            return ImageOps.fit(image, size, Image.Resampling.BILINEAR)
        if self.resize_mode == "pad":
            return ImageOps.pad(image, size, Image.Resampling.BILINEAR)
        return image.resize(size, Image.Resampling.BILINEAR)

    def _to_array(self, image: Image.Image) -> np.ndarray:
        pixels = np.asarray(image)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if pixels.ndim == 3 else pixels[None].copy()


_EXIF_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


def apply_exif_orientation(image: Image.Image) -> Image.Image:
    """The image as its EXIF orientation says that it is to be seen."""
    try:
        method = _EXIF_TRANSPOSES.get(image.getexif().get(0x0112, 1))
    except Exception:  # damaged metadata does not make the image unreadable
        return image
    return image if method is None else image.transpose(method)
