"""Layers whose outputs do not follow the input smoothly: one value, or two."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class FullLike(Layer):
    """One value in the shape of the input, whose elements do not count (keras.ops.full_like)."""

    mask_policy = "keep"
    value: float = field(doc="The value of all elements.")
    examples = [
        example("FullLike { value: 2.5 }", inputs=[(3,)], gradient=False),
        example("FullLike { value: -1 }", inputs=[(2, 3)], dtype="int32"),
    ]

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return self.value, self.value

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        value = self.value if x.dtype.startswith("float") else int(self.value)
        return ops.full(shape=tuple(x.shape), value=value, dtype=x.dtype)


class Binarize(Layer):
    """1 where the input is larger than a threshold, else 0 (Caffe's Threshold). It has no derivative."""

    mask_policy = "keep"
    threshold: float = field(default=0.0, doc="The threshold; elements equal to it give 0.")
    examples = [
        example("Binarize { }", inputs=[(5,)], gradient=False),
        example("Binarize { threshold: 0.5 }", inputs=[(2, 3)], gradient=False),
    ]

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, 1.0

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.cast(ops.greater(x, self.threshold), dtype=x.dtype)
