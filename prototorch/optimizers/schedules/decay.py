"""Schedules that decrease the learning rate, by Keras' names and formulas; `step` is how many steps have been made."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import example, field


class ExponentialDecay(Schedule):
    """initial * decay_rate ^ (step / decay_steps); with ``staircase`` the quotient is rounded down."""

    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    decay_steps: int = field(min=1, doc="Steps in which it falls by the decay rate once.")
    decay_rate: float = field(min=0, doc="The factor.")
    staircase: bool = field(default=False, doc="Fall in jumps, every decay_steps steps.")
    examples = (example("ExponentialDecay { initial_learning_rate: 0.1  decay_steps: 1000  decay_rate: 0.96 }"),)

    def value(self, step: float) -> float:
        p = step / self.decay_steps
        return self.initial_learning_rate * self.decay_rate ** (math.floor(p) if self.staircase else p)


class StepDecay(Schedule):
    """initial * gamma ^ floor(step / step_size): a fall by a factor every so many steps (Caffe's "step"), or with
    ``unit: epochs`` every so many epochs (PyTorch's `StepLR`)."""

    aliases = ("step",)
    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    step_size: int = field(min=1, doc="Steps between two falls.")
    gamma: float = field(default=0.1, min=0, doc="The factor of each fall.")
    examples = (
        example("StepDecay { initial_learning_rate: 0.1  step_size: 1000  gamma: 0.5 }"),
        example("StepDecay { initial_learning_rate: 0.1  step_size: 30  unit: epochs }"),
    )

    def end(self) -> float:
        return self.step_size

    def value(self, step: float) -> float:
        return self.initial_learning_rate * self.gamma ** (step // self.step_size)


class PiecewiseConstantDecay(Schedule):
    """values[0] up to and with step boundaries[0], values[1] up to and with boundaries[1], ..., the last for ever.

    With ``unit: epochs`` values[1] holds from the epoch that follows boundaries[0] epochs on.
    """

    aliases = ("piecewise",)
    boundaries: tuple[int, ...] = field(min=0, doc="The last steps at which each value holds; rising.")
    values: tuple[float, ...] = field(min=0, doc="The learning rates, one more than boundaries.")
    examples = (
        example("PiecewiseConstantDecay { boundaries: [1000, 2000]  values: [0.1, 0.01, 0.001] }"),
        example("PiecewiseConstantDecay { boundaries: [80, 120]  values: [0.1, 0.01, 0.001]  unit: epochs }"),
    )

    def check(self) -> None:
        if len(self.values) != len(self.boundaries) + 1:
            self.refuse(
                f"{len(self.boundaries)} boundaries need {len(self.boundaries) + 1} values, got {len(self.values)}",
                "values",
            )
        if any(a >= b for a, b in zip(self.boundaries, self.boundaries[1:], strict=False)):
            self.refuse(f"boundaries must be ascending, got {list(self.boundaries)}", "boundaries")

    def end(self) -> float | None:
        return self.boundaries[-1] if self.boundaries else None

    def value(self, step: float) -> float:
        bisect = bisect_left if self.unit == "steps" else bisect_right
        return self.values[bisect(self.boundaries, step)]


class PolynomialDecay(Schedule):
    """(initial - end) * (1 - step / decay_steps) ^ power + end, and ``end`` from then on.

    With ``cycle`` the decay is stretched to the next multiple of ``decay_steps`` each time it would have ended.
    """

    aliases = ("polynomial",)
    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    decay_steps: int = field(min=1, doc="Steps until it ends.")
    end_learning_rate: float = field(default=0.0001, min=0, doc="The last learning rate.")
    power: float = field(default=1.0, above=0, doc="1 falls evenly, more falls faster first.")
    cycle: bool = field(default=False, doc="Begin again instead of staying at the end.")
    examples = (
        example("PolynomialDecay { initial_learning_rate: 0.1  decay_steps: 1000  power: 2.0 }"),
        example("PolynomialDecay { initial_learning_rate: 0.1  decay_steps: 100  cycle: true }"),
    )

    def end(self) -> float:
        return self.decay_steps

    def value(self, step: float) -> float:
        length: float = self.decay_steps
        if self.cycle:
            length *= max(math.ceil(step / length), 1)
        left = (1 - min(step, length) / length) ** self.power
        return (self.initial_learning_rate - self.end_learning_rate) * left + self.end_learning_rate


class InverseTimeDecay(Schedule):
    """initial / (1 + decay_rate * step / decay_steps)."""

    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    decay_steps: int = field(min=1, doc="The unit in which time is counted, in steps.")
    decay_rate: float = field(min=0, doc="How fast it falls.")
    staircase: bool = field(default=False, doc="Fall in jumps, every decay_steps steps.")
    examples = (example("InverseTimeDecay { initial_learning_rate: 0.1  decay_steps: 100  decay_rate: 0.5 }"),)

    def value(self, step: float) -> float:
        p = step / self.decay_steps
        return self.initial_learning_rate / (1 + self.decay_rate * (math.floor(p) if self.staircase else p))
