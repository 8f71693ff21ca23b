"""Decoding and resizing of images as OpenCV does it, with which Caffe reads them: channels in the order BGR.

Formats, limits and messages are those of `prototorch.data.image_io`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from prototorch.data.image_io import MAX_FILE_BYTES, apply_exif_orientation, image_errors, open_image
from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError

__all__ = ["ColorMode", "decode_image", "gray_pixels", "read_image", "resize_image"]

ColorMode = Literal["color", "gray", "unchanged"]
_BLOCK_PIXELS = 1 << 18  # that are converted at once
_WEIGHT_BITS = 11  # of the fixed-point weights of `resize_image`


def read_image(path: Path, mode: ColorMode = "color", size: tuple[int, int] | None = None) -> np.ndarray:
    """An image file as uint8 [channels, height, width]; see `decode_image`.

    size: (height, width) to resize to. Raises DataError for a file that is missing, damaged, or no image.
    """
    image = decode_image(read_file(path, MAX_FILE_BYTES), printable_path(path), mode)
    return image if size is None else resize_image(image, size)


def decode_image(data: bytes | bytearray | memoryview, name: str, mode: ColorMode = "color") -> np.ndarray:
    """The image in these bytes as uint8 [channels, height, width], 0..255.

    mode: ``"color"`` gives 3 channels, blue, green, red, without alpha; ``"gray"`` one (0.299 R + 0.587 G + 0.114 B,
    for JPEG its own luma); ``"unchanged"`` those of the file: 1, 3, or 4 (BGR and alpha). The EXIF orientation is
    applied except for ``"unchanged"``. Samples of 16 bits are reduced to their upper 8; grey ones are refused for
    ``"unchanged"``.

    Raises DataError, with ``name``: not an image, damaged, too large.
    """
    with image_errors(name):
        image = open_image(data, name)
        if mode == "gray" and image.format == "JPEG":
            image.draft("L", image.size)
        image_format = image.format
        image.load()
        if mode != "unchanged":
            image = apply_exif_orientation(image)
        return _to_array(image, image_format, mode, name)


def _to_array(image: Image.Image, image_format: str | None, mode: ColorMode, name: str) -> np.ndarray:
    if image.mode.startswith("I"):
        if mode == "unchanged":
            raise DataError(f"{name}: has samples of 16 bits; Caffe takes 8 unless force_color or force_gray is set")
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise DataError(f"{name}: images of floating-point values are not supported")
    if mode == "unchanged":
        has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
        target_mode = "L" if image.mode in ("1", "L") else "RGBA" if has_alpha else "RGB"
    elif image.mode in ("1", "L") and mode == "gray":
        target_mode = "L"
    else:
        target_mode = "RGB"
    if target_mode == "RGB" and image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns otherwise
    pixels = np.asarray(image if image.mode == target_mode else image.convert(target_mode))
    if pixels.ndim == 2:
        return pixels[None].copy()
    if mode == "gray":
        return gray_pixels(pixels.transpose(2, 0, 1)[::-1], is_png=image_format == "PNG")
    order = [2, 1, 0, 3][: pixels.shape[2]]
    return np.ascontiguousarray(pixels[..., order].transpose(2, 0, 1))


def gray_pixels(image: np.ndarray, is_png: bool = False) -> np.ndarray:
    """The one channel of an image of three, blue, green, red: uint8 [1, height, width].

    is_png: with the weights of 15 bits of libpng, rounded down; otherwise those of OpenCV, 14 bits, rounded.
    """
    weights, bits, offset = ((3737, 19234, 9797), 15, 0) if is_png else ((1868, 9617, 4899), 14, 1 << 13)
    out = np.empty((1, *image.shape[1:]), np.uint8)
    for rows in _row_blocks(image.shape[1], image.shape[2]):
        total = np.full(image[0, rows].shape, offset, np.int32)
        for channel, weight in zip(image, weights, strict=True):
            total += channel[rows] * np.int32(weight)
        out[0, rows] = total >> bits
    return out


def _row_blocks(height: int, width: int) -> Iterator[slice]:
    """All rows of an image in blocks of at most `_BLOCK_PIXELS`, so that its size alone decides about memory."""
    step = max(1, _BLOCK_PIXELS // max(1, width))
    return (slice(start, min(height, start + step)) for start in range(0, height, step))


def resize_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image resized to (height, width), uint8 [channels, height, width], bilinear without antialiasing.

    As OpenCV's ``resize`` with INTER_LINEAR: the weights have 11 bits, and rounding is that of its integer arithmetic;
    to half the height and width it gives the rounded mean of 2 x 2 pixels.
    """
    height, width = image.shape[1:]
    if (height, width) == size:
        return image
    if height == 2 * size[0] and width == 2 * size[1]:
        sums = image.reshape(-1, size[0], 2, size[1], 2).sum((2, 4), dtype=np.int32)
        return ((sums + 2) >> 2).astype(np.uint8)
    columns, column_weights = _sample_positions(width, size[1], keep_inside=True)
    rows, row_weights = _sample_positions(height, size[0], keep_inside=False)
    out = np.empty((len(image), *size), np.uint8)
    for block in _row_blocks(size[0], max(width, size[1])):
        needed, places = np.unique(rows[:, block], return_inverse=True)
        source = image[:, needed].astype(np.int32)
        lines = source[..., columns[0]] * column_weights[0] + source[..., columns[1]] * column_weights[1]
        lines >>= 4
        upper, lower = places.reshape(2, -1)
        above, below = (row_weights[i, block, None] for i in range(2))
        values = ((lines[:, upper] * above) >> 16) + ((lines[:, lower] * below) >> 16)
        out[:, block] = ((values + 2) >> 2).clip(0, 255)
    return out


def _sample_positions(length: int, new_length: int, keep_inside: bool) -> tuple[np.ndarray, np.ndarray]:
    """The two positions that each new one is between, and their weights, int32 [2, new_length].

    keep_inside: a position beyond the outermost pixels takes that pixel alone, with full weight.
    """
    scale = 1.0 / (new_length / length)
    exact = ((np.arange(new_length) + 0.5) * scale - 0.5).astype(np.float32)
    first = np.floor(exact).astype(np.int64)
    fraction = exact - first.astype(np.float32)
    if keep_inside:
        outside = (first < 0) | (first >= length - 1)
        fraction[outside] = 0
    weights = np.stack([np.float32(1) - fraction, fraction]) * np.float32(1 << _WEIGHT_BITS)
    positions = np.stack([first, first + 1]).clip(0, length - 1)
    return positions, np.rint(weights).astype(np.int32)
