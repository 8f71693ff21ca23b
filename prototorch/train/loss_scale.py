"""Dynamic loss scaling (Micikevicius et al., 2018): float16 has no numbers below 6e-8, which many gradients are.

The loss is multiplied by a factor before the backward pass and the gradients are divided by it again, in float32. Where
one of them is not finite the factor was too large: that step changes no weight, and the factor is halved. After
`GROWTH_INTERVAL` good steps in a row it is doubled. All of it is expressed in ops and lives in two variables, so that
it is part of the plan and of a checkpoint. A skipped step counts as a step for the learning rate's schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.graph.ir import Graph, Value
from prototorch.runtime.variables import SLOT_PREFIX
from prototorch.spec import Spec

INITIAL_SCALE, MIN_SCALE, MAX_SCALE = 2.0**16, 1.0, 2.0**24
GROWTH_INTERVAL = 2000
SCALE_NAME, GOOD_STEPS_NAME = f"{SLOT_PREFIX}loss_scale:scale", f"{SLOT_PREFIX}loss_scale:good"


class LossScaler:
    """The factor as a value of a graph; ``births`` learns how its variables begin."""

    def __init__(self, graph: Graph, inits: dict[str, Any]):
        inits[SCALE_NAME] = Spec(()), partial(np.full, (), INITIAL_SCALE, np.float32)
        inits[GOOD_STEPS_NAME] = Spec(()), partial(np.zeros, (), np.float32)
        self.scale, self.good_steps = graph.state(SCALE_NAME, Spec(())), graph.state(GOOD_STEPS_NAME, Spec(()))

    def unscale(self, gradients: Sequence[Value | None]) -> list[Any]:
        """The gradients of the loss from those of the loss times the factor."""
        back = 1.0 / self.scale
        return [None if g is None else g * back for g in gradients]

    def update(self, gradients: Sequence[Value | None], updates: dict[str, Value]) -> Value:
        """Whether all gradients are finite; the factor's next value is entered into ``updates``."""
        marks = [ops.sum(g * 0.0) for g in gradients if g is not None]  # 0, or NaN where a number is not finite
        fine: Value = ops.isfinite(sum(marks[1:], marks[0]))
        good = ops.where(fine, self.good_steps + 1.0, 0.0)
        grown = ops.greater_equal(good, float(GROWTH_INTERVAL))
        more = ops.where(grown, ops.minimum(self.scale * 2.0, MAX_SCALE), self.scale)
        updates[SCALE_NAME] = ops.where(fine, more, ops.maximum(self.scale * 0.5, MIN_SCALE))
        updates[GOOD_STEPS_NAME] = ops.where(grown, 0.0, good)
        return fine
