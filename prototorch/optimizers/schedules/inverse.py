"""Schedules of Caffe that Keras does not have."""

from __future__ import annotations

import math

from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import example, field


class InversePowerDecay(Schedule):
    """initial * (1 + gamma * step) ^ -power: a fall that slows down for ever (Caffe's "inv")."""

    aliases = ("inv",)
    initial_learning_rate: float = field(min=0, doc="The first learning rate.")
    gamma: float = field(min=0, doc="How fast it falls.")
    power: float = field(default=1.0, doc="The exponent of the fall.")
    examples = (example("InversePowerDecay { initial_learning_rate: 0.01  gamma: 1e-4  power: 0.75 }"),)

    def value(self, step: float) -> float:
        return self.initial_learning_rate * (1 + self.gamma * step) ** -self.power


class SigmoidSchedule(Schedule):
    """learning_rate / (1 + exp(-gamma * (step - step_size))): a rise from near 0 (Caffe's "sigmoid")."""

    aliases = ("sigmoid",)
    learning_rate: float = field(min=0, doc="The rate that is approached.")
    gamma: float = field(min=0, doc="The steepness of the rise.")
    step_size: int = field(min=1, doc="The step at which half of the rate is reached.")
    examples = (example("SigmoidSchedule { learning_rate: 0.1  gamma: 0.01  step_size: 1000 }"),)

    def value(self, step: float) -> float:
        exponent = -self.gamma * (step - self.step_size)
        return self.learning_rate / (1 + math.exp(exponent)) if exponent < 700 else 0.0
