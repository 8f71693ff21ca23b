"""Resizing and cropping of images, and helpers of the layers over images."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.rescaling import as_float
from prototorch.layers.windows import check_rank
from prototorch.schema import example, field

Interpolation = Literal["bilinear", "nearest", "bicubic"]
MAX_SIDE = 1 << 16  # pixels of a side after resizing: of 1 x 1,000,000 pixels none fit into memory


def as_float_images(ctx: Context, x: ArrayValue) -> Any:
    """x checked to be [batch, channels, rows, columns], with floating-point elements."""
    check_rank(ctx, x, 2)
    return as_float(x)


def smart_resize(x: ArrayValue, height: int, width: int, interpolation: str = "bilinear") -> Any:
    """The largest center crop of the target's aspect ratio, resized (Keras' crop_to_aspect_ratio)."""
    return ops.resize(crop_to_aspect_ratio(x, height, width), (height, width), method=interpolation)


def crop_to_aspect_ratio(x: ArrayValue, height: int, width: int) -> Any:
    """The largest center crop of the aspect ratio ``height / width``."""
    h, w = x.shape[2:]
    return center_crop(x, max(min(h, w * height // width), 1), max(min(w, h * width // height), 1))


def center_crop(x: ArrayValue, height: int, width: int) -> Any:
    """The center of an image; an odd remainder is cut off at the end."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width]


class Resizing(MapLayer):
    """Images resized (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, height, width]; integers become float32. With
    ``keep_aspect_ratio`` the output covers height and width, and one side may be longer (rounded down); with equal
    height and width that is ``Resize(256)`` of torchvision, of the shorter side. ``antialias`` resamples as Pillow and
    torchvision do; with ``round_pixels`` the elements are those of Pillow for an image of 8 bits.
    """

    keyword_only = ("fill_value", "keep_aspect_ratio", "antialias", "round_pixels")
    keeps_bounds = True
    over_images = True
    height: int = field(min=1, doc="Rows of the output.")
    width: int = field(min=1, doc="Columns of the output.")
    interpolation: Interpolation = field(default="bilinear", doc="Interpolation between pixels.")
    crop_to_aspect_ratio: bool = field(default=False, doc="Whether to crop to the target's aspect ratio first.")
    pad_to_aspect_ratio: bool = field(default=False, doc="Whether to pad to the target's aspect ratio first.")
    fill_value: float = field(default=0.0, doc="Value of that padding.")
    keep_aspect_ratio: bool = field(default=False, doc="Whether the output is longer on one side instead.")
    antialias: bool = field(default=False, doc="Whether all pixels that a smaller image leaves out count in it.")
    round_pixels: bool = field(
        default=False, doc="Whether elements are rounded, after each axis, to integers from 0 to 255, as Pillow does."
    )
    examples = [
        example("Resizing { height: 4  width: 3 }", inputs=[(2, 3, 5)]),
        example("Resizing { height: 3  width: 3  interpolation: nearest  crop_to_aspect_ratio: true }",
                inputs=[(1, 5, 4)], dtype="uint8", range=(0, 256)),
        example("Resizing { height: 4  width: 2  interpolation: bicubic  pad_to_aspect_ratio: true }",
                inputs=[(1, 3, 4)]),
        example("Resizing { height: 3  width: 3  keep_aspect_ratio: true  antialias: true }", inputs=[(2, 5, 8)]),
    ]  # fmt: skip

    def check(self) -> None:
        """One of cropping, padding and keeping."""
        names = [n for n in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "keep_aspect_ratio") if getattr(self, n)]
        if len(names) > 1:
            self.refuse(f"{names[0]} and {names[1]} exclude each other", names[1])

    def output_size(self, rows: int, columns: int) -> tuple[int, int]:
        """Height and width of the output for an image of this size."""
        if not self.keep_aspect_ratio:
            return self.height, self.width
        if self.height * columns >= self.width * rows:
            return self.height, self.height * columns // rows
        return self.width * rows // columns, self.width

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        height, width = self.output_size(*x.shape[2:])
        if self.keep_aspect_ratio and max(height, width) > MAX_SIDE:
            ctx.fail(f"the output would have {height} x {width} pixels; a side has at most {MAX_SIDE:,}")
        if self.crop_to_aspect_ratio:
            x = crop_to_aspect_ratio(x, height, width)
        elif self.pad_to_aspect_ratio:
            h, w = x.shape[2:]
            more = (max(h, w * height // width) - h, max(w, h * width // height) - w)
            pads = tuple((n // 2, n // 2) for n in more)  # both sides alike, as Keras does
            x = ops.pad(x, pads=((0, 0), (0, 0), *pads), value=self.fill_value)
        if not self.round_pixels:
            return ops.resize(x, (height, width), method=self.interpolation, antialias=self.antialias)
        y = ops.cast(x, dtype="float64")  # sums of pixels times weights of 22 bits are exact, as Pillow's integers are
        h, w = x.shape[2:]
        rows_first = h > height and h - height > 2 * (w - width)  # measured: Pillow 13
        for size in ((height, w) if rows_first else (h, width), (height, width)):
            if y.shape[2:] != size:
                y = ops.resize(y, size, method=self.interpolation, antialias=self.antialias)
                y = ops.minimum(ops.maximum(ops.floor(y + 0.5), 0.0), 255.0)
        return ops.cast(y, dtype=x.dtype)


class CenterCrop(MapLayer):
    """The center of images (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, height, width]; integers become float32. A
    image that is too small gives its largest part of that shape, resized.
    """

    keyword_only = ("offset_rounding",)
    keeps_bounds = True
    over_images = True
    height: int = field(min=1, doc="Rows of the output.")
    width: int = field(min=1, doc="Columns of the output.")
    offset_rounding: Literal["down", "half_even"] = field(
        default="down",
        doc='How half a pixel is rounded where an odd number is cut off: "down" (Keras), or to the even integer, '
        '"half_even" (PyTorch).',
    )
    examples = [
        example("CenterCrop { height: 2  width: 3 }", inputs=[(2, 5, 4)]),
        example("CenterCrop { height: 4  width: 2 }", inputs=[(1, 3, 3)]),
        example("CenterCrop { height: 2  width: 3  offset_rounding: half_even }", inputs=[(2, 5, 6)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if x.shape[2] < self.height or x.shape[3] < self.width:
            return smart_resize(x, self.height, self.width)
        if self.offset_rounding == "down":
            return center_crop(x, self.height, self.width)
        top, left = round((x.shape[2] - self.height) / 2), round((x.shape[3] - self.width) / 2)
        return x[:, :, top : top + self.height, left : left + self.width]
