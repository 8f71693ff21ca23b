"""Regression errors as metrics."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from prototorch import losses, ops
from prototorch.metrics.base import Direction, MeanMetric
from prototorch.metrics.loss_metric import LossAsMetric
from prototorch.schema import example, field


class MeanSquaredError(LossAsMetric):
    """The mean of (target - output)^2."""

    aliases = ("mse", "MSE")
    loss_class = losses.MeanSquaredError
    examples = (example("mse { }", inputs=[(3,)]),)


class RootMeanSquaredError(MeanMetric):
    """The root of the mean of (target - output)^2 over all samples."""

    direction: ClassVar[Direction | None] = "min"
    aliases = ("rmse", "RMSE")
    examples = (example("RootMeanSquaredError { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        return ops.square(output - self.match_target(target, output))

    def finalize(self, mean: float) -> float:
        return math.sqrt(mean)


class MeanAbsoluteError(LossAsMetric):
    """The mean of |target - output|."""

    aliases = ("mae", "MAE")
    loss_class = losses.MeanAbsoluteError
    examples = (example("mae { }", inputs=[(3,)]),)


class MeanAbsolutePercentageError(LossAsMetric):
    """100 times the mean of |target - output| / max(|target|, 1e-7)."""

    aliases = ("mape", "MAPE")
    loss_class = losses.MeanAbsolutePercentageError
    examples = (example("mape { }", inputs=[(3,)]),)


class MeanSquaredLogarithmicError(LossAsMetric):
    """The mean of (log(target + 1) - log(output + 1))^2."""

    aliases = ("msle", "MSLE")
    loss_class = losses.MeanSquaredLogarithmicError
    examples = (example("msle { }", inputs=[(3,)]),)


class LogCoshError(LossAsMetric):
    """The mean of log(cosh(output - target))."""

    aliases = ("logcosh",)
    log_name = "logcosh"
    loss_class = losses.LogCosh
    examples = (example("LogCoshError { }", inputs=[(3,)]),)


class CosineSimilarity(LossAsMetric):
    """The mean cosine of the angle between target and output: 1 where they point the same way."""

    positional = ()
    direction: ClassVar[Direction | None] = "max"
    axis: int = field(default=-1, doc="The axis along which the vectors lie.")
    loss_class = losses.CosineSimilarity
    examples = (example("CosineSimilarity { }", inputs=[(3,)]),)

    def finalize(self, mean: float) -> float:
        return -mean  # as a loss it is negative
