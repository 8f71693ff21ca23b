"""Running the plans of compiled functions: on arrays where they lie, with results in memory of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from prototorch.compiler.tensor_states import TensorStates
from prototorch.eager.interpreter import EagerInterpreter
from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.devices import backend_for
from prototorch.engine.backends.executor import LossGuard
from prototorch.errors import ResourceError
from prototorch.graph.plan import Plan
from prototorch.runtime.executor import make_executor

__all__ = ["PlanRun", "backend_of", "check_memory", "shares_memory"]


def backend_of(host: EagerInterpreter) -> Backend:
    """The backend of the plans on an interpreter's tensors: on a GPU the interpreter's own, in whose memory and order
    of work the tensors are."""
    return host.backend if host.backend.has_device_memory else backend_for(str(host.device))


def check_memory(plan: Plan, backend: Backend, name: str) -> None:
    """Raise ResourceError where the plan of a function does not fit in memory."""
    nbytes, free = plan.arena_bytes + plan.persistent_bytes, backend.free_bytes()
    if free is not None and nbytes > free:
        raise ResourceError(f"the plan of {name} needs {nbytes:,} bytes of memory, and {free:,} are free")


def shares_memory(host: EagerInterpreter, a: Any, b: Any) -> bool:
    """Whether two arrays of an interpreter have elements in common; on a GPU, whether they may have."""
    if host.backend.has_device_memory:
        return bool(host.backend.device.xp.module.may_share_memory(a, b))
    return bool(np.may_share_memory(a, b) and np.shares_memory(a, b))


class PlanRun:
    """A plan on an interpreter's arrays; ``states``: the tensors that it reads and changes in place, by name.

    On a GPU nothing is copied to the host: inputs that lie there are copied to the plan's, a plan that runs again and
    again is captured as a CUDA graph, and the host does not wait for it.
    """

    def __init__(self, plan: Plan, host: EagerInterpreter, states: Mapping[str, Tensor], backend: Backend):
        self._host, self._is_on_device = host, backend.has_device_memory
        # what tensors do to the states between two runs is not tracked: setup steps run every time
        self._states = TensorStates(states, backend)
        self._mirror: Any = backend.mirror_states(self._states) if self._is_on_device else None
        self._executor = make_executor(plan, backend, self._states if self._mirror is None else self._mirror)

    def __call__(
        self, inputs: Mapping[str, Any], outputs: Iterable[str], guard: LossGuard | None = None
    ) -> dict[str, Any]:
        """Run it; gives copies of these outputs. guard: see `Executor`; a GPU is then waited for."""
        if not self._is_on_device:
            results = self._executor(inputs, guard)
            return {name: np.array(results[name]) for name in outputs}
        self._mirror.mark_changed()
        results = self._executor(inputs, guard)
        if guard is not None:
            self._executor.synchronize(guard)
        return {name: self._host.copy_array(results[name]) for name in outputs}

    def finish(self) -> None:
        """Called when the changes of a run have been counted in the tensors."""
        self._states.finish_run()
