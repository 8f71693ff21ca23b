"""The mean of images in a file (``.binaryproto``): a BlobProto of one image, channels in the order of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototorch.caffe.interop.blob_proto import blob_array
from prototorch.caffe.interop.wire import ProtobufError, decode, encode
from prototorch.caffe.text.message import Message
from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError

__all__ = ["encode_mean", "read_mean"]

MAX_MEAN_BYTES = 1 << 30  # bytes of a mean file


def read_mean(path: Path) -> np.ndarray:
    """The mean as [channels, height, width], float32 or float64. Raises DataError for a file that is none."""
    name = printable_path(path)
    try:
        mean = blob_array(decode(bytes(read_file(path, MAX_MEAN_BYTES)), "BlobProto"))
    except ProtobufError as error:
        raise DataError(f"{name}: is no mean file (.binaryproto): {error}") from None
    while mean.ndim > 3 and mean.shape[0] == 1:
        mean = mean[0]
    if mean.ndim > 3 or not mean.size:
        raise DataError(f"{name}: a mean has the shape [channels, height, width], this one {list(mean.shape)}")
    return mean.reshape((1,) * (3 - mean.ndim) + mean.shape)


def encode_mean(mean: np.ndarray) -> bytes:
    """The bytes of the file of a mean [channels, height, width], float32, as Caffe's compute_image_mean writes it."""
    channels, height, width = mean.shape
    return encode(Message("BlobProto", num=1, channels=channels, height=height, width=width, data=mean.reshape(-1)))
