"""Datum, the record of Caffe's databases: an image with its label."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from prototorch.caffe.data.images import ColorMode, decode_image
from prototorch.caffe.interop.wire import ProtobufError, decode, encode
from prototorch.caffe.text.message import Message
from prototorch.errors import DataError

__all__ = ["Datum", "encode_datum", "encode_image_file", "parse_datum", "read_datum"]


@dataclass(frozen=True)
class Datum:
    """A decoded record. image: [channels, height, width], uint8 or (``float_data``) float32. label: an integer.

    is_encoded: whether the record holds an image file.
    """

    image: np.ndarray
    label: int
    is_encoded: bool


def parse_datum(value: bytes, name: str) -> Message:
    """The message of a record; ``name`` is for messages. Raises DataError for bytes that are no Datum."""
    try:
        return decode(value, "Datum")
    except ProtobufError as error:
        raise DataError(f"{name}: is no Datum: {error}") from None


def read_datum(value: bytes, name: str, mode: ColorMode = "unchanged") -> Datum:
    """The image and the label of a record.

    mode: the channels of an image file in the record, see `decode_image`; other records are as they are. Raises
    DataError for bytes that are no Datum, for one with more or fewer values than its sizes say, and for a damaged
    image.
    """
    message = parse_datum(value, name)
    label, data = message["label"], message["data"]
    if message["encoded"]:
        return Datum(decode_image(data, name, mode), label, True)
    shape = (message["channels"], message["height"], message["width"])
    is_bytes = len(data) > 0
    values = np.frombuffer(data, np.uint8) if is_bytes else np.asarray(message["float_data"], np.float32)
    if min(shape) < 1 or len(values) != prod(shape):
        raise DataError(
            f"{name}: a Datum of channels, height, width {list(shape)} with {len(values):,} "
            f"values in {'data' if is_bytes else 'float_data'}"
        )
    return Datum(values.reshape(shape), label, False)


def encode_datum(image: np.ndarray, label: int) -> bytes:
    """The record of an image [channels, height, width]: of uint8 as bytes, of other types as floats."""
    channels, height, width = image.shape
    datum = Message("Datum", channels=channels, height=height, width=width, label=label)
    if image.dtype == np.uint8:
        datum["data"] = image.tobytes()
        datum["encoded"] = False
    else:
        datum["float_data"] = image.astype(np.float32).reshape(-1)
    return encode(datum)


def encode_image_file(data: bytes, label: int) -> bytes:
    """The record of an image file (PNG, JPEG) as it is."""
    return encode(Message("Datum", data=data, label=label, encoded=True))
