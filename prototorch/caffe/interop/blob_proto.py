"""Blobs in Caffe's binary messages (BlobProto) as arrays, and back."""

from __future__ import annotations

from math import prod

import numpy as np

from prototorch.caffe.text.message import Message
from prototorch.interop.protobuf_reader import ProtobufError

__all__ = ["MAX_AXES", "blob_array", "blob_diff", "blob_message", "blob_shape", "has_legacy_shape"]

MAX_AXES = 32  # Caffe's kMaxBlobAxes
_LEGACY = ("num", "channels", "height", "width")


def has_legacy_shape(blob: Message) -> bool:
    """Whether a BlobProto has the four sizes of old files instead of a shape: (1, 1, out, in) for a matrix."""
    return any(blob.has(name) for name in _LEGACY)


def blob_shape(blob: Message) -> tuple[int, ...]:
    """The shape of a BlobProto. Raises ProtobufError for one that no array can have."""
    shape = tuple(blob[name] for name in _LEGACY) if has_legacy_shape(blob) else tuple(blob["shape"]["dim"])
    if len(shape) > MAX_AXES or any(n < 0 for n in shape) or prod(max(n, 1) for n in shape) >= 1 << 60:
        raise ProtobufError(f"a blob of the impossible shape {list(shape)!s:.80}")
    return shape


def blob_array(blob: Message) -> np.ndarray:
    """The values of a BlobProto, float64 where the file has ``double_data``, else float32; a view of the file's bytes
    where they are in one piece. Raises ProtobufError where they are more or fewer than the shape says."""
    return _values(blob, "double_data" if blob.has("double_data") else "data")


def blob_diff(blob: Message) -> np.ndarray | None:
    """The gradient that a BlobProto has (``snapshot_diff``); None where it has none. Raises as `blob_array`."""
    name = next((name for name in ("double_diff", "diff") if blob.has(name)), None)
    return None if name is None else _values(blob, name)


def _values(blob: Message, name: str) -> np.ndarray:
    shape = blob_shape(blob)
    values = np.asarray(blob[name], np.float64 if name.startswith("double") else np.float32)
    if values.size != prod(shape):
        raise ProtobufError(f"a blob has the shape {list(shape)}, but {values.size:,} values in {name}")
    values = values.reshape(shape)
    values.flags.writeable = False
    return values


def blob_message(array: np.ndarray, diff: np.ndarray | None = None) -> Message:
    """The BlobProto of an array: in double precision where its dtype is float64, else in single precision."""
    prefix = "double_" if array.dtype == np.float64 else ""
    blob = Message("BlobProto", shape=Message("BlobShape", dim=array.shape))
    blob[f"{prefix}data"] = array.reshape(-1)
    if diff is not None:
        blob[f"{prefix}diff"] = diff.reshape(-1)
    return blob
