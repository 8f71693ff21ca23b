"""Resizing and cropping of images, and helpers of the layers over images."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.rescaling import as_float
from prototorch.layers.windows import check_rank
from prototorch.schema import example, field

Interpolation = Literal["bilinear", "nearest", "bicubic"]


def as_float_images(ctx: Context, x: ArrayValue) -> Any:
    """x checked to be [batch, channels, rows, columns], with floating-point elements."""
    check_rank(ctx, x, 2)
    return as_float(x)


def smart_resize(x: ArrayValue, height: int, width: int, interpolation: str = "bilinear") -> Any:
    """The largest center crop of the target's aspect ratio, resized (Keras' crop_to_aspect_ratio)."""
    h, w = x.shape[2:]
    rows, columns = max(min(h, w * height // width), 1), max(min(w, h * width // height), 1)
    return ops.resize(center_crop(x, rows, columns), (height, width), method=interpolation)


def center_crop(x: ArrayValue, height: int, width: int) -> Any:
    """The center of an image; an odd remainder is cut off at the end."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width]


class Resizing(Layer):
    """Images resized (Keras, channels first; no antialiasing).

    Input [batch, channels, rows, columns], output [batch, channels, height, width]; integers become float32.
    """

    keyword_only = ("fill_value",)
    keeps_bounds = True
    height: int = field(min=1, doc="Rows of the output.")
    width: int = field(min=1, doc="Columns of the output.")
    interpolation: Interpolation = field(default="bilinear", doc="Interpolation between pixels.")
    crop_to_aspect_ratio: bool = field(default=False, doc="Whether to crop to the target's aspect ratio first.")
    pad_to_aspect_ratio: bool = field(default=False, doc="Whether to pad to the target's aspect ratio first.")
    fill_value: float = field(default=0.0, doc="Value of that padding.")
    examples = [
        example("Resizing { height: 4  width: 3 }", inputs=[(2, 3, 5)]),
        example("Resizing { height: 3  width: 3  interpolation: nearest  crop_to_aspect_ratio: true }",
                inputs=[(1, 5, 4)], dtype="uint8", range=(0, 256)),
        example("Resizing { height: 4  width: 2  interpolation: bicubic  pad_to_aspect_ratio: true }",
                inputs=[(1, 3, 4)]),
    ]  # fmt: skip

    def check(self) -> None:
        """One of cropping and padding."""
        if self.crop_to_aspect_ratio and self.pad_to_aspect_ratio:
            self.refuse("crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other", "pad_to_aspect_ratio")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if self.crop_to_aspect_ratio:
            return smart_resize(x, self.height, self.width, self.interpolation)
        if self.pad_to_aspect_ratio:
            h, w = x.shape[2:]
            more = (max(h, w * self.height // self.width) - h, max(w, h * self.width // self.height) - w)
            pads = tuple((n // 2, n // 2) for n in more)  # both sides alike, as Keras does
            x = ops.pad(x, pads=((0, 0), (0, 0), *pads), value=self.fill_value)
        return ops.resize(x, (self.height, self.width), method=self.interpolation)


class CenterCrop(Layer):
    """The center of images (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, height, width]; integers become float32. A
    image that is too small gives its largest part of that shape, resized.
    """

    keeps_bounds = True
    height: int = field(min=1, doc="Rows of the output.")
    width: int = field(min=1, doc="Columns of the output.")
    examples = [
        example("CenterCrop { height: 2  width: 3 }", inputs=[(2, 5, 4)]),
        example("CenterCrop { height: 4  width: 2 }", inputs=[(1, 3, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if x.shape[2] >= self.height and x.shape[3] >= self.width:
            return center_crop(x, self.height, self.width)
        return smart_resize(x, self.height, self.width)
