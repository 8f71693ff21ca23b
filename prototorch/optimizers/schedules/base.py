"""The base class of learning rate schedules, and the constant one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from prototorch.schema import Block, example, field
from prototorch.schema.neutral_arguments import neutral
from prototorch.schema.overrides import CONFIG_METHODS


class Schedule(Block, family="schedule"):
    """A learning rate that depends on the number of steps made, or of epochs.

    A schedule is a plain function on the host, in float64; the step reads its value as an input. With ``unit: epochs``
    all its numbers of steps are numbers of epochs, which `fit` counts with fractions within an epoch.
    """

    keyword_only: ClassVar[tuple[str, ...]] = ("unit",)
    neutral_arguments = {"name": neutral(hint="a schedule has no name")}

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(
            ("call", "__call__", "get_lr", "step"), "define `value(self, step)`, the rate as a plain number"
        ),
    }

    unit: Literal["steps", "epochs"] = field(default="steps", doc="Unit of its numbers of steps.")

    def value(self, step: float) -> float:
        """The learning rate of the step after ``step`` steps (0 for the first one), or epochs, see ``unit``."""
        raise TypeError(f"{type(self).__name__} does not define value")

    def end(self) -> float | None:
        """The number of steps (or epochs) after which the rate has come down; None if there is no such number."""
        return None

    def __call__(self, step: float) -> float:
        """The same as `value`."""
        return self.value(step)


class ConstantSchedule(Schedule):
    """The same learning rate for ever."""

    aliases = ("constant",)
    learning_rate: float = field(min=0, doc="The learning rate.")
    examples = (example("ConstantSchedule { learning_rate: 0.01 }"),)

    def value(self, step: float) -> float:
        return self.learning_rate
