"""Losses as metrics: the weighted mean of a loss over all samples."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from prototorch.losses.base import Loss
from prototorch.metrics.base import Direction, MeanMetric
from prototorch.schema import example, field
from prototorch.text.case_conversion import snake_case


class LossAsMetric(MeanMetric, abstract=True):
    """A metric that is the mean of the loss with the same fields."""

    loss_class: ClassVar[type[Loss]]
    direction: ClassVar[Direction | None] = "min"

    @cached_property
    def wrapped_loss(self) -> Loss:
        """The loss."""
        values = self.field_values()
        return self.loss_class(**{name: values[name] for name in self.loss_class.specs()})

    def values(self, target: Any, output: Any) -> Any:
        return loss_values(self.wrapped_loss, target, output)

    def valid_mask(self, target: Any, output: Any) -> Any | None:
        return loss_mask(self.wrapped_loss, target, output)


class LossMetric(MeanMetric):
    """The mean of any loss, also of a user's own; a loss in a list of metrics becomes one."""

    loss: Loss = field(doc="The loss.")
    direction: ClassVar[Direction | None] = "min"
    examples = (example("LossMetric { loss: Huber { delta: 0.5 } }", inputs=[(3,)]),)

    @property
    def log_name(self) -> str:  # type: ignore[override]
        """The loss' own name."""
        return snake_case(type(self.loss).__name__)

    def values(self, target: Any, output: Any) -> Any:
        return loss_values(self.loss, target, output)

    def valid_mask(self, target: Any, output: Any) -> Any | None:
        return loss_mask(self.loss, target, output)


def loss_values(loss: Loss, target: Any, output: Any) -> Any:
    """A loss at each position, [batch, ...]."""
    return loss.values(loss.match_target(target, loss.target_spec(output.spec), output.spec), output)


def loss_mask(loss: Loss, target: Any, output: Any) -> Any | None:
    """True where a position counts for a loss; None: everywhere."""
    return loss.valid_mask(loss.match_target(target, loss.target_spec(output.spec), output.spec))
