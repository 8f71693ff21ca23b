"""Steps divided by the size of the gradient: RMSprop, Adagrad, Adadelta."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from prototorch import ops
from prototorch.graph.weight_spec import WeightSpec
from prototorch.optimizers.base import Optimizer, UpdateInputs, UpdateResult, learning_rate_field, zeros_slot
from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import example, field


def epsilon_inside_root_field() -> Any:
    """The field that says where epsilon is added."""
    return field(
        default=True, doc="Add epsilon under the root, as Keras; false adds it to the root, as PyTorch and Caffe."
    )


def epsilon_attributes(optimizer: RMSprop | Adagrad) -> dict[str, Any]:
    """The attributes of an update op that say what epsilon is, and where it is added."""
    where = {} if optimizer.epsilon_inside_root else {"epsilon_inside_root": False}
    return {"epsilon": optimizer.epsilon, **where}


class RMSprop(Optimizer):
    """RMSprop (Hinton's lecture 6), Keras' form: lr g / sqrt(mean square + epsilon), with optional momentum."""

    foreign_names = {"RMSPropOptimizer": "RMSprop"}
    keyword_only: ClassVar[tuple[str, ...]] = (*Optimizer.keyword_only, "epsilon_inside_root")

    learning_rate: float | Schedule = learning_rate_field()
    rho: float = field(default=0.9, min=0, max=1, doc="Decay rate of the mean square.")
    momentum: float = field(default=0.0, min=0, max=1, doc="Momentum.")
    epsilon: float = field(default=1e-7, min=0, doc="Added under the root, for numerical stability.")
    centered: bool = field(default=False, doc="Normalize by the variance of the gradient, not by its mean square.")
    epsilon_inside_root: bool = epsilon_inside_root_field()
    examples = (
        example("RMSprop { learning_rate: 1e-3 }"),
        example("RMSprop { momentum: 0.9 }"),
        example("RMSprop { centered: true  momentum: 0.5 }"),
        example("RMSprop { rho: 0.99  epsilon: 1e-8  epsilon_inside_root: false }"),
    )

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        slots = {"velocity": zeros_slot(weight)}
        if self.momentum or self.centered:
            slots["momentum"] = zeros_slot(weight)
        if self.centered:
            slots["average_gradient"] = zeros_slot(weight)
        return slots

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        attrs = {"rho": self.rho, "decay": decay, **epsilon_attributes(self)}
        if len(slots) == 1:
            results = ops.rmsprop_update(*inputs, *slots.values(), **attrs)
        else:
            op = ops.centered_rmsprop_update if self.centered else ops.rmsprop_momentum_update
            results = op(*inputs, *slots.values(), momentum=self.momentum, **attrs)
        return results[0], dict(zip(slots, results[1:], strict=True))


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011), Keras' form: lr g / sqrt(sum of squares + epsilon)."""

    foreign_names = {"AdagradOptimizer": "Adagrad"}
    keyword_only: ClassVar[tuple[str, ...]] = (*Optimizer.keyword_only, "epsilon_inside_root")

    learning_rate: float | Schedule = learning_rate_field()
    initial_accumulator_value: float = field(default=0.1, min=0, doc="Initial value of the sums of squares.")
    epsilon: float = field(default=1e-7, min=0, doc="Added under the root, for numerical stability.")
    epsilon_inside_root: bool = epsilon_inside_root_field()
    examples = (
        example("Adagrad { learning_rate: 0.01 }"),
        example("Adagrad { initial_accumulator_value: 0  epsilon: 1e-8  epsilon_inside_root: false }"),
    )

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        return {"accumulator": np.full(weight.spec.shape, self.initial_accumulator_value, weight.spec.dtype)}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        new, sums = ops.adagrad_update(*inputs, slots["accumulator"], decay=decay, **epsilon_attributes(self))
        return new, {"accumulator": sums}


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012), Keras' form; the paper's own has a learning rate of 1."""

    foreign_names = {"AdadeltaOptimizer": "Adadelta"}
    learning_rate: float | Schedule = learning_rate_field()
    rho: float = field(default=0.95, min=0, max=1, doc="Decay rate of the mean squares.")
    epsilon: float = field(default=1e-7, min=0, doc="Added under the roots, for numerical stability.")
    examples = (example("Adadelta { learning_rate: 1.0 }"),)

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        return {"accumulated_grad": zeros_slot(weight), "accumulated_delta": zeros_slot(weight)}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        new, squares, deltas = ops.adadelta_update(
            *inputs,
            slots["accumulated_grad"],
            slots["accumulated_delta"],
            rho=self.rho,
            epsilon=self.epsilon,
            decay=decay,
        )
        return new, {"accumulated_grad": squares, "accumulated_delta": deltas}
