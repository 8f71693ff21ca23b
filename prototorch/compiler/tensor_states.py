"""The arrays of tensors as states of a plan that must stay finite: their magnitudes are known from run to run, as long
as nobody else changes the tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import ExecutablePlan
from prototorch.engine.backends.executor import UntrackedStates

__all__ = ["TensorStates"]


class TensorStates(dict[str, Any]):
    """The arrays of tensors, by the names of the states, for the executor of one plan."""

    def __init__(self, tensors: Mapping[str, Tensor], backend: Backend):
        super().__init__({name: t.array for name, t in tensors.items()})
        self._storages = [t.storage for t in tensors.values()]
        self._backend = backend
        self._largest: float | None = None
        self._known_version = -1

    def bind(self, plan: ExecutablePlan, levels: tuple[str, ...]) -> _Binding:
        """See `StateStore.bind`."""
        return _Binding(self, plan, self._backend.allocate)

    def finish_run(self) -> None:
        """Called when the changes of a run have been counted: what is known from it holds until the next one."""
        self._known_version = self._version()

    @property
    def largest(self) -> float | None:
        """The largest magnitude in the guarded states after the last run, where they are as it has left them."""
        return self._largest if self._known_version == self._version() else None

    @largest.setter
    def largest(self, value: float | None) -> None:
        self._largest, self._known_version = value, -1

    def _version(self) -> int:
        return sum(storage.version for storage in self._storages)


class _Binding(UntrackedStates):
    def __init__(self, states: TensorStates, plan: ExecutablePlan, allocate: Any):
        super().__init__(states, plan, allocate)
        self._states = states

    def largest(self, names: frozenset[str]) -> float | None:
        return self._states.largest

    def set_largest(self, names: frozenset[str], value: float | None) -> None:
        self._states.largest = value
