"""Activations: each is a layer of its own, and the value of any ``activation`` field."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.schema import example, field


class ActivationLayer(Layer, abstract=True):
    """An activation: one input, an output of the same shape."""

    keeps_mask = True


class Linear(ActivationLayer):
    """The input as it is."""

    aliases = ("identity",)
    examples = [example("Linear { }", inputs=[(3,)]), example("Linear { }", inputs=[(2, 1, 3)])]

    def call(self, ctx: Context, x: Any) -> Any:
        return x


class ReLU(ActivationLayer):
    """max(x, 0), the rectified linear unit (Keras).

    In full: ``max_value`` where x >= max_value; x where threshold <= x; else ``negative_slope * (x - threshold)``.
    """

    max_value: float | None = field(default=None, min=0, doc="The largest output; none for no limit.")
    negative_slope: float = field(default=0.0, min=0, doc="The slope below the threshold.")
    threshold: float = field(default=0.0, min=0, doc="Below it the output is 0 (or follows negative_slope).")
    examples = [
        example("ReLU { }", inputs=[(3, 2)]),
        example("ReLU { max_value: 1  negative_slope: 0.25  threshold: 0.5 }", inputs=[(7,)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        if self.threshold == 0 and self.negative_slope == 0:
            y = ops.maximum(x, 0)
        else:
            y = ops.where(ops.less(x, self.threshold), (x - self.threshold) * self.negative_slope, x)
        return y if self.max_value is None else ops.minimum(y, self.max_value)


class Tanh(ActivationLayer):
    """The hyperbolic tangent."""

    examples = [example("Tanh { }", inputs=[(3,)]), example("Tanh { }", inputs=[(2, 1, 3)])]

    def call(self, ctx: Context, x: Any) -> Any:
        return ops.tanh(x)


class Softmax(ActivationLayer):
    """exp(x) / sum of exp(x) along an axis: positive numbers that add up to 1 (Keras)."""

    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [
        example("Softmax { }", inputs=[(4,)]),
        example("Softmax { axis: 1 }", inputs=[(3, 2, 2)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        e = ops.exp(x - ops.stop_gradient(ops.max_(x, axis=self.axis, keepdims=True)))
        return e / ops.sum_(e, axis=self.axis, keepdims=True)
