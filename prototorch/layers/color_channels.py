"""Conversion between grayscale and color images."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field

_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in Pillow


class ColorChannels(MapLayer):
    """Convert images to a number of channels: gray is repeated to three, three become gray by their luma.

    Input [batch, 1 or 3, height, width], output [batch, channels, height, width].
    Luma is 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601). ``order: bgr`` reverses three channels after that, for
    nets that were trained on images of OpenCV (Caffe's).
    """

    over_images = True
    keeps_bounds = True
    channels: Literal[1, 3] = field(default=3, doc="Number of output channels.")
    order: Literal["rgb", "bgr"] = field(default="rgb", doc="Order of the output's channels; the input's is rgb.")

    examples = [
        example("ColorChannels { channels: 3 }", inputs=[(1, 3, 4)]),
        example("ColorChannels { channels: 1 }", inputs=[(3, 2, 5)]),
        example("ColorChannels { order: bgr }", inputs=[(3, 2, 5)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            ctx.fail("the input must be images of 1 or 3 channels")
        if x.shape[1] == self.channels:
            return x[:, ::-1] if self.order == "bgr" and self.channels == 3 else x
        if self.channels == 3:
            return ops.concat(x, x, x, axis=1)
        weights = np.asarray(_LUMA, dtype=x.dtype).reshape(1, 3, 1, 1)
        return ops.sum(x * weights, axis=1, keepdims=True)
