"""Images as nets of Caffe expect them: channels in the order blue, green, red, 0 to 255, less a mean."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prototorch.base.terminal import escape_line
from prototorch.caffe.interop.blob_proto import blob_array
from prototorch.caffe.interop.wire import ProtobufError, decode
from prototorch.data.npz import read_npy
from prototorch.data.safe_io import read_file
from prototorch.errors import DataError, UsageError
from prototorch.layers import ColorChannels, Rescaling
from prototorch.layers.base import Layer

__all__ = ["ImageInput", "channels_of", "read_class_names", "read_mean"]

MAX_NAMES_BYTES = 1 << 24


@dataclass(frozen=True)
class ImageInput:
    """What is done to an image of 0 to 255, as Caffe's transformation does: (image - mean) * scale.

    mean: of each channel, in the net's order (blue, green, red), one for all, or none.
    """

    mean: tuple[float, ...] = ()
    scale: float = 1.0

    def layers(self, channels: int) -> tuple[Layer, ...]:
        """The preprocess layers for a net whose images have so many channels, for images as red, green, blue.

        Raises UsageError for another number of means.
        """
        if len(self.mean) not in (0, 1, channels):
            raise UsageError(f"the mean has {len(self.mean)} values, the net's images have {channels} channels")
        if not all(map(math.isfinite, (*self.mean, self.scale))):
            raise UsageError("the mean and the scale must be finite numbers")
        layers: list[Layer] = [ColorChannels(channels=3, order="bgr") if channels == 3 else ColorChannels(channels=1)]
        if self.mean or self.scale != 1:
            offset = [-value * self.scale for value in self.mean] or [0.0]
            layers.append(Rescaling(scale=[self.scale], offset=offset))
        return tuple(layers)

    def describe(self, channels: int) -> str:
        """What is done, in words."""
        order = "channels blue, green, red" if channels == 3 else "gray"
        mean = (
            "a mean of " + ", ".join(f"{m:g}" for m in self.mean) + " is subtracted"
            if self.mean
            else ("no mean is subtracted (--mean FILE.binaryproto, FILE.npy or B,G,R)")
        )
        return f"{order}, 0 to 255, {mean}" + (f", times {self.scale:g}" if self.scale != 1 else "")


def read_mean(text: str) -> tuple[float, ...]:
    """The mean of each channel: numbers (``104,117,123``), or the path of a ``.binaryproto`` or ``.npy`` of a mean
    image [channels, height, width], whose channels are averaged, or of the channels alone.

    Raises UsageError, DataError.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        pass
    suffix = os.path.splitext(text)[1].lower()
    if suffix == ".npy":
        array = read_npy(text)
    elif suffix == ".binaryproto":
        try:
            array = blob_array(decode(bytes(read_file(text)), "BlobProto"))
        except ProtobufError as error:
            raise DataError(f"{text}: damaged, or no mean image of Caffe: {error}") from None
    else:
        raise UsageError(f"--mean {escape_line(text)}: expected numbers (104,117,123), a .binaryproto or a .npy file")
    array = array[0] if array.ndim == 4 and array.shape[0] == 1 else array
    if array.ndim not in (1, 3) or not array.size or array.dtype.kind not in "fiu":
        raise DataError(f"{text}: a mean has the shape [channels, height, width] or [channels], not {[*array.shape]}")
    return tuple(float(np.mean(channel, dtype=np.float64)) for channel in array)


def read_class_names(path: str) -> tuple[str, ...]:
    """The names of classes in a text file, one a line (``synset_words.txt``). Raises DataError."""
    try:
        lines = bytes(read_file(path, MAX_NAMES_BYTES)).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: the names of classes are not UTF-8 text") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise DataError(f"{path}: holds no names of classes")
    return tuple(line.strip() for line in lines)


def channels_of(shape: Sequence[int | None]) -> int:
    """The number of channels of an image input [channels, height, width]. Raises UsageError for another input."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise UsageError(f"the model's input {list(shape)} is no image of 1 or 3 channels")
    return int(shape[0])
