"""Upsampling by whole factors."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.windows import Sizes, check_rank
from prototorch.schema import Ints, example, field


class _UpSampling(MapLayer):
    keeps_bounds = True
    rank: ClassVar[int]
    size: Sizes

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, self.rank)
        for axis, times in enumerate(self.size, start=2):
            x = x if times == 1 else ops.repeat(x, times=times, axis=axis)
        return x


def _size_field(rank: int) -> Any:
    return field(default=2, type=Ints(rank, min=1), doc="Repetition factor of each dimension.")


class UpSampling1D(_UpSampling):
    """Each step repeated (Keras). Input [batch, steps, channels]."""

    rank = 1
    size: Sizes = _size_field(1)
    examples = [
        example("UpSampling1D { }", inputs=[(3, 2)]),
        example("UpSampling1D { size: 3 }", inputs=[(1, 1)]),
    ]


class UpSampling2D(_UpSampling):
    """Images made larger by whole factors (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, rows * size[0], columns * size[1]].
    """

    positional = ("size",)
    rank = 2
    size: Sizes = _size_field(2)
    interpolation: Literal["nearest", "bilinear", "bicubic"] = field(
        default="nearest", doc="nearest: pixels are repeated; bilinear, bicubic: pixels between them are computed."
    )
    examples = [
        example("UpSampling2D { }", inputs=[(2, 3, 2)]),
        example("UpSampling2D { size: [1, 3]  interpolation: bilinear }", inputs=[(1, 2, 3)]),
        example("UpSampling2D { interpolation: bicubic }", inputs=[(1, 1, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if self.interpolation == "nearest":
            return super().call(ctx, x)
        check_rank(ctx, x, self.rank)
        size = (x.shape[2] * self.size[0], x.shape[3] * self.size[1])
        return ops.resize(x, size, method=self.interpolation)


class UpSampling3D(_UpSampling):
    """Volumes with each place repeated (Keras, channels first). Input [batch, channels, depth, rows, columns]."""

    rank = 3
    size: Sizes = _size_field(3)
    examples = [
        example("UpSampling3D { }", inputs=[(1, 2, 1, 2)]),
        example("UpSampling3D { size: [1, 2, 3] }", inputs=[(2, 1, 2, 2)]),
    ]
