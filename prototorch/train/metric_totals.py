"""The running totals of the loss and the metrics, which steps update and the logs read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.metrics.base import Direction
from prototorch.runtime.variables import METRIC_PREFIX, Variables
from prototorch.train.loss_terms import LossTerm, MetricTerm

__all__ = ["MetricTotals"]


class MetricTotals:
    """Totals by phase, in variables named ``metric:PHASE:NAME:STATE``. ``metric_terms`` are known after a trace.

    step_losses: the names of the losses of steps that alternate, each of which counts its own samples, and whether it
    is the sum of a step; the means are logged, and as ``loss`` the total of these sums.
    """

    def __init__(
        self,
        variables: Variables,
        loss_terms: Sequence[LossTerm],
        metric_terms: Callable[[], Sequence[MetricTerm]],
        step_losses: Mapping[str, bool] | None = None,
    ):
        self._step_losses = dict(step_losses or {})
        self._variables, self._loss_terms, self._metric_terms = variables, loss_terms, metric_terms

    @property
    def loss_names(self) -> list[str]:
        """The losses in the logs: ``loss``, and where there are several also each of them."""
        if self._step_losses:
            return ["loss", *self._step_losses]
        return ["loss", *([t.name for t in self._loss_terms] if len(self._loss_terms) > 1 else [])]

    def results(self, phase: str) -> dict[str, Any]:
        """The mean loss and the metrics of a phase since `reset`: floats, or lists for metrics that are arrays."""
        variables = self._variables
        total = f"{METRIC_PREFIX}{phase}:loss:count"
        count = float(variables.borrow(total)) if total in variables else 0.0
        names = self.loss_names
        logs: dict[str, Any] = {}
        if self._step_losses:
            logs = self._step_results(phase)
        elif count:
            logs = {n: float(variables.borrow(f"{METRIC_PREFIX}{phase}:{n}:sum")) / count for n in names}
        for term in self._metric_terms():
            prefix = f"{METRIC_PREFIX}{phase}:{term.name}:"
            states = {k[len(prefix) :]: a for k, a in variables.borrow_prefix(prefix)}
            if states:
                result = np.asarray(term.metric.result(states))
                logs[term.name] = float(result) if result.ndim == 0 else result.tolist()
        return logs

    def _step_results(self, phase: str) -> dict[str, float]:
        """The mean losses of steps that alternate; NaN of one that has not run, {} where none has."""
        logs = {}
        for name in self._step_losses:
            total, count = (f"{METRIC_PREFIX}{phase}:{name}:{state}" for state in ("sum", "count"))
            samples = float(self._variables.borrow(count)) if count in self._variables else 0.0
            logs[name] = float(self._variables.borrow(total)) / samples if samples else math.nan
        if all(math.isnan(value) for value in logs.values()):
            return {}
        return {"loss": sum(logs[name] for name, is_sum in self._step_losses.items() if is_sum), **logs}

    def directions(self) -> dict[str, Direction | None]:
        """Whether less or more is better of each loss and metric in the logs; None for a metric that does not say."""
        losses: dict[str, Direction | None] = dict.fromkeys(self.loss_names, "min")
        losses |= {t.name: "min" if t.factor >= 0 else "max" for t in self._loss_terms}  # less of the total is better
        return losses | {t.name: t.metric.direction for t in self._metric_terms()}

    def names(self) -> list[str]:
        """The names of the losses and metrics in the logs."""
        return [*self.loss_names, *(t.name for t in self._metric_terms())]

    def reset(self, phase: str) -> None:
        """Set the totals of a phase to zero."""
        self._variables.zero_prefix(f"{METRIC_PREFIX}{phase}:")
