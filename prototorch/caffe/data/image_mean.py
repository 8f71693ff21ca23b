"""The mean of the images of a database, with the sums of Caffe's ``compute_image_mean``."""

from __future__ import annotations

import numpy as np

from prototorch.caffe.data.datum import read_datum
from prototorch.caffe.data.record_database import RecordDatabase, printable_key
from prototorch.errors import DataError

__all__ = ["channel_means", "mean_of_images"]


def mean_of_images(database: RecordDatabase) -> tuple[np.ndarray, int]:
    """The mean [channels, height, width], float32, summed in the order of the records, and their number.

    Raises DataError for a database without records, and for images of different sizes.
    """
    total: np.ndarray | None = None
    count = 0
    for key, value in database.records():
        image = read_datum(value, name := f"{database.path}: record {printable_key(key)}").image
        if total is None:
            total = np.zeros(image.shape, np.float32)
        if image.shape != total.shape:
            raise DataError(
                f"{name}: has channels, height, width {list(image.shape)}, but the first image {list(total.shape)}; "
                "a mean needs images of one size"
            )
        total += image
        count += 1
    if total is None:
        raise DataError(f"{database.path}: the {database.format} has no records")
    return total / np.float32(count), count


def channel_means(mean: np.ndarray) -> list[float]:
    """The mean of each channel, summed one by one in float32: what ``mean_value`` takes."""
    pixels = mean.reshape(len(mean), -1)
    return [float(np.add.accumulate(row)[-1] / np.float32(len(row))) for row in pixels]
