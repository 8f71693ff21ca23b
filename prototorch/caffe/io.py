"""Images, and arrays in Caffe's messages, by the names of ``caffe.io``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from prototorch.caffe.image_resize import oversample, resize_image
from prototorch.caffe.interop.blob_proto import blob_array, blob_diff
from prototorch.caffe.proto import caffe_pb2
from prototorch.caffe.proto.message_classes import message_class
from prototorch.caffe.transformer import Transformer
from prototorch.data.image_io import ImageReader
from prototorch.errors import DataError, UsageError

__all__ = [
    "Transformer", "array_to_blobproto", "array_to_datum", "arraylist_to_blobprotovector_str", "blobproto_to_array",
    "blobprotovector_str_to_arraylist", "caffe_pb2", "datum_to_array", "load_image", "oversample", "resize_image",
]  # fmt: skip

_LUMA = (0.2125, 0.7154, 0.0721)  # scikit-image's weights of red, green and blue


def load_image(filename: str | os.PathLike[str], color: bool = True) -> np.ndarray:
    """An image file as float32 [height, width, 3] in 0..1, RGB; with ``color=False`` its intensity, [height, width, 1].

    An alpha channel is left out, and the orientation that a photo states is applied. Raises DataError for a file that
    is no image.
    """
    image = ImageReader().read(filename).transpose(1, 2, 0)
    if not color:
        image = (image @ np.array(_LUMA))[..., None]
    return (image / 255.0).astype(np.float32)


def blobproto_to_array(blob: Any, return_diff: bool = False) -> np.ndarray:
    """The data of a BlobProto as an array of its shape, or its diff. Raises ProtobufError where they do not fit."""
    array = blob_diff(blob.message) if return_diff else blob_array(blob.message)
    if array is None:
        raise DataError("the BlobProto has no diff")
    return array.astype(np.float64)


def array_to_blobproto(arr: np.ndarray, diff: np.ndarray | None = None) -> Any:
    """The BlobProto of an array, in single precision, and of a gradient of its shape."""
    arr = np.asarray(arr)
    if diff is not None and np.shape(diff) != arr.shape:
        raise UsageError(f"the diff has the shape {list(np.shape(diff))}, the array {list(arr.shape)}")
    blob = message_class("BlobProto")()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(arr)
    if diff is not None:
        blob.diff.extend(np.asarray(diff))
    return blob


def arraylist_to_blobprotovector_str(arraylist: Iterable[np.ndarray]) -> bytes:
    """A BlobProtoVector of arrays, in its binary form."""
    vector = message_class("BlobProtoVector")()
    vector.blobs.extend([array_to_blobproto(array) for array in arraylist])
    return bytes(vector.SerializeToString())


def blobprotovector_str_to_arraylist(data: bytes) -> list[np.ndarray]:
    """The arrays of a BlobProtoVector in its binary form."""
    return [blobproto_to_array(blob) for blob in message_class("BlobProtoVector").FromString(data).blobs]


def array_to_datum(arr: np.ndarray, label: int | None = None) -> Any:
    """The Datum of an array [channels, height, width]: bytes for uint8, else floating-point numbers."""
    if arr.ndim != 3:
        raise UsageError(f"a datum holds an array of 3 axes, not {arr.ndim}")
    datum = message_class("Datum")()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr)
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum: Any) -> np.ndarray:
    """The array [channels, height, width] of a Datum: uint8 where it holds bytes, else float64.

    Raises DataError for an encoded image, and where the elements are more or fewer than the shape says.
    """
    if datum.encoded:
        raise DataError("the Datum holds an encoded image (PNG, JPEG), not its elements")
    shape = (datum.channels, datum.height, datum.width)
    data = datum.data
    array = np.frombuffer(data, np.uint8).copy() if data else np.array(datum.float_data, dtype=np.float64)
    if min(shape) < 0 or array.size != np.prod(shape, dtype=object):
        raise DataError(f"the Datum has the shape {list(shape)}, but {array.size} elements")
    return array.reshape(shape)
