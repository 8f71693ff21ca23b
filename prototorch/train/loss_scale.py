"""Dynamic loss scaling (Micikevicius et al., 2018): float16 has no numbers below 6e-8, which many gradients are.

The loss is multiplied by a factor before the backward pass and the gradients are divided by it again, in float32. Where
one of them is not finite the factor was too large: that step changes no weight, and the factor is halved. After `GROWS`
good steps in a row it is doubled. All of it is said in ops and lives in two variables, so that it is part of the plan
and of a checkpoint. A skipped step counts as a step for the learning rate's schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.engine.variables import SLOT
from prototorch.graph.record import Graph, Value
from prototorch.spec import Spec

FIRST, LEAST, MOST = 2.0**16, 1.0, 2.0**24
GROWS = 2000
SCALE, GOOD = f"{SLOT}loss_scale:scale", f"{SLOT}loss_scale:good"


class LossScale:
    """The factor as a value of a graph; ``births`` learns how its variables begin."""

    def __init__(self, graph: Graph, births: dict[str, Any]):
        births[SCALE] = Spec(()), partial(np.full, (), FIRST, np.float32)
        births[GOOD] = Spec(()), partial(np.zeros, (), np.float32)
        self.scale, self.good = graph.state(SCALE, Spec(())), graph.state(GOOD, Spec(()))

    def unscaled(self, gradients: Sequence[Value | None]) -> list[Any]:
        """The gradients of the loss from those of the loss times the factor."""
        back = 1.0 / self.scale
        return [None if g is None else g * back for g in gradients]

    def update(self, gradients: Sequence[Value | None], updates: dict[str, Value]) -> Value:
        """Whether all gradients are finite; the factor's next value is entered into ``updates``."""
        marks = [ops.sum_(g * 0.0) for g in gradients if g is not None]  # 0, or NaN where a number is not finite
        fine: Value = ops.isfinite(sum(marks[1:], marks[0]))
        good = ops.where(fine, self.good + 1.0, 0.0)
        grown = ops.greater_equal(good, float(GROWS))
        more = ops.where(grown, ops.minimum(self.scale * 2.0, MOST), self.scale)
        updates[SCALE] = ops.where(fine, more, ops.maximum(self.scale * 0.5, LEAST))
        updates[GOOD] = ops.where(grown, 0.0, good)
        return fine
