"""Gradient descent, with and without momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.graph.trace import Weight
from prototorch.optim.base import Given, Made, Optimizer, rate, zeros
from prototorch.optim.schedule import Schedule
from prototorch.schema import example, field


class SGD(Optimizer):
    """Stochastic gradient descent (Keras): w - lr g; with momentum v = m v - lr g and w + v; Nesterov w + m v - lr g.

    ``l2`` is what Caffe and PyTorch's SGD call weight_decay: it goes through the momentum. ``weight_decay`` is Keras'.
    """

    learning_rate: float | Schedule = rate(0.01)
    momentum: float = field(default=0.0, min=0, max=1, doc="How much of the last update goes on.")
    nesterov: bool = field(default=False, doc="Look ahead along the momentum first (Sutskever et al. 2013).")
    examples = (
        example("SGD { learning_rate: 0.1 }"),
        example("SGD { momentum: 0.9  nesterov: true }"),
        example("SGD { momentum: 0.9  l2: 5e-4 }"),
    )

    adds_l2 = True

    def state(self, weight: Weight) -> dict[str, np.ndarray]:
        return {"momentum": zeros(weight)} if self.momentum else {}

    def update(self, given: Given, slots: dict[str, Any], decay: float, weight: Weight) -> Made:
        l2 = self.l2 * weight.decay_mult
        if not self.momentum:
            (new,) = ops.sgd_update(*given, l2=l2, decay=decay)
            return new, {}
        new, momentum = ops.momentum_update(
            *given,
            slots["momentum"],
            momentum=self.momentum,
            nesterov=self.nesterov,
            l2=l2,
            decay=decay,
        )
        return new, {"momentum": momentum}
