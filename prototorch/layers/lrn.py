"""Local response normalization."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class LRN(Layer):
    """Local response normalization across channels (Krizhevsky 2012; fields and defaults of Caffe's LRN).

    ``x / (k + alpha / size * sum of x^2 over the size nearest channels) ** beta``. Input [batch, channels, ...], output
    the same shape. Channels beyond the first and the last count as 0.
    """

    foreign_names = {"LocalResponseNorm": "LRN"}
    foreign_fields = {"local_size": "size"}

    aliases = ("LocalResponseNormalization",)
    size: int = field(default=5, min=1, doc="Number of channels that are summed, odd.")
    alpha: float = field(default=1.0, doc="The weight of the sum.")
    beta: float = field(default=0.75, doc="The exponent.")
    k: float = field(default=1.0, above=0, doc="Added to the sum.")
    examples = [
        example("LRN { }", inputs=[(7, 2, 3)]),
        example("LRN { size: 3  alpha: 1e-4  beta: 0.5  k: 2 }", inputs=[(2, 4)]),
    ]

    def check(self) -> None:
        """The window has a middle."""
        if self.size % 2 == 0:
            self.refuse(f"size must be odd, so that the window has a middle, not {self.size}", "size")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim < 2:
            ctx.fail("the input must have channels")
        return ops.lrn(x, size=self.size, alpha=self.alpha, beta=self.beta, k=self.k)[0]
