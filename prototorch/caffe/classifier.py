"""``Classifier``: a net that predicts classes of images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.caffe.image_resize import oversample as take_crops
from prototorch.caffe.image_resize import resize_image
from prototorch.caffe.net import TEST, Net
from prototorch.caffe.transformer import Transformer
from prototorch.errors import UsageError

__all__ = ["Classifier", "input_transformer"]

Path = str | os.PathLike[str]


def input_transformer(
    net: Net, mean: Any, input_scale: float | None, raw_scale: float | None, channel_swap: Sequence[int] | None
) -> Transformer:
    """A Transformer for the first input of a net: from [height, width, channels], with what is not None."""
    name = net.inputs[0]
    transformer = Transformer({name: net.blobs[name].shape})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


class Classifier(Net):
    """A net with its first input as an image, for prediction.

    image_dims: (height, width) that images get before crops are taken; by default those of the input. mean,
    input_scale, raw_scale, channel_swap: of its ``transformer``, see `Transformer`.
    """

    def __init__(
        self,
        model_file: Path,
        pretrained_file: Path,
        image_dims: Sequence[int] | None = None,
        mean: Any = None,
        input_scale: float | None = None,
        raw_scale: float | None = None,
        channel_swap: Sequence[int] | None = None,
    ):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = input_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = self.crop_dims if image_dims is None or not len(image_dims) else np.array(image_dims)

    def predict(self, inputs: Sequence[np.ndarray], oversample: bool = True) -> np.ndarray:
        """The first output for images [height, width, channels], [images, ...].

        oversample: take the mean over ten crops (corners, center, mirrored), [images, classes]; else the center counts.
        """
        images = [resize_image(image, self.image_dims) for image in inputs]
        if not images:
            raise UsageError("there are no images to predict")
        if oversample:
            crops = take_crops(images, self.crop_dims)
        else:
            top, left = ((self.image_dims - self.crop_dims) / 2).astype(int)
            height, width = self.crop_dims
            crops = np.stack([image[top : top + height, left : left + width] for image in images])
        name = self.inputs[0]
        data: Any = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        predictions: np.ndarray = self.forward_all(**{name: data})[self.outputs[0]]
        return predictions.reshape(len(images), 10, -1).mean(axis=1) if oversample else predictions
