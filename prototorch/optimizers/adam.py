"""Adam and its variants: a step size per element, from the moments of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from prototorch import ops
from prototorch.graph.weight_spec import WeightSpec
from prototorch.optimizers.base import Optimizer, UpdateInputs, UpdateResult, learning_rate_field, zeros_slot
from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import Example, example, field


class _MomentOptimizer(Optimizer):
    """The fields of methods with two moments."""

    learning_rate: float | Schedule = learning_rate_field()
    beta_1: float = field(default=0.9, min=0, below=1, doc="Decay rate of the first moment.")
    beta_2: float = field(default=0.999, min=0, below=1, doc="Decay rate of the second moment.")
    epsilon: float = field(default=1e-7, min=0, doc="Added to the root, for numerical stability.")


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), Keras' form: w - lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon)."""

    foreign_names = {"AdamOptimizer": "Adam"}
    learning_rate: float | Schedule = learning_rate_field()
    beta_1: float = field(default=0.9, min=0, below=1, doc="Decay rate of the first moment.")
    beta_2: float = field(default=0.999, min=0, below=1, doc="Decay rate of the second moment.")
    epsilon: float = field(default=1e-7, min=0, doc="Added to the root, for numerical stability.")
    amsgrad: bool = field(default=False, doc="Use the largest second moment so far (Reddi et al. 2018).")
    examples: ClassVar[Sequence[Example]] = (
        example("Adam { learning_rate: 1e-3 }"),
        example("Adam { amsgrad: true  weight_decay: 0.01 }"),
        example("Adam { learning_rate: CosineDecay { initial_learning_rate: 1e-3  decay_steps: 1000 } }"),
    )

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        names = ("momentum", "velocity", "velocity_hat")
        return {name: zeros_slot(weight) for name in (names if self.amsgrad else names[:2])}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        op = ops.amsgrad_update if self.amsgrad else ops.adam_update
        new, *new_slots = op(
            *inputs,
            *slots.values(),
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            decay=decay,
        )
        return new, dict(zip(slots, new_slots, strict=True))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019): w first shrinks by lr * weight_decay."""

    learning_rate: float | Schedule = learning_rate_field()
    weight_decay: float | None = field(
        default=0.004, min=0, doc="Decoupled weight decay: weights shrink by learning_rate * weight_decay in each step."
    )
    examples = (example("AdamW { learning_rate: 1e-3  weight_decay: 0.01 }"),)


class Nadam(_MomentOptimizer):
    """Adam with Nesterov momentum (Dozat 2016), Keras' form with its momentum schedule."""

    examples = (example("Nadam { learning_rate: 1e-3 }"),)

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        return {"momentum": zeros_slot(weight), "velocity": zeros_slot(weight)}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        new, *new_slots = ops.nadam_update(
            *inputs,
            *slots.values(),
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            decay=decay,
        )
        return new, dict(zip(slots, new_slots, strict=True))


class Adamax(_MomentOptimizer):
    """Adam with the infinity norm (Kingma and Ba 2015): w - lr / (1 - b1^t) * m / (u + epsilon)."""

    examples = (example("Adamax { learning_rate: 1e-3 }"),)

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        return {"momentum": zeros_slot(weight), "norm": zeros_slot(weight)}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        new, *new_slots = ops.adamax_update(
            *inputs,
            *slots.values(),
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            decay=decay,
        )
        return new, dict(zip(slots, new_slots, strict=True))


class Lion(Optimizer):
    """Lion (Chen et al. 2023): the sign of an interpolated momentum. Its learning rate should be some ten times
    smaller than Adam's."""

    learning_rate: float | Schedule = learning_rate_field()
    beta_1: float = field(default=0.9, min=0, max=1, doc="Weight of the momentum in the update.")
    beta_2: float = field(default=0.99, min=0, max=1, doc="Decay rate of the momentum.")
    examples = (example("Lion { learning_rate: 1e-4 }"),)

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        return {"momentum": zeros_slot(weight)}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        new, momentum = ops.lion_update(*inputs, slots["momentum"], beta_1=self.beta_1, beta_2=self.beta_2, decay=decay)
        return new, {"momentum": momentum}
