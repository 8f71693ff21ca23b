"""Errors between numbers."""

from __future__ import annotations

import math
from typing import Any

from prototorch import losses, ops
from prototorch.metrics.base import MeanMetric
from prototorch.metrics.of_loss import OfLoss
from prototorch.schema import example, field


class MeanSquaredError(OfLoss):
    """The mean of (target - output)^2."""

    aliases = ("mse", "MSE")
    of = losses.MeanSquaredError
    examples = (example("mse { }", inputs=[(3,)]),)


class RootMeanSquaredError(MeanMetric):
    """The root of the mean of (target - output)^2 over all samples."""

    aliases = ("rmse", "RMSE")
    examples = (example("RootMeanSquaredError { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        return ops.square(output - self.fitted(target, output))

    def finished(self, mean: float) -> float:
        return math.sqrt(mean)


class MeanAbsoluteError(OfLoss):
    """The mean of |target - output|."""

    aliases = ("mae", "MAE")
    of = losses.MeanAbsoluteError
    examples = (example("mae { }", inputs=[(3,)]),)


class MeanAbsolutePercentageError(OfLoss):
    """100 times the mean of |target - output| / max(|target|, 1e-7)."""

    aliases = ("mape", "MAPE")
    of = losses.MeanAbsolutePercentageError
    examples = (example("mape { }", inputs=[(3,)]),)


class MeanSquaredLogarithmicError(OfLoss):
    """The mean of (log(target + 1) - log(output + 1))^2."""

    aliases = ("msle", "MSLE")
    of = losses.MeanSquaredLogarithmicError
    examples = (example("msle { }", inputs=[(3,)]),)


class LogCoshError(OfLoss):
    """The mean of log(cosh(output - target))."""

    log_name, aliases = "logcosh", ("logcosh",)
    of = losses.LogCosh
    examples = (example("LogCoshError { }", inputs=[(3,)]),)


class CosineSimilarity(OfLoss):
    """The mean cosine of the angle between target and output: 1 where they point the same way."""

    axis: int = field(default=-1, doc="The axis along which the vectors lie.")
    of = losses.CosineSimilarity
    examples = (example("CosineSimilarity { }", inputs=[(3,)]),)

    def finished(self, mean: float) -> float:
        return -mean  # as a loss it is negative
