"""An executor's access to states whose changes are tracked: setup steps run again only where a state has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch.engine.backends.executable_plan import ExecutablePlan
from prototorch.runtime.constant_tensor_cache import ConstantTensorCache
from prototorch.runtime.versions import Snapshot, Version, VersionTracker

__all__ = ["TrackedStates"]


class TrackedStates:
    """See `backends.executor.StateBinding`. ``tensors`` are the persistent tensors of the plan, by offset."""

    def __init__(
        self,
        borrow: Callable[[str], Any],
        versions: VersionTracker,
        cache: ConstantTensorCache,
        plan: ExecutablePlan,
        levels: tuple[str, ...],
        before_run: Callable[[], None],
    ):
        self._before_run = before_run
        self.array, self._versions, self._cache = borrow, versions, cache
        self._dependencies, self._written_states = plan.dependencies, plan.written_states
        self._updates = plan.first_update < len(plan.steps)
        self.tensors = cache.tensors_of(plan, levels)
        self._write_counter = versions.register_writer(plan.written_states)
        self._version: Version | None = None
        self._snapshot: Snapshot | None = None

    def persistent(self, offset: int, nbytes: int) -> np.ndarray:
        """See `StateBinding.persistent`."""
        return self.tensors[offset].array

    def largest(self, names: frozenset[str]) -> float | None:
        """See `StateBinding.largest`."""
        return self._versions.largest(names)

    def set_largest(self, names: frozenset[str], value: float | None) -> None:
        """See `StateBinding.set_largest`."""
        self._versions.set_largest(names, value)

    def begin_run(self) -> None:
        """See `StateBinding.begin_run`."""
        self._before_run()
        self._write_counter[0] += 1
        if self._updates:
            self._cache.invalidate(self._written_states)

    def needs_setup(self) -> bool:
        """See `StateBinding.needs_setup`."""
        if self._snapshot is not None and self._versions.is_unchanged(self._snapshot):
            return False
        self._snapshot = None
        version = self._versions.version_of(self._dependencies)
        if version is None:
            self._version = None
            return True
        if version != self._version and not self._cache.is_current(self.tensors.values()):
            self._version = None
            return True
        self._version, self._snapshot = version, self._versions.snapshot(self._dependencies)
        return False

    def finish_setup(self) -> None:
        """See `StateBinding.finish_setup`."""
        self._cache.mark_filled(self.tensors.values())
        self._version = self._versions.version_of(self._dependencies)
        if self._version is not None:
            self._snapshot = self._versions.snapshot(self._dependencies)
