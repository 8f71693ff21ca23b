"""A learning rate that a Python function sets before each epoch."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.schema import field
from prototorch.schema.python_function import CallableField
from prototorch.train.callbacks import Callback, Logs, verbose_field
from prototorch.train.learning_rates import optimizer_field, rates_to_change
from prototorch.train.log_names import LogNames

__all__ = ["LearningRateScheduler"]


class LearningRateScheduler(Callback):
    """Set the learning rate before each epoch to ``schedule(epoch, learning_rate)`` or ``schedule(epoch)``.

    Python only (a function)."""

    schedule: Any = field(
        type=CallableField("; a schedule is written at the optimizer: adam { learning_rate: ExponentialDecay { } }"),
        doc="A function of the epoch (from 0) and the learning rate.",
    )
    verbose: int = verbose_field()
    optimizer: str | None = optimizer_field()

    def check_logs(self, names: LogNames) -> None:
        rates_to_change(self.model, self)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        try:
            single = len(inspect.signature(self.schedule).parameters) == 1
        except (TypeError, ValueError):
            single = False  # a function without a signature is called with both
        rates = self.model.learning_rates
        for name in rates_to_change(self.model, self):
            rate = self.schedule(epoch) if single else self.schedule(epoch, rates[name])
            if isinstance(rate, bool) or not isinstance(rate, int | float | np.floating | np.integer) or not rate >= 0:
                raise UsageError(
                    f"LearningRateScheduler: the schedule gave {rate!r} for epoch {epoch}, not a learning rate"
                )
            rates[name] = float(rate)
            of = f" of {name}" if len(rates) > 1 else ""
            self.announce(f"epoch {epoch + 1}: the learning rate{of} is {float(rate):.4g}")
