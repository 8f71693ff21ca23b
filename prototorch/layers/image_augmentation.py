"""Random augmentation of images in training, independent for each sample: flip, crop, contrast, brightness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.image import as_float_images, smart_resize
from prototorch.layers.random_layer import RandomLayer
from prototorch.layers.rescaling import as_float
from prototorch.layers.windows import check_rank
from prototorch.schema import Bounds, FieldType, Float, example, field
from prototorch.schema.validation import ValidationError
from prototorch.spec import FLOAT_DTYPES
from prototorch.text.syntax_tree import Value, to_value_node


@dataclass(frozen=True)
class RangePair(FieldType):
    """A range: a pair [lower, upper], or one number n for [-n, n] (``mirrored``) or [n, n]."""

    bounds: Bounds
    symmetric: bool = True

    def describe(self) -> str:
        return f"{Float(self.bounds).describe()}, or a pair [lower, upper] of them"

    def label(self) -> str:
        return "float or [lower, upper]"

    def convert(self, value: Any) -> tuple[float, float]:
        one = Float(self.bounds)
        if not isinstance(value, list | tuple):
            n = abs(one.convert(value))
            return (-n, n) if self.symmetric else (n, n)
        if len(value) != 2:
            raise ValidationError(right_kind=True)
        low, high = (one.convert(v) for v in value)
        return (min(low, high), max(low, high)) if self.symmetric else (low, high)

    def write(self, value: Any) -> Value:
        low, high = value
        return to_value_node(high if low == (-high if self.symmetric else high) else [low, high])


def sample_uniform(ctx: Context, layer: RandomLayer, x: ArrayValue, low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform random numbers, one per sample, [batch, 1, 1, 1]."""
    shape, dtype = (x.shape[0], 1, 1, 1), x.dtype if x.dtype in FLOAT_DTYPES else "float32"
    return ops.random_uniform(ctx.key(), site=layer.random_site(ctx), shape=shape, low=low, high=high, dtype=dtype)


class RandomFlip(MapLayer, RandomLayer):
    """Each image mirrored with probability 1/2 per direction (Keras, channels first).

    Input and output [batch, channels, rows, columns]. The identity outside training.
    """

    keeps_bounds = True
    over_images = True
    mode: Literal["horizontal_and_vertical", "horizontal", "vertical"] = field(
        default="horizontal_and_vertical", doc="horizontal: left and right exchanged; vertical: top and bottom."
    )
    examples = [
        example("RandomFlip { }", inputs=[(1, 2, 3)]),
        example("RandomFlip { mode: horizontal }", inputs=[(2, 1, 4)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if ctx.training:
            for axis, word in ((3, "horizontal"), (2, "vertical")):
                if word in self.mode:
                    x = ops.where(ops.less(sample_uniform(ctx, self, x), 0.5), ops.flip(x, axis=axis), x)
        return x


class RandomCrop(MapLayer, RandomLayer):
    """A crop of each image at a random offset (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, height, width]. Outside training, and where a
    image is too small, its largest middle part of that shape, resized.
    """

    keeps_bounds = True
    over_images = True
    is_identity_outside_training = False
    height: int = field(min=1, doc="Rows of the output.")
    width: int = field(min=1, doc="Columns of the output.")
    examples = [
        example("RandomCrop { height: 2  width: 3 }", inputs=[(2, 5, 6)]),
        example("RandomCrop { height: 3  width: 3 }", inputs=[(1, 2, 5)], training=False),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, 2)
        if not ctx.training or x.shape[2] < self.height or x.shape[3] < self.width:
            return smart_resize(as_float(x), self.height, self.width)
        left, top = self._first(ctx, x, x.shape[3] - self.width), self._first(ctx, x, x.shape[2] - self.height)
        return as_float(ops.crop(x, top, left, height=self.height, width=self.width))

    def _first(self, ctx: Context, x: ArrayValue, spare: int) -> Any:
        """Offsets of the crop, [batch, 1, 1, 1]; `ops.crop` clips offsets that rounding puts beyond ``spare``."""
        return ops.cast(ops.floor(sample_uniform(ctx, self, x, 0.0, spare + 1.0)), dtype="int32")


class RandomContrast(MapLayer, RandomLayer):
    """Each image's distance from its channels' means multiplied by a factor (Keras, channels first).

    ``(x - mean) * c + mean`` with c drawn from [1 - lower, 1 + upper], then cut to ``value_range``. Input and output
    [batch, channels, rows, columns]. The identity outside training.
    """

    over_images = True

    factor: tuple[float, float] = field(
        type=RangePair(Bounds(min=0, max=1), symmetric=False),
        doc="How far the factor is from 1: one number, or [lower, upper].",
    )
    value_range: tuple[float, float] = field(default=(0, 255), doc="The smallest and the largest value of a pixel.")
    examples = [
        example("RandomContrast { factor: 0.5 }", inputs=[(2, 2, 3)], range=(50, 200)),
        example("RandomContrast { factor: [0, 1]  value_range: [-9, 9] }", inputs=[(1, 3, 1)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if not ctx.training:
            return x
        mean = ops.mean(x, axis=(2, 3), keepdims=True)
        y = (x - mean) * sample_uniform(ctx, self, x, 1.0 - self.factor[0], 1.0 + self.factor[1]) + mean
        return ops.clip(y, *sorted(self.value_range))


class RandomBrightness(MapLayer, RandomLayer):
    """Each image made lighter or darker (Keras, channels first).

    A number drawn from [lower, upper], times the width of ``value_range``, is added; the result is cut to that range.
    Input and output [batch, channels, rows, columns]. The identity outside training.
    """

    over_images = True

    factor: tuple[float, float] = field(
        type=RangePair(Bounds(min=-1, max=1)), doc="What is added: [lower, upper], or n for [-n, n]."
    )
    value_range: tuple[float, float] = field(default=(0, 255), doc="The smallest and the largest value of a pixel.")
    examples = [
        example("RandomBrightness { factor: 0.1 }", inputs=[(2, 2, 3)], range=(50, 200)),
        example("RandomBrightness { factor: [0.1, 0.2]  value_range: [0, 1] }", inputs=[(1, 3, 1)], range=(0, 0.7)),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if not ctx.training:
            return x
        low, high = sorted(self.value_range)
        return ops.clip(x + sample_uniform(ctx, self, x, *self.factor) * (high - low), low, high)
