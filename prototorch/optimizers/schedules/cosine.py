"""Schedules along a cosine, and warm-up."""

from __future__ import annotations

import math

from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import example, field


class CosineDecay(Schedule):
    """Half a cosine from ``initial_learning_rate`` down to alpha times it (Loshchilov and Hutter 2016).

    With ``warmup_target`` the rate first rises evenly from ``initial_learning_rate`` to it, over ``warmup_steps``, and
    then falls from there over ``decay_steps``.
    """

    keyword_only = ("warmup_target", "warmup_steps")
    aliases = ("cosine",)
    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    decay_steps: int = field(min=1, doc="Steps of the decay, after the warm-up.")
    alpha: float = field(default=0.0, min=0, doc="The last learning rate as a share of the highest.")
    warmup_target: float | None = field(default=None, min=0, doc="The highest learning rate, reached by the warm-up.")
    warmup_steps: int = field(default=0, min=0, doc="Steps of the warm-up.")
    examples = (
        example("CosineDecay { initial_learning_rate: 0.1  decay_steps: 1000 }"),
        example("CosineDecay { initial_learning_rate: 0.0  decay_steps: 90  warmup_target: 0.1  warmup_steps: 10 }"),
    )

    def check(self) -> None:
        if self.warmup_steps and self.warmup_target is None:
            self.refuse("warmup_steps needs a warmup_target, the learning rate at their end", "warmup_steps")

    def end(self) -> float:
        return self.decay_steps + (0 if self.warmup_target is None else self.warmup_steps)

    def value(self, step: float) -> float:
        start = self.initial_learning_rate
        if self.warmup_target is not None:
            if step < self.warmup_steps:
                return (self.warmup_target - start) * (step / self.warmup_steps) + start
            start, step = self.warmup_target, step - self.warmup_steps
        return start * ((1 - self.alpha) * half_cosine(min(step / self.decay_steps, 1.0)) + self.alpha)


class CosineDecayRestarts(Schedule):
    """Half cosines one after the other (SGDR, Loshchilov and Hutter 2016): each ``t_mul`` times as long and begun
    ``m_mul`` times as high as the one before."""

    aliases = ("cosine_restarts",)
    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    first_decay_steps: int = field(min=1, doc="Steps of the first decay.")
    t_mul: float = field(default=2.0, min=1, doc="How much longer each decay is than the one before.")
    m_mul: float = field(default=1.0, min=0, doc="How much higher each decay begins than the one before.")
    alpha: float = field(default=0.0, min=0, doc="The lowest learning rate as a share of the first.")
    examples = (example("CosineDecayRestarts { initial_learning_rate: 0.1  first_decay_steps: 100 }"),)

    def end(self) -> float:
        return self.first_decay_steps

    def value(self, step: float) -> float:
        restart, begin, length = self._last_restart(step)
        try:
            height = self.m_mul**restart * half_cosine((step - begin) / length)
        except OverflowError:
            height = math.inf
        return self.initial_learning_rate * ((1 - self.alpha) * height + self.alpha)

    def _last_restart(self, step: float) -> tuple[int, float, float]:
        """The number of restarts before a step, and the begin and length of the decay that it is in."""
        first, factor = float(self.first_decay_steps), self.t_mul
        if step < first:
            return 0, 0.0, first
        if factor == 1.0:
            return int(step // first), step // first * first, first
        # the sum of the lengths is a geometric series; log1p and expm1 keep its digits where the factor is close to 1
        growth = math.log1p(factor - 1)
        restart = int(math.log1p(step / first * (factor - 1)) / growth)
        begin, after = (first * math.expm1(n * growth) / (factor - 1) for n in (restart, restart + 1))
        if step >= after * (1 - 1e-12):  # rounding: a step on the border belongs to the decay that begins there
            restart, begin = restart + 1, after
        return restart, min(begin, step), first * factor**restart


class Warmup(Schedule):
    """Any schedule after a warm-up: over ``steps`` the rate rises evenly from ``start`` to where the schedule begins.
    The schedule's own count begins when the warm-up has ended."""

    schedule: float | Schedule = field(min=0, doc="What follows: a schedule, or a learning rate.")
    steps: int = field(min=1, doc="Steps of the warm-up.")
    start: float = field(default=0.0, min=0, doc="The first learning rate.")
    examples = (
        example("Warmup { schedule: StepDecay { initial_learning_rate: 0.1  step_size: 100 }  steps: 10 }"),
        example("Warmup { schedule: 0.1  steps: 10  start: 0.01 }"),
    )

    def check(self) -> None:
        if isinstance(self.schedule, Schedule) and self.schedule.unit != self.unit:
            self.refuse(
                f"the warm-up counts {self.unit} and its schedule {self.schedule.unit}: give both the same unit", "unit"
            )

    def end(self) -> float | None:
        end = self.schedule.end() if isinstance(self.schedule, Schedule) else None
        return None if end is None else self.steps + end

    def value(self, step: float) -> float:
        if step < self.steps:
            return self.start + (self._scheduled_value(0) - self.start) * (step / self.steps)
        return self._scheduled_value(step - self.steps)

    def _scheduled_value(self, step: float) -> float:
        return self.schedule.value(step) if isinstance(self.schedule, Schedule) else self.schedule


def half_cosine(fraction: float) -> float:
    """1 at 0, 0 at 1, along a cosine."""
    return 0.5 * (1.0 + math.cos(math.pi * fraction))
