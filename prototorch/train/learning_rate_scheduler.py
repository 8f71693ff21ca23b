"""A learning rate that a Python function sets before each epoch."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.schema import field
from prototorch.schema.python_function import CallableField
from prototorch.train.callbacks import Callback, Logs, verbose_field

__all__ = ["LearningRateScheduler"]


class LearningRateScheduler(Callback):
    """Set the learning rate before each epoch to ``schedule(epoch, learning_rate)`` or ``schedule(epoch)``.

    Python only (a function)."""

    schedule: Any = field(
        type=CallableField("; a schedule is written at the optimizer: adam { learning_rate: ExponentialDecay { } }"),
        doc="A function of the epoch (from 0) and the learning rate.",
    )
    verbose: int = verbose_field()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        try:
            single = len(inspect.signature(self.schedule).parameters) == 1
        except (TypeError, ValueError):
            single = False  # a function without a signature is called with both
        rate = self.schedule(epoch) if single else self.schedule(epoch, self.model.learning_rate)
        if isinstance(rate, bool) or not isinstance(rate, int | float | np.floating | np.integer) or not rate >= 0:
            raise UsageError(
                f"LearningRateScheduler: the schedule gave {rate!r} for epoch {epoch}, not a learning rate"
            )
        self.model.learning_rate = float(rate)
        self.announce(f"epoch {epoch + 1}: the learning rate is {float(rate):.4g}")
