"""``Transformer``: images as a net's input wants them, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.caffe.image_resize import resize_image
from prototorch.errors import UsageError, did_you_mean

__all__ = ["Transformer"]


class Transformer:
    """What is done to an image [height, width, channels] before it is a net's input [channels, height, width].

    inputs: the shapes of the net's inputs, with the batch axis, by name.
    """

    def __init__(self, inputs: Mapping[str, Sequence[int]]):
        self.inputs = {name: tuple(shape) for name, shape in inputs.items()}
        self.transpose: dict[str, Sequence[int]] = {}
        self.channel_swap: dict[str, Sequence[int]] = {}
        self.raw_scale: dict[str, float] = {}
        self.mean: dict[str, np.ndarray] = {}
        self.input_scale: dict[str, float] = {}

    def preprocess(self, in_: str, data: np.ndarray) -> np.ndarray:
        """An image as the input of this name: in single precision, resized, transposed, channels swapped, times the raw
        scale, minus the mean, times the input scale, as far as these are set. The image itself stays as it is."""
        self._check_input(in_)
        image = np.asarray(data).astype(np.float32)
        size = self.inputs[in_][2:]
        if image.shape[:2] != size:
            image = resize_image(image, size)
        if in_ in self.transpose:
            image = image.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            image = image[np.asarray(self.channel_swap[in_])]
        if in_ in self.raw_scale:
            image = image * np.float32(self.raw_scale[in_])
        if in_ in self.mean:
            image = (image - self.mean[in_]).astype(np.float32)
        if in_ in self.input_scale:
            image = image * np.float32(self.input_scale[in_])
        return image

    def deprocess(self, in_: str, data: np.ndarray) -> np.ndarray:
        """The image that an input stands for: `preprocess` undone, but for the size. Axes of one are left out."""
        self._check_input(in_)
        image = np.array(data).squeeze()
        if in_ in self.input_scale:
            image = image / image.dtype.type(self.input_scale[in_])
        if in_ in self.mean:
            image = (image + self.mean[in_]).astype(image.dtype)
        if in_ in self.raw_scale:
            image = image / image.dtype.type(self.raw_scale[in_])
        if in_ in self.channel_swap:
            image = image[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            image = image.transpose(np.argsort(self.transpose[in_]))
        return image

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """The order of axes: (2, 0, 1) makes [channels, height, width] of [height, width, channels]."""
        self._check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise UsageError(f"the order must have {len(self.inputs[in_]) - 1} axes, not {len(order)}")
        self.transpose[in_] = order

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """The order of channels, after the transposition: (2, 1, 0) makes BGR of RGB."""
        self._check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise UsageError(f"the order must have {self.inputs[in_][1]} channels, not {len(order)}")
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """A factor before the mean is subtracted: 255 for nets that want 0..255."""
        self._check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_: str, mean: Any) -> None:
        """What is subtracted: a value for each channel, or an image [channels, height, width], which is resized to the
        input's size, or [height, width] for one channel."""
        self._check_input(in_)
        mean, shape = np.asarray(mean), self.inputs[in_][1:]
        if mean.ndim == 1:
            if len(mean) != shape[0]:
                raise UsageError(f"the mean has {len(mean)} values, the input {shape[0]} channels")
            mean = mean[:, None, None]
        else:
            mean = mean[None] if mean.ndim == 2 else mean
            if mean.ndim != 3:
                raise UsageError(f"a mean must have 1, 2 or 3 axes, not {mean.ndim}")
            if mean.shape != shape:
                low, high = mean.min(), mean.max()
                normalized = (
                    ((mean - low) / (high - low)).transpose(1, 2, 0) if high > low else mean.transpose(1, 2, 0) * 0
                )
                mean = resize_image(normalized, shape[1:]).transpose(2, 0, 1) * (high - low) + low
        self.mean[in_] = mean

    def set_input_scale(self, in_: str, scale: float) -> None:
        """A factor after the mean is subtracted."""
        self._check_input(in_)
        self.input_scale[in_] = scale

    def _check_input(self, in_: str) -> None:
        if in_ not in self.inputs:
            raise UsageError(f"{in_!r} is not one of the inputs {list(self.inputs)}.{did_you_mean(in_, self.inputs)}")
