"""The base class of learning rate schedules, and the constant one."""

from __future__ import annotations

from prototorch.schema import Block, example, field


class Schedule(Block, family="schedule"):
    """A learning rate that depends on the number of steps made.

    A schedule is a plain function on the host, in float64; the step reads its value as an input.
    """

    def value(self, step: int) -> float:
        """The learning rate of the step after ``step`` steps (0 for the first one)."""
        raise TypeError(f"{type(self).__name__} does not define value")

    def __call__(self, step: int) -> float:
        """The same as `value`."""
        return self.value(step)


class ConstantSchedule(Schedule):
    """The same learning rate for ever."""

    aliases = ("constant",)
    learning_rate: float = field(min=0, doc="The learning rate.")
    examples = (example("ConstantSchedule { learning_rate: 0.01 }"),)

    def value(self, step: int) -> float:
        return self.learning_rate
