"""Resizing of images as pycaffe does it: linear, without smoothing, values outside of the image being its minimum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.errors import UsageError

__all__ = ["oversample", "resize_image"]


def resize_image(im: np.ndarray, new_dims: Sequence[int] | np.ndarray, interp_order: int = 1) -> np.ndarray:
    """An image [height, width, channels] in another size (height, width), float32.

    With 1 or 3 channels pixel centres are mapped onto each other, and beyond the border lies the smallest value
    (scikit-image's ``resize`` with ``mode="constant"``, no smoothing, on the image scaled to 0..1); otherwise the
    corner pixels are (SciPy's ``zoom``). interp_order: 0 nearest, 1 linear; UsageError for splines of higher order.
    """
    if interp_order not in (0, 1):
        raise UsageError(f"interp_order must be 0 (nearest) or 1 (linear), not {interp_order}")
    im = np.asarray(im)
    if im.ndim != 3 or 0 in im.shape:
        raise UsageError(f"an image must have the shape [height, width, channels], not {list(im.shape)}")
    height, width = (int(n) for n in new_dims)
    low, high = float(im.min()), float(im.max())
    if im.shape[2] not in (1, 3):
        rows, columns = _corner_positions(im.shape[0], height), _corner_positions(im.shape[1], width)
        return _sample(im, rows, columns, interp_order).astype(np.float32)
    if not high > low:
        return np.full((height, width, im.shape[2]), low, np.float32)
    normalized = (im.astype(np.float64) - low) / (high - low)
    rows, columns = _center_positions(im.shape[0], height), _center_positions(im.shape[1], width)
    return (_sample(normalized, rows, columns, interp_order) * (high - low) + low).astype(np.float32)


def _center_positions(size: int, new: int) -> np.ndarray:
    return (np.arange(new) + 0.5) * (size / new) - 0.5


def _corner_positions(size: int, new: int) -> np.ndarray:
    return np.arange(new) * ((size - 1) / (new - 1) if new > 1 else 0.0)


def _sample(im: np.ndarray, rows: np.ndarray, columns: np.ndarray, order: int) -> np.ndarray:
    """The image at these positions; 0 outside of it."""
    for axis, positions in ((0, rows), (1, columns)):
        if order == 0:
            positions = np.floor(positions + 0.5)
        lower = np.floor(positions).astype(np.int64)
        share = (positions - lower).reshape([-1 if i == axis else 1 for i in range(3)])
        im = _take(im, lower, axis) * (1 - share) + _take(im, lower + 1, axis) * share
    return im


def _take(im: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    samples = np.take(im, np.clip(indices, 0, im.shape[axis] - 1), axis=axis).astype(np.float64)
    inside = ((indices >= 0) & (indices < im.shape[axis])).reshape([-1 if i == axis else 1 for i in range(3)])
    return samples * inside


def oversample(images: Sequence[np.ndarray] | np.ndarray, crop_dims: Sequence[int] | np.ndarray) -> np.ndarray:
    """Ten crops (height, width) of each image [height, width, channels]: the corners (upper left, upper right, lower
    left, lower right), the center, and the same five mirrored. Returns [10 * images, *crop_dims, channels], float32.

    Raises UsageError for images that are smaller than the crop.
    """
    crop_h, crop_w = (int(n) for n in crop_dims)
    height, width, channels = images[0].shape
    if crop_h > height or crop_w > width:
        raise UsageError(f"a crop of {crop_h} x {crop_w} does not fit into images of {height} x {width}")
    corners = [(y, x) for y in (0, height - crop_h) for x in (0, width - crop_w)]
    corners.append((int(height / 2 - crop_h / 2), int(width / 2 - crop_w / 2)))
    crops = np.empty((len(images), 2, 5, crop_h, crop_w, channels), np.float32)
    for n, image in enumerate(images):
        for k, (y, x) in enumerate(corners):
            crops[n, 0, k] = image[y : y + crop_h, x : x + crop_w]
    crops[:, 1] = crops[:, 0, :, :, ::-1]
    return crops.reshape(-1, crop_h, crop_w, channels)
