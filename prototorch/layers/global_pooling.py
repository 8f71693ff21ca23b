"""Global pooling: the largest or the mean of each whole channel."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.windows import check_rank
from prototorch.schema import example, field


class _GlobalPooling(MapLayer):
    keeps_bounds = True
    rank: ClassVar[int]
    keepdims: bool = field(default=False, doc="Whether the pooled dimensions stay, with size 1.")

    def pooled_axes(self, ctx: Context, x: ArrayValue) -> tuple[int, ...]:
        """All axes behind [batch, channels]. Raises ShapeError for an input of another rank."""
        check_rank(ctx, x, self.rank)
        return tuple(range(2, x.ndim))


class _GlobalMax(_GlobalPooling):
    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.max(x, axis=self.pooled_axes(ctx, x), keepdims=self.keepdims)


class _GlobalAverage(_GlobalPooling):
    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.mean(x, axis=self.pooled_axes(ctx, x), keepdims=self.keepdims)


class GlobalMaxPooling1D(_GlobalMax):
    """The largest of each channel (Keras). Input [batch, steps, channels], output [batch, channels]."""

    positional = ()
    rank = 1
    aliases = ("GlobalMaxPool1D",)
    examples = [
        example("GlobalMaxPooling1D { }", inputs=[(5, 3)]),
        example("GlobalMaxPooling1D { keepdims: true }", inputs=[(1, 2)]),
    ]


class GlobalMaxPooling2D(_GlobalMax):
    """The largest of each channel (Keras). Input [batch, channels, rows, columns], output [batch, channels]."""

    positional = ()
    foreign_names = {"AdaptiveMaxPool2d": "GlobalMaxPooling2D"}

    rank = 2
    aliases = ("GlobalMaxPool2D",)
    examples = [
        example("GlobalMaxPooling2D { }", inputs=[(3, 2, 5)]),
        example("GlobalMaxPooling2D { keepdims: true }", inputs=[(2, 1, 3)]),
    ]


class GlobalMaxPooling3D(_GlobalMax):
    """The largest of each channel (Keras). Input [batch, channels, depth, rows, columns], output [batch, channels]."""

    positional = ()
    rank = 3
    aliases = ("GlobalMaxPool3D",)
    examples = [
        example("GlobalMaxPooling3D { }", inputs=[(3, 2, 2, 3)]),
        example("GlobalMaxPooling3D { keepdims: true }", inputs=[(1, 1, 3, 2)]),
    ]


class GlobalAveragePooling1D(_GlobalAverage):
    """The mean of each channel (Keras). Input [batch, steps, channels], output [batch, channels].

    Steps that its mask leaves out do not count in the mean; where none counts, the mean is 0.
    """

    positional = ()
    rank = 1
    mask_policy = "use"
    aliases = ("GlobalAvgPool1D",)
    examples = [
        example("GlobalAveragePooling1D { }", inputs=[(5, 3)]),
        example("GlobalAveragePooling1D { keepdims: true }", inputs=[(1, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        mask = ctx.mask(x)
        if mask is None or mask.ndim == 1:
            return super().call(ctx, x)
        axes = self.pooled_axes(ctx, x)
        if mask.ndim < 3:
            ctx.warn(
                f"its input {list(x.shape[1:])} has a mask of its {x.shape[1]} channels, and the mean is over its "
                f"{x.shape[2]} steps: every step counts; with data_format: channels_last the mask is of the steps"
            )
            return super().call(ctx, x)
        count = ops.sum(ops.cast(mask, dtype=x.dtype), axis=axes, keepdims=self.keepdims)
        total = ops.sum(ops.where(mask, x, ops.zeros_like(x)), axis=axes, keepdims=self.keepdims)
        return total / ops.maximum(count, 1.0)


class GlobalAveragePooling2D(_GlobalAverage):
    """The mean of each channel (Keras). Input [batch, channels, rows, columns], output [batch, channels]."""

    block_word = "pool"
    positional = ()

    rank = 2
    aliases = ("GlobalAvgPool2D",)
    examples = [
        example("GlobalAveragePooling2D { }", inputs=[(3, 2, 5)]),
        example("GlobalAveragePooling2D { keepdims: true }", inputs=[(2, 1, 3)]),
    ]


class GlobalAveragePooling3D(_GlobalAverage):
    """The mean of each channel (Keras). Input [batch, channels, depth, rows, columns], output [batch, channels]."""

    positional = ()
    rank = 3
    aliases = ("GlobalAvgPool3D",)
    examples = [
        example("GlobalAveragePooling3D { }", inputs=[(3, 2, 2, 3)]),
        example("GlobalAveragePooling3D { keepdims: true }", inputs=[(1, 1, 3, 2)]),
    ]
