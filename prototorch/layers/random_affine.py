"""Random affine transforms of images in training, independent for each sample: rotation, zoom, translation."""

from __future__ import annotations

from math import pi
from typing import Any, Literal

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.image import as_float_images
from prototorch.layers.image_augmentation import RangePair, sample_uniform
from prototorch.layers.random_layer import RandomLayer
from prototorch.schema import Bounds, example, field

Range = tuple[float, float]


class _RandomAffine(MapLayer, RandomLayer):
    """Each output pixel (row, column) is read at ``matrix @ (row, column, 1)``, a matrix for each sample."""

    keeps_bounds = True
    over_images = True
    fill_mode: Literal["reflect", "constant", "nearest", "wrap"] = field(
        default="reflect", doc="Values beyond the border: mirrored, fill_value, the edge pixel, or repeated."
    )
    interpolation: Literal["bilinear", "nearest"] = field(default="bilinear", doc="Interpolation between pixels.")
    fill_value: float = field(default=0.0, doc="The value beyond the border for 'constant'.")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float_images(ctx, x)
        if not ctx.training:
            return x
        (a, b), (c, d), (top, left) = self.affine_terms(ctx, x)
        # The center of the image is the fixed point.
        middle_row, middle_column = (x.shape[2] - 1) / 2, (x.shape[3] - 1) / 2
        rows = (a, b, top + middle_row - a * middle_row - b * middle_column)
        columns = (c, d, left + middle_column - c * middle_row - d * middle_column)
        matrices = ops.reshape(ops.concat(*rows, *columns, axis=1), shape=(x.shape[0], 2, 3))
        return ops.affine_sample(
            x, matrices, fill_mode=self.fill_mode, fill_value=self.fill_value, interpolation=self.interpolation
        )

    def affine_terms(self, ctx: Context, x: ArrayValue) -> tuple[tuple[Any, Any], tuple[Any, Any], tuple[Any, Any]]:
        """Both rows of the matrix, and the shift; each element has the shape [batch, 1, 1, 1]."""
        raise TypeError(f"{type(self).__name__} does not define turned")


class RandomRotation(_RandomAffine):
    """Each image rotated about its center (Keras, channels first).

    ``factor`` is a fraction of 360 degrees, counter-clockwise positive: 0.1 rotates by -36 to 36 degrees. Input and
    output [batch, channels, rows, columns]. The identity outside training.
    """

    keyword_only = ("fill_value", "seed")
    factor: Range = field(
        type=RangePair(Bounds(min=-1, max=1)), doc="[lower, upper], or n for [-n, n], in whole turns."
    )
    examples = [
        example("RandomRotation { factor: 0.1 }", inputs=[(1, 4, 4)]),
        example("RandomRotation { factor: [0.2, 0.3]  fill_mode: constant  fill_value: 1 }", inputs=[(2, 3, 5)]),
    ]

    def affine_terms(self, ctx: Context, x: ArrayValue) -> tuple[tuple[Any, Any], tuple[Any, Any], tuple[Any, Any]]:
        angle = sample_uniform(ctx, self, x, *self.factor) * (2 * pi)
        cosine, sine, zero = ops.cos(angle), ops.sin(angle), angle * 0
        return (cosine, sine), (-sine, cosine), (zero, zero)


class RandomZoom(_RandomAffine):
    """Each image zoomed about its center (Keras, channels first).

    A factor above 0 zooms out, one below 0 zooms in: 0.2 shows 120 % of the image's height. Input and output
    [batch, channels, rows, columns]. The identity outside training.
    """

    keyword_only = ("fill_value", "seed")
    height_factor: Range = field(type=RangePair(Bounds(above=-1, max=1)), doc="[lower, upper], or n for [-n, n].")
    width_factor: Range | None = field(
        default=None, type=RangePair(Bounds(above=-1, max=1)), doc="The same for the width; none: as the height."
    )
    examples = [
        example("RandomZoom { height_factor: 0.3 }", inputs=[(1, 4, 4)]),
        example("RandomZoom { height_factor: [-0.5, -0.2]  width_factor: 0.1  fill_mode: nearest }",
                inputs=[(2, 3, 5)]),
    ]  # fmt: skip

    def affine_terms(self, ctx: Context, x: ArrayValue) -> tuple[tuple[Any, Any], tuple[Any, Any], tuple[Any, Any]]:
        height = sample_uniform(ctx, self, x, *self.height_factor) + 1.0
        width = height if self.width_factor is None else sample_uniform(ctx, self, x, *self.width_factor) + 1.0
        zero = height * 0
        return (height, zero), (zero, width), (zero, zero)


class RandomTranslation(_RandomAffine):
    """Each image shifted (Keras, channels first).

    Factors are parts of the height and the width; down and right are positive. Input and output
    [batch, channels, rows, columns]. The identity outside training.
    """

    keyword_only = ("fill_value", "seed")
    height_factor: Range = field(type=RangePair(Bounds(min=-1, max=1)), doc="[lower, upper], or n for [-n, n].")
    width_factor: Range = field(type=RangePair(Bounds(min=-1, max=1)), doc="[lower, upper], or n for [-n, n].")
    examples = [
        example("RandomTranslation { height_factor: 0.3  width_factor: 0.2 }", inputs=[(1, 4, 4)]),
        example("RandomTranslation { height_factor: [-0.5, 0.5]  width_factor: 0  fill_mode: wrap }",
                inputs=[(2, 3, 5)]),
    ]  # fmt: skip

    def affine_terms(self, ctx: Context, x: ArrayValue) -> tuple[tuple[Any, Any], tuple[Any, Any], tuple[Any, Any]]:
        down = sample_uniform(ctx, self, x, *self.height_factor) * float(x.shape[2])
        right = sample_uniform(ctx, self, x, *self.width_factor) * float(x.shape[3])
        one, zero = down * 0 + 1.0, down * 0
        return (one, zero), (zero, one), (-down, -right)
