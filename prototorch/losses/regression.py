"""Regression losses: squared, absolute, relative, logarithmic and robust errors."""

from __future__ import annotations

import math
from math import inf
from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.activation import Softplus
from prototorch.losses.base import EPSILON, Loss, canonical_loss_axis
from prototorch.schema import example, field
from prototorch.spec import Spec


class MeanSquaredError(Loss):
    """The mean of (target - output)^2."""

    aliases = ("mse", "MSE")
    examples = (example("MeanSquaredError { }", inputs=[(3,)]), example("mse { }", inputs=[(4, 3)]))

    def values(self, target: Any, output: Any) -> Any:
        return ops.square(output - target)


class MeanAbsoluteError(Loss):
    """The mean of |target - output|."""

    aliases = ("mae", "MAE")
    examples = (example("MeanAbsoluteError { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        return ops.abs(output - target)


class MeanAbsolutePercentageError(Loss):
    """100 times the mean of |target - output| / max(|target|, 1e-7)."""

    aliases = ("mape", "MAPE")
    examples = (example("MeanAbsolutePercentageError { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        size = ops.maximum(ops.abs(target), EPSILON)
        return ops.abs((target - output) / size) * 100.0


class MeanSquaredLogarithmicError(Loss):
    """The mean of (log(target + 1) - log(output + 1))^2; both are clipped to at least 1e-7 first."""

    target_bounds: ClassVar[tuple[float, float]] = (0.0, inf)
    aliases = ("msle", "MSLE")
    examples = (example("MeanSquaredLogarithmicError { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        return ops.square(ops.log1p(ops.maximum(output, EPSILON)) - ops.log1p(ops.maximum(target, EPSILON)))


class Huber(Loss):
    """Squared (halved) up to ``delta``, linear beyond: the mean of 1/2 e^2, or delta |e| - 1/2 delta^2."""

    delta: float = field(default=1.0, above=0, doc="The absolute error from which the loss is linear.")
    examples = (example("Huber { }", inputs=[(3,)]), example("Huber { delta: 0.5 }", inputs=[(4, 3)]))

    def values(self, target: Any, output: Any) -> Any:
        error = output - target
        size = ops.abs(error)
        near = ops.minimum(size, self.delta)
        # with q = min(|e|, delta): q |e| - q^2 / 2 is both branches at once
        return near * (size - near * 0.5)


class LogCosh(Loss):
    """The mean of log(cosh(output - target)): squared (halved) where the error is small, absolute where it is large."""

    aliases = ("logcosh",)
    examples = (example("LogCosh { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        error = output - target
        return error + ops.softplus(error * -2.0) - math.log(2.0)


class Poisson(Loss):
    """The mean of output - target * log(output + 1e-7): the output is the rate of a Poisson distribution."""

    target_bounds: ClassVar[tuple[float, float]] = (0.0, inf)
    output_activation = Softplus
    examples = (example("Poisson { }", inputs=[(3,)]),)

    @property
    def output_bounds(self) -> tuple[float, float]:
        return 0.0, inf

    def values(self, target: Any, output: Any) -> Any:
        return output - target * ops.log(output + EPSILON)


class CosineSimilarity(Loss):
    """Minus the cosine of the angle between target and output: -1 where they point the same way, 1 where opposite."""

    axis: int = field(default=-1, doc="The axis along which the vectors lie.")
    examples = (
        example("CosineSimilarity { }", inputs=[(3,)]),
        example("CosineSimilarity { axis: 1 }", inputs=[(4, 3)]),
    )

    def target_spec(self, output: Spec) -> Spec:
        canonical_loss_axis(type(self).__name__, output, self.axis)
        return super().target_spec(output)

    def values(self, target: Any, output: Any) -> Any:
        return -ops.sum(l2_normalize(target, self.axis) * l2_normalize(output, self.axis), axis=self.axis)


def l2_normalize(x: Any, axis: int) -> Any:
    """Vectors of length one along an axis; a floor of 1e-12 under the squared length, as in Keras (zero stays zero)."""
    square = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return x * ops.rsqrt(ops.maximum(square, 1e-12))
