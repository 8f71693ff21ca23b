"""Activations of the linear units' family: near x for large x, small below 0."""

from __future__ import annotations

from math import inf
from typing import Any

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field

_EXAMPLE_SHAPES = [(3,), (2, 1, 3)]


class ELU(ActivationLayer):
    """x where x > 0, else alpha * (exp(x) - 1): the exponential linear unit (Keras)."""

    alpha: float = field(default=1.0, doc="The scale below 0.")
    examples = [example("ELU { }", inputs=[(5,)]), example("ELU { alpha: 0.5 }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.elu(x, alpha=self.alpha)


class SELU(ActivationLayer):
    """1.0507 * ELU(alpha 1.6733): keeps mean 0 and variance 1 (Klambauer et al., 2017; Keras)."""

    examples = [example("SELU { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.selu(x)


class CELU(ActivationLayer):
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)) (Barron, 2017; Keras)."""

    alpha: float = field(default=1.0, above=0, doc="The scale below 0.")
    examples = [example("CELU { }", inputs=[(5,)]), example("CELU { alpha: 0.5 }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.elu(x * (1 / self.alpha)) * self.alpha


class GELU(ActivationLayer):
    """x * P(X <= x) for a standard normal X (Hendrycks and Gimpel, 2016; Keras)."""

    approximate: bool = field(default=False, doc="Whether the formula with tanh stands in, as in GPT-2.")
    examples = [example("GELU { }", inputs=[(5,)]), example("GELU { approximate: true }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.gelu(x, approximate=self.approximate)


class SiLU(ActivationLayer):
    """x * sigmoid(beta * x), also called swish (Keras, with the beta 1; Ramachandran et al., 2017)."""

    aliases = ("swish", "Swish")
    own_fields = frozenset({"beta"})
    beta: float = field(default=1.0, doc="Factor on the input of the sigmoid.")
    examples = [
        *(example("SiLU { }", inputs=[s]) for s in _EXAMPLE_SHAPES),
        example("SiLU { beta: 1.5 }", inputs=[(3, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.silu(x) if self.beta == 1 else x * ops.sigmoid(x * self.beta)


class HardSwish(ActivationLayer):
    """x * hard_sigmoid(x), also called hard_silu (Howard et al., 2019; Keras)."""

    aliases = ("HardSiLU", "hard_silu")
    examples = [example("HardSwish { }", inputs=[(5,)]), example("HardSwish { }", inputs=[(2, 2)], range=(-5, 5))]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.hard_swish(x)


class Mish(ActivationLayer):
    """x * tanh(softplus(x)) (Misra, 2019; Keras)."""

    examples = [example("Mish { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.mish(x)


class ThresholdedReLU(ActivationLayer):
    """x where x > theta, else 0 (Konda et al., 2015; Keras 2)."""

    theta: float = field(default=1.0, min=0, doc="The threshold.")
    examples = [
        example("ThresholdedReLU { }", inputs=[(5,)]),
        example("ThresholdedReLU { theta: 0.25 }", inputs=[(2, 3)]),
    ]

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, max(high, 0.0)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.where(ops.greater(x, self.theta), x, ops.zeros_like(x))


class HardShrink(ActivationLayer):
    """x where abs(x) > threshold, else 0 (Keras, PyTorch)."""

    threshold: float = field(default=0.5, min=0, doc="The threshold.")
    examples = [example("HardShrink { }", inputs=[(5,)]), example("HardShrink { threshold: 0.2 }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.where(ops.greater(ops.abs(x), self.threshold), x, ops.zeros_like(x))


class SoftShrink(ActivationLayer):
    """x moved towards 0 by the threshold, 0 within it (Keras, PyTorch)."""

    threshold: float = field(default=0.5, min=0, doc="The threshold.")
    examples = [example("SoftShrink { }", inputs=[(5,)]), example("SoftShrink { threshold: 0.2 }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.maximum(x - self.threshold, 0.0) + ops.minimum(x + self.threshold, 0.0)


class Squareplus(ActivationLayer):
    """(x + sqrt(x * x + b)) / 2: a ReLU with a smooth bend (Keras)."""

    bounds = (0.0, inf)
    b: float = field(default=4.0, min=0, doc="How wide the bend is; 0 for a ReLU.")
    examples = [example("Squareplus { }", inputs=[(5,)]), example("Squareplus { b: 1 }", inputs=[(2, 3)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return (x + ops.sqrt(x * x + self.b)) * 0.5


class SparsePlus(ActivationLayer):
    """0 below -1, (x + 1)**2 / 4 up to 1, then x (Keras)."""

    bounds = (0.0, inf)
    examples = [example("SparsePlus { }", inputs=[(5,)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        half = (_bounded(x, -1.0, 1.0) + 1.0) * 0.5
        return half * half + ops.maximum(x - 1.0, 0.0)


class SparseSigmoid(ActivationLayer):
    """0 below -1, (x + 1) / 2 up to 1, then 1 (Keras)."""

    bounds = (0.0, 1.0)
    examples = [example("SparseSigmoid { }", inputs=[(5,)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return (_bounded(x, -1.0, 1.0) + 1.0) * 0.5


def _bounded(x: ArrayValue, low: float, high: float) -> Any:
    return ops.minimum(ops.maximum(x, low), high)


class PReLU(ActivationLayer):
    """x where x > 0, else alpha * x with a trained alpha (He et al., 2015; Keras).

    The weight alpha has the input's shape without the batch dimension, with 1 for each of ``shared_axes``: for one
    alpha a channel of an image, ``shared_axes: [2, 3]``.
    """

    channel_axis_note = "one alpha for each element of a sample, shared along `shared_axes` alone, as in Keras"
    elementwise = False

    alpha_initializer: Initializer = field(default="zeros", doc="Initializer of alpha.")
    alpha_regularizer: Regularizer | None = field(default=None, doc="Regularizer of alpha.")
    alpha_constraint: Constraint | None = field(default=None, doc="Constraint on alpha.")
    shared_axes: list[int] | None = field(default=None, min=1, doc="Axes that share alpha (1: the channels').")
    examples = [
        example("PReLU { }", inputs=[(5,)]),
        example("PReLU { shared_axes: [2, 3]  alpha_initializer: Constant { value: 0.25 } }", inputs=[(3, 2, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        shared = self.shared_axes or ()
        if any(a >= x.ndim for a in shared):
            ctx.fail(f"shared_axes {list(shared)}: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
        shape = tuple(1 if i in shared else n for i, n in enumerate(x.shape) if i > 0)
        alpha = ctx.weight(
            "alpha", shape, self.alpha_initializer, regularizer=self.alpha_regularizer, constraint=self.alpha_constraint
        )
        return ops.prelu(x, alpha)
