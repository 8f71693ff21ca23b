"""Layers whose outputs are their input: without a gradient, or several times."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class StopGradient(Layer):
    """The identity, through which no gradient passes (keras.ops.stop_gradient). Input and output [batch, ...]."""

    mask_policy = "keep"
    independent_steps = True
    keeps_bounds = True
    foreign_names = {"Detach": "StopGradient"}
    examples = [
        example("StopGradient { }", inputs=[(3,)], gradient=False),
        example("StopGradient { }", inputs=[(2, 3)], dtype="int32"),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.stop_gradient(x)


class Copies(Layer):
    """The input as several outputs, all equal to it (Caffe's Split). Its gradient is the sum of theirs.

    A value may be read by any number of layers without it; it gives the copies names of their own.
    """

    mask_policy = "keep"
    independent_steps = True
    keeps_bounds = True
    count: int = field(default=2, min=1, max=1000, doc="The number of outputs.")
    examples = [
        example("Copies { }", inputs=[(2, 3)]),
        example("Copies { count: 3 }", inputs=[(4,)]),
        example("Copies { count: 1 }", inputs=[(2,)]),
    ]

    def output_count(self) -> int:
        return self.count

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        copies = tuple(
            ops.reshape(x, shape=tuple(x.shape)) for _ in range(self.count)
        )  # values with gradients of their own
        return copies if self.count > 1 else copies[0]
