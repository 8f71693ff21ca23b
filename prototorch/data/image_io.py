"""One picture file to one array, by Pillow, within limits.

Only the listed formats are tried (no format that runs another program), the size is checked before anything is
decoded, and whatever the decoder raises becomes a DataError with the file's name.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError

IMAGE_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".pbm", ".tif", ".tiff"})
MAX_FILE_BYTES = 256 << 20  # bytes
MAX_PIXELS = 1 << 26  # 67 million: 8192 x 8192

ColorMode = Literal["rgb", "gray"]
ResizeMode = Literal["stretch", "crop", "pad"]


@dataclass(frozen=True)
class ImageReader:
    """How picture files become arrays: uint8 [channels, height, width], 0..255.

    size: (height, width) they are brought to (bilinear, with antialiasing); None keeps each as it is.
    color: ``"rgb"`` (3 channels) or ``"gray"`` (1; ITU-R 601-2 luma). An alpha channel is dropped.
    fit: ``"stretch"`` ignores the aspect ratio, ``"crop"`` cuts what is too much, ``"pad"`` adds black borders.

    The camera's orientation (EXIF) is applied; of an animation the first picture is taken; 16-bit grey values are
    scaled to 8 bits.
    """

    size: tuple[int, int] | None = None
    color: ColorMode = "rgb"
    resize_mode: ResizeMode = "stretch"

    @property
    def channels(self) -> int:
        """3 for rgb, 1 for gray."""
        return 3 if self.color == "rgb" else 1

    def read(self, path: str | os.PathLike[str]) -> np.ndarray:
        """The picture in a file. Raises DataError naming it: missing, not a picture, damaged, too large."""
        data = read_file(path, MAX_FILE_BYTES)
        if not data:
            raise DataError(f"{printable_path(path)}: is an empty file")
        return self.decode(data, printable_path(path))

    def decode(self, data: bytes | bytearray, name: str) -> np.ndarray:
        """The picture in the bytes of a file; ``name`` is for messages. Raises as `read` does."""
        try:
            picture = Image.open(io.BytesIO(data), formats=IMAGE_FORMATS)
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise DataError(f"{name}: has {width} x {height} pixels, more than the {MAX_PIXELS:,} allowed")
            if self.size and picture.format == "JPEG":
                picture.draft(
                    None, (2 * self.size[1], 2 * self.size[0])
                )  # let the decoder shrink what is far too large
            picture.load()
            return self._array(self._fitted(self._colored(_apply_exif_orientation(picture))))
        except DataError:
            raise
        except Image.DecompressionBombError as error:
            raise DataError(f"{name}: {error}") from None
        except Image.UnidentifiedImageError:
            raise DataError(f"{name}: is not a picture ({', '.join(IMAGE_FORMATS)})") from None
        except Exception as error:  # decoders raise nearly anything on damaged files
            raise DataError(f"{name}: damaged picture: {type(error).__name__}: {error}") from None

    def _colored(self, picture: Image.Image) -> Image.Image:
        if picture.mode.startswith("I"):
            picture = Image.fromarray((np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
        elif picture.mode == "F":
            raise DataError("pictures of floating-point values are not read; save them as npz")
        elif picture.mode == "P" and "transparency" in picture.info:
            picture = picture.convert("RGBA")
        return picture.convert("RGB" if self.color == "rgb" else "L")

    def _fitted(self, picture: Image.Image) -> Image.Image:
        if self.size is None or picture.size == self.size[::-1]:
            return picture
        size = self.size[::-1]
        if self.resize_mode == "crop":
            return ImageOps.fit(picture, size, Image.Resampling.BILINEAR)
        if self.resize_mode == "pad":
            return ImageOps.pad(picture, size, Image.Resampling.BILINEAR)
        return picture.resize(size, Image.Resampling.BILINEAR)

    def _array(self, picture: Image.Image) -> np.ndarray:
        pixels = np.asarray(picture)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if pixels.ndim == 3 else pixels[None].copy()


_EXIF_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


def _apply_exif_orientation(picture: Image.Image) -> Image.Image:
    try:
        turn = _EXIF_TRANSPOSES.get(picture.getexif().get(0x0112, 1))
    except Exception:  # damaged notes about a picture do not make the picture unreadable
        return picture
    return picture if turn is None else picture.transpose(turn)
