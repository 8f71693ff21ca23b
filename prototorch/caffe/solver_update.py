"""The update of a net's parameters from the gradients in their ``diff``."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.caffe.interop.solver_fields import HISTORY_SLOTS
from prototorch.caffe.net import Net
from prototorch.caffe.param_blob import ParamBlob
from prototorch.caffe.solver_step import SolverStep, input_specs, refusal
from prototorch.errors import UsageError
from prototorch.graph.plan import make_plan
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import SLOT_PREFIX
from prototorch.train.nan_diagnosis import NonFiniteStepError, raise_if_not_finite
from prototorch.train.step_inputs import GRADIENT_PREFIX, LEARNING_RATE, STEP

__all__ = ["SolverUpdate"]


class SolverUpdate:
    """Updates the parameters of a net as the last part of an iteration does, by gradients that were added up there."""

    def __init__(self, net: Net, step: SolverStep, kind: str, momentum: float, iter_size: int):
        _check_blobs(net)
        self.net, self._kind, self._momentum, self._iter_size = net, kind, momentum, iter_size
        graph = step.plans.step_graphs.build_update(input_specs(step.net))
        self._dtype = step.plans.step_graphs.float_dtype
        graph.inits.create_missing(net.variables, net.backend.threads)
        plan = make_plan(graph.graph, {}, graph.updates, net.backend)
        plan.guarded_states, plan.has_bounded_updates = graph.guarded_states, graph.has_bounded_updates
        self._executor: Any = make_executor(plan, net.backend, net.variables)

    def run(self, rate: float, iteration: int, loss: float = 0.0) -> None:
        """Update the parameters; the ``diff`` of each is then what was taken from it.

        rate: the learning rate. iteration: from 0. loss: of the iteration. Raises TrainingError where the loss, or what
        a parameter or its history would become, is not finite; nothing has been changed then.
        """
        if not np.isfinite(loss):
            raise refusal(NonFiniteStepError(loss), iteration)
        owned = [blob for blobs in self.net.params.values() for blob in blobs if blob.param.owner is None]
        inputs: dict[str, Any] = {LEARNING_RATE: np.asarray(rate, self._dtype), STEP: np.int64(iteration + 1)}
        for blob in owned:
            blob.write_back()
            mean = blob.diff * np.asarray(1.0 / self._iter_size, self._dtype)
            arrays = blob.param.layout.transform.to_ours((mean,))
            for name, array in zip(blob.param.weights, arrays, strict=True):
                if GRADIENT_PREFIX + name in self._executor.plan.inputs:
                    inputs[GRADIENT_PREFIX + name] = np.ascontiguousarray(array)
        before = [np.array(blob.data) for blob in owned]
        momenta = [self._momenta(blob) for blob in owned]
        try:
            self._executor(inputs, raise_if_not_finite)
            self._executor.synchronize(raise_if_not_finite)
        except NonFiniteStepError as error:
            raise refusal(NonFiniteStepError(loss, error.states), iteration) from None
        for blob, data, momentum in zip(owned, before, momenta, strict=True):
            blob.diff[...] = self._update(blob, data, momentum)

    def _momenta(self, blob: ParamBlob) -> np.ndarray | None:
        """Caffe's history of a parameter, for the solvers whose update it is."""
        if HISTORY_SLOTS[self._kind] != {"momentum": -1.0}:
            return None
        names = [f"{SLOT_PREFIX}{name}:momentum" for name in blob.param.weights]
        if any(name not in self.net.variables for name in names):
            return None
        (array,) = blob.param.layout.transform.to_theirs(tuple(-self.net.variables[name] for name in names))
        return np.array(array.reshape(blob.shape))

    def _update(self, blob: ParamBlob, before: np.ndarray, momentum: np.ndarray | None) -> np.ndarray:
        """What an update has taken from a parameter, exactly where the history tells it."""
        after = self._momenta(blob)
        if after is None or momentum is None:
            return before - blob.data
        return (1 + self._momentum) * after - self._momentum * momentum if self._kind == "Nesterov" else after


def _check_blobs(net: Net) -> None:
    """Raise UsageError for parameters that no update reaches: the blobs that Python layers add."""
    for layer, blobs in net.params.items():
        if not all(isinstance(blob, ParamBlob) for blob in blobs):
            raise UsageError(
                f"layer {layer!r} (Python) has {len(blobs)} parameter blobs of its own, which solvers do not train "
                "here; use a Parameter layer as a bottom of the Python layer instead"
            )
