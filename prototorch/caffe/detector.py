"""``Detector``: a net that predicts windows of images (R-CNN)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from prototorch.caffe.classifier import input_transformer
from prototorch.caffe.image_resize import resize_image
from prototorch.caffe.io import load_image
from prototorch.caffe.net import TEST, Net
from prototorch.errors import UsageError

__all__ = ["Detector"]

Path = str | os.PathLike[str]
Window = Sequence[int]


class Detector(Net):
    """A net with its first input as a window of an image.

    context_pad: how many pixels of the net's input around a window show what surrounds it in the image (beyond the
    image, the mean). The other arguments are those of `Classifier`.
    """

    def __init__(
        self,
        model_file: Path,
        pretrained_file: Path,
        mean: Any = None,
        input_scale: float | None = None,
        raw_scale: float | None = None,
        channel_swap: Sequence[int] | None = None,
        context_pad: int | None = None,
    ):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = input_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def configure_crop(self, context_pad: int | None) -> None:
        """Set the context, and what stands for it beyond an image: the mean, as an image [height, width, channels]."""
        name = self.inputs[0]
        channels, height, width = self.blobs[name].shape[1:]
        self.crop_dims = np.array([height, width, channels])
        self.context_pad = int(context_pad or 0)
        if 2 * self.context_pad >= width:
            raise UsageError(f"context_pad {self.context_pad} leaves nothing of an input of {width} pixels")
        self.crop_mean = np.zeros(self.crop_dims, np.float32)
        mean = self.transformer.mean.get(name)
        if self.context_pad and mean is not None:
            image = np.array(mean, np.float32).transpose(1, 2, 0)
            swap = self.transformer.channel_swap.get(name)
            image = image if swap is None else image[:, :, np.argsort(swap)]
            self.crop_mean = self.crop_mean + image / np.float32(self.transformer.raw_scale.get(name, 1.0))

    def detect_windows(self, images_windows: Iterable[tuple[Path, Iterable[Window]]]) -> list[dict[str, Any]]:
        """The predictions of windows (top, left, bottom, right) of image files.

        Returns for each window a dictionary of ``window``, ``prediction`` (of the first output) and ``filename``.
        """
        detections: list[dict[str, Any]] = []
        inputs, name = [], self.inputs[0]
        for filename, windows in images_windows:
            image = load_image(filename)
            for window in windows:
                inputs.append(self.transformer.preprocess(name, self.crop(image, window)))
                detections.append({"window": window, "filename": filename})
        if detections:
            data: Any = np.stack(inputs)
            predictions = self.forward_all(**{name: data})[self.outputs[0]]
            for one, prediction in zip(detections, predictions, strict=True):
                one["prediction"] = prediction
        return detections

    def detect_selective_search(self, image_fnames: Iterable[Path]) -> NoReturn:
        """Raise UsageError: the proposals come from a MATLAB program that is no part of this package."""
        raise UsageError(
            "selective search needs a MATLAB program that this package does not have; compute the windows with "
            "another program and call detect_windows([(file, windows), ...])"
        )

    def crop(self, im: np.ndarray, window: Window) -> np.ndarray:
        """A window of an image [height, width, channels], with its context in the size of the net's input.

        Raises UsageError for one that lies outside of the image.
        """
        top, left, bottom, right = (int(n) for n in window)
        plain = im[max(top, 0) : bottom, max(left, 0) : right]
        if not plain.size:
            raise UsageError(f"the window {[top, left, bottom, right]} holds nothing of an image {list(im.shape)}")
        return self._with_context(im, np.array([top, left, bottom, right])) if self.context_pad else plain

    def _with_context(self, im: np.ndarray, window: np.ndarray) -> np.ndarray:
        size = int(self.crop_dims[1])
        half = (window[2:] - window[:2] + 1) / 2.0
        reach = half * (size / (size - 2 * self.context_pad))
        center = window[:2] + half
        box = np.round(np.concatenate([center - reach, center + reach]))
        scale = size / (box[2:] - box[:2] + 1)  # image pixels to input pixels, by axis
        pad = np.round(np.maximum(0, -box[:2]) * scale)
        box = np.clip(box, 0, [*im.shape[:2], *im.shape[:2]])
        extent = np.minimum(np.round((box[2:] - box[:2] + 1) * scale), size - pad).astype(int)
        y, x = pad.astype(int)
        y0, x0, y1, x1 = box.astype(int)
        image = self.crop_mean.copy()
        if min(extent) > 0 and y1 > y0 and x1 > x0:
            image[y : y + extent[0], x : x + extent[1]] = resize_image(im[y0:y1, x0:x1], extent)
        return image
