"""Gradient descent, with and without momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.graph.weight_spec import WeightSpec
from prototorch.optimizers.base import Optimizer, UpdateInputs, UpdateResult, learning_rate_field, zeros_slot
from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import example, field


class SGD(Optimizer):
    """Stochastic gradient descent (Keras): w - lr g; with momentum v = m v - lr g and w + v; Nesterov w + m v - lr g.

    ``l2`` is what Caffe and PyTorch's SGD call weight_decay: it goes through the momentum. ``weight_decay`` is Keras'.
    """

    foreign_names = dict.fromkeys(("GradientDescentOptimizer", "MomentumOptimizer"), "SGD")
    learning_rate: float | Schedule = learning_rate_field(0.01)
    momentum: float = field(default=0.0, min=0, max=1, doc="Momentum.")
    nesterov: bool = field(default=False, doc="Use Nesterov momentum (Sutskever et al. 2013).")
    examples = (
        example("SGD { learning_rate: 0.1 }"),
        example("SGD { momentum: 0.9  nesterov: true }"),
        example("SGD { momentum: 0.9  l2: 5e-4 }"),
    )

    fuses_l2 = True

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        return {"momentum": zeros_slot(weight)} if self.momentum else {}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        l2 = self.l2 * weight.decay_mult
        if not self.momentum:
            (new,) = ops.sgd_update(*inputs, l2=l2, decay=decay)
            return new, {}
        new, momentum = ops.momentum_update(
            *inputs,
            slots["momentum"],
            momentum=self.momentum,
            nesterov=self.nesterov,
            l2=l2,
            decay=decay,
        )
        return new, {"momentum": momentum}
