"""Cropping to the size of another input."""

from __future__ import annotations

from typing import Any

from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class CropLike(Layer):
    """The first input cropped to the size of the second, along all axes from ``axis`` on (Caffe's Crop; slice_like of
    MXNet).

    Inputs [batch, ...] and [batch, ...] with as many axes, output: the first input's sizes before ``axis``, the second
    one's from there on. The second input's elements do not count. Raises ShapeError where the crop is not inside.
    """

    channel_axis_note = "its field `axis` says it: all axes from 2 on, as in Caffe"
    inputs = 2
    keeps_bounds = True
    axis: int = field(default=2, doc="The first axis that is cropped, the batch dimension being 0.")
    offsets: list[int] = field(default=0, min=0, doc="Where the crop starts, one number for each axis or one for all.")
    examples = [
        example("CropLike { }", inputs=[(2, 4, 5), (1, 3, 2)]),
        example("CropLike { axis: 1  offsets: [1, 2, 0] }", inputs=[(4, 5, 5), (2, 3, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue, like: ArrayValue) -> Any:
        if x.ndim != like.ndim:
            ctx.fail(f"its inputs must have as many axes, not {x.ndim} and {like.ndim}")
        if not -x.ndim <= self.axis < x.ndim:
            ctx.fail(f"axis {self.axis} is not one of the {x.ndim} axes of its inputs")
        axis = self.axis % x.ndim
        if len(self.offsets) not in (1, x.ndim - axis):
            ctx.fail(f"offsets must have 1 or {x.ndim - axis} numbers, not {len(self.offsets)}")
        offsets = self.offsets if len(self.offsets) > 1 else list(self.offsets) * (x.ndim - axis)
        key = [slice(None)] * axis
        for i, offset in enumerate(offsets, axis):
            if offset + like.shape[i] > x.shape[i]:
                ctx.fail(
                    f"a crop of {like.shape[i]} elements from {offset} on is not inside axis {i} of {list(x.shape)}, "
                    f"which has {x.shape[i]}; the crop has the size of {list(like.shape)}"
                )
            key.append(slice(offset, offset + like.shape[i]))
        return x[tuple(key)]
