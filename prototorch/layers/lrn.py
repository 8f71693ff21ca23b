"""Local response normalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Literal

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field
from prototorch.text.syntax_tree import Field


class LRN(MapLayer):
    """Local response normalization (Krizhevsky 2012; fields and defaults of Caffe's LRN).

    Across channels: ``x / (k + alpha / size * sum of x^2 over the size nearest channels) ** beta``. Within a channel:
    ``x / (k + alpha * mean of x^2 over the window around the element) ** beta``, a window of ``size`` along each
    spatial dimension. Input [batch, channels, ...], output the same shape. What is beyond the ends counts as 0.
    """

    channel_axis_note = "axis 1 whatever the rank, as in Caffe and PyTorch, unless `data_format` says the last"
    follows_layer = True
    foreign_names = {"LocalResponseNorm": "LRN"}
    foreign_fields = {"local_size": "size"}

    aliases = ("LocalResponseNormalization",)
    own_fields: ClassVar[frozenset[str]] = frozenset({"region"})
    keyword_only = ("region",)
    size: int = field(default=5, min=1, doc="Number of channels that are summed, or the side of the window; odd.")
    alpha: float = field(default=1.0, doc="The weight of the sum.")
    beta: float = field(default=0.75, doc="The exponent.")
    k: float = field(default=1.0, min=0, doc="Added to the sum.")
    region: Literal["across_channels", "within_channel"] = field(
        default="across_channels",
        doc="Whether neighbouring channels are summed, or neighbouring elements of a channel.",
    )
    examples = [
        example("LRN { }", inputs=[(7, 2, 3)]),
        example("LRN { size: 3  alpha: 1e-4  beta: 0.5  k: 2 }", inputs=[(2, 4)]),
        example("LRN { size: 3  region: within_channel }", inputs=[(2, 4, 3)]),
    ]

    @classmethod
    def format_1_fields(cls, fields: Sequence[Field]) -> Mapping[str, Any]:
        return {}

    def has_channels_last(self, sample_rank: int) -> bool:
        return self.data_format == "channels_last"

    def check(self) -> None:
        """The window has a middle."""
        if self.size % 2 == 0:
            self.refuse(f"size must be odd, so that the window has a middle, not {self.size}", "size")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim < 2:
            ctx.fail("the input must have channels")
        if self.region == "within_channel":
            return self._within_channel(ctx, x)
        size = min(self.size, 2 * x.shape[1] - 1)  # a larger window has all channels, too
        alpha = self.alpha * size / self.size
        return ops.lrn(x, size=size, alpha=alpha, beta=self.beta, k=self.k)[0]

    def _within_channel(self, ctx: Context, x: ArrayValue) -> Any:
        rank = x.ndim - 2
        if rank < 1:
            ctx.fail("within_channel needs spatial dimensions after the channels")
        sizes = tuple(min(self.size, 2 * n - 1) for n in x.shape[2:])  # larger windows have all elements, too
        around = tuple((size // 2, size // 2) for size in sizes)
        mean = ops.avg_pool(ops.square(x), kernel=sizes, strides=(1,) * rank, pads=around, include_pad=True)
        alpha = self.alpha * prod(sizes) / self.size**rank
        return x * (mean * alpha + self.k) ** -self.beta
