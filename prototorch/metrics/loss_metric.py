"""Losses as metrics: the weighted mean of a loss over all samples."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from prototorch.losses.base import Loss, TargetKind
from prototorch.metrics.base import Direction, MeanMetric, Metric
from prototorch.schema import example, field
from prototorch.text.case_conversion import snake_case


class LossAsMetric(MeanMetric, abstract=True):
    """A metric that is the mean of the loss with the same fields."""

    loss_class: ClassVar[type[Loss]]
    direction: ClassVar[Direction | None] = "min"

    @cached_property
    def wrapped_loss(self) -> Loss:
        """An instance of ``loss_class`` with the metric's fields."""
        values = self.field_values()
        return self.loss_class(**{name: values[name] for name in self.loss_class.specs()})

    @property
    def measured_kind(self) -> TargetKind:
        return self.wrapped_loss.target_kind

    @property
    def takes_probabilities(self) -> bool:
        return self.wrapped_loss.output_bounds == (0.0, 1.0)

    def at_loss(self, loss: Loss) -> Metric:
        metric = super().at_loss(loss)
        return metric.replace(from_logits=True) if can_take_logits(self.wrapped_loss, loss) else metric

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

    @property
    def takes_probabilities(self) -> bool:
        return self.loss.output_bounds == (0.0, 1.0)

    def at_loss(self, loss: Loss) -> Metric:
        own_loss = self.loss
        if can_take_logits(own_loss, loss):
            own_loss = own_loss.replace(from_logits=True)
        if own_loss.target_kind in ("classes", "one_hot") and vars(own_loss).get("axis") == -1 != loss.class_axis:
            own_loss = own_loss.replace(axis=loss.class_axis)
        return self if own_loss is self.loss else self.replace(loss=own_loss)

    def values(self, target: Any, output: Any) -> Any:
        return loss_values(self.loss, target, output)

    def valid_mask(self, target: Any, output: Any) -> Any | None:
        return loss_mask(self.loss, target, output)


def can_take_logits(metric_loss: Loss, loss: Loss) -> bool:
    """Whether a loss that is a metric takes probabilities, and could take the logits of the loss at its output."""
    is_binary = metric_loss.target_kind == "binary"
    return (
        getattr(metric_loss, "from_logits", None) is False
        and bool(getattr(loss, "from_logits", False))
        and is_binary == (loss.target_kind == "binary")
    )


def loss_values(loss: Loss, target: Any, output: Any) -> Any:
    """A loss at each position, [batch, ...]."""
    return loss.values(loss.match_target(target, loss.target_spec(output.spec), output.spec), output)


def loss_mask(loss: Loss, target: Any, output: Any) -> Any | None:
    """True where a position counts for a loss; None: everywhere."""
    return loss.valid_mask(loss.match_target(target, loss.target_spec(output.spec), output.spec))
