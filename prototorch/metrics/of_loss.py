"""Losses as metrics: the weighted mean of a loss over all samples."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from prototorch.losses.base import Loss
from prototorch.metrics.base import MeanMetric
from prototorch.schema import example, field
from prototorch.text.names import snake_case


class OfLoss(MeanMetric, abstract=True):
    """A metric that is the mean of a loss of the same fields."""

    of: ClassVar[type[Loss]]

    @cached_property
    def measured(self) -> Loss:
        """The loss."""
        values = self.field_values()
        return self.of(**{name: values[name] for name in self.of.specs()})

    def values(self, target: Any, output: Any) -> Any:
        return values_of(self.measured, target, output)

    def counted(self, target: Any, output: Any) -> Any | None:
        return counted_by(self.measured, target, output)


class LossMetric(MeanMetric):
    """The mean of any loss, also of one of your own; a loss given as a metric is taken so."""

    loss: Loss = field(doc="The loss.")
    examples = (example("LossMetric { loss: Huber { delta: 0.5 } }", inputs=[(3,)]),)

    @property
    def log_name(self) -> str:  # type: ignore[override]
        """The loss' own name."""
        return snake_case(type(self.loss).__name__)

    def values(self, target: Any, output: Any) -> Any:
        return values_of(self.loss, target, output)

    def counted(self, target: Any, output: Any) -> Any | None:
        return counted_by(self.loss, target, output)


def values_of(loss: Loss, target: Any, output: Any) -> Any:
    """A loss at each place, [batch, ...]."""
    return loss.values(loss.fitted(target, loss.target_spec(output.spec), output.spec), output)


def counted_by(loss: Loss, target: Any, output: Any) -> Any | None:
    """True where a place counts for a loss; None: everywhere."""
    return loss.counted(loss.fitted(target, loss.target_spec(output.spec), output.spec))
