"""The refusal of a run of a static graph that an optimizer's step would leave with values that are not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.executable_plan import GUARD, LOSS, OVERFLOWED
from prototorch.errors import TrainingError

__all__ = ["RefusedStepError", "refuse_step"]


class RefusedStepError(Exception):
    """A run whose loss is not finite, or what it would make of ``tensors``; nothing has been changed by it."""

    def __init__(self, loss: float, tensors: Sequence[Tensor]):
        super().__init__(loss)
        self.loss, self.tensors = loss, tuple(tensors)

    def describe(self, names: Mapping[int, str]) -> TrainingError:
        """The error of the call. names: of the tensors, by their ids."""
        reason = "a gradient is not finite"
        if not np.isfinite(self.loss):
            reason = f"the loss is {self.loss:g}, which is no finite number"
        elif self.tensors:
            reason = f"the step would make {', '.join(names[id(t)] for t in self.tensors[:4])} not finite"
        return TrainingError(
            f"{reason}; nothing has been changed by the step. Try a smaller learning rate or clipnorm, or look for odd "
            "values in the data"
        )


def refuse_step(outputs: Mapping[str, Any]) -> None:
    """See `compiler.trace.GuardedStep.refuse`. Raises RefusedStepError."""
    if not np.isfinite(float(outputs[GUARD])):
        raise RefusedStepError(float(outputs[LOSS]), outputs[OVERFLOWED])
