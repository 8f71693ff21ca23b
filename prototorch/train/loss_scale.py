"""Dynamic loss scaling (Micikevicius et al., 2018): float16 has no values below 6e-8, which many gradients are.

The loss is multiplied by a scale before the backward pass, and the gradients are divided by it again, in float32. Where
a gradient is not finite the scale was too large: that step changes no weight, and the scale is halved. After
`GROWTH_INTERVAL` good steps in a row it is doubled. All of it is expressed in ops and kept in two variables, so it is
part of the plan and of a checkpoint. Gradients that are not finite at the smallest scale either are no matter of the
scale: they end the training. A skipped step counts as a step for the learning rate's schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from prototorch import ops
from prototorch.graph.ir import Graph, Value
from prototorch.runtime.variables import SLOT_PREFIX
from prototorch.spec import Spec
from prototorch.train.variable_inits import VariableInits

__all__ = ["GOOD_STEPS_NAME", "SCALE_NAME", "LossScaler"]

INITIAL_SCALE, MIN_SCALE, MAX_SCALE = 2.0**16, 1.0, 2.0**24
GROWTH_INTERVAL = 2000
SCALE_NAME, GOOD_STEPS_NAME = f"{SLOT_PREFIX}loss_scale:scale", f"{SLOT_PREFIX}loss_scale:good"


class LossScaler:
    """The scale as a state of a graph; ``inits`` receives the initial values of its variables."""

    def __init__(self, graph: Graph, inits: VariableInits):
        inits[SCALE_NAME] = Spec(()), partial(np.full, (), INITIAL_SCALE, np.float32)
        inits[GOOD_STEPS_NAME] = Spec(()), partial(np.zeros, (), np.float32)
        self.scale, self.good_steps = graph.state(SCALE_NAME, Spec(())), graph.state(GOOD_STEPS_NAME, Spec(()))
        self.inverse_scale = 1.0 / self.scale  # here, before the scale is updated

    def unscale(self, gradients: Sequence[Value | None]) -> list[Value | None]:
        """The gradients of the loss from those of the scaled loss."""
        return [None if g is None else g * self.inverse_scale for g in gradients]

    def update(self, gradients: Sequence[Value | None], updates: dict[str, Value]) -> Value:
        """A bool scalar: whether all gradients are finite. The scale's next value is entered into ``updates``.

        gradients: of the scaled loss, which are finite where those of the loss are: the scale is 1 at least.
        """
        zeros = [ops.sum(g * 0.0) for g in gradients if g is not None]  # NaN where an element is not finite
        is_finite: Value = ops.isfinite(sum(zeros[1:], zeros[0]))
        good_steps = ops.where(is_finite, self.good_steps + 1.0, 0.0)
        grows = ops.greater_equal(good_steps, float(GROWTH_INTERVAL))
        next_scale = ops.where(grows, ops.minimum(self.scale * 2.0, MAX_SCALE), self.scale)
        updates[SCALE_NAME] = ops.where(is_finite, next_scale, ops.maximum(self.scale * 0.5, MIN_SCALE))
        updates[GOOD_STEPS_NAME] = ops.where(grows, 0.0, good_steps)
        return is_finite

    def failure_marker(self, is_finite: Value) -> Value:
        """A scalar: NaN where gradients are not finite although the scale cannot become smaller, else 0."""
        is_scaled = ops.greater(self.scale, MIN_SCALE)
        return ops.where(ops.logical_or(is_finite, is_scaled), ops.zeros_like(self.scale), float("nan"))
