"""The guard of a training plan: weights and optimizers' slots are not written where they would not be finite.

See `watching.py` for how a step knows that without reading a gradient or a weight. Where it does not know, the states
are copied before the updates and looked at behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.buffer_arrays import BufferArrays
from prototorch.engine.backends.executable_plan import GUARD, OVERFLOWED, ExecutablePlan
from prototorch.engine.backends.registry import KernelFn
from prototorch.engine.backends.watching import (
    MAX_STATE,
    UpdateWatch,
    find_watch,
    magnitude,
    magnitude_of_bits,
    note_magnitude,
)

__all__ = ["GuardedUpdates", "watched_kernel"]


def watched_kernel(kernel: KernelFn, outputs: Sequence[int], maximum: np.ndarray) -> KernelFn:
    """The kernel that also takes the largest magnitude of some outputs into ``maximum`` (int64[1], the bits of a
    float32): by itself, while it writes them, where it has a method ``with_watch(outputs, maximum)`` that gives such a
    kernel; else from what it has just written."""
    make = getattr(kernel, "with_watch", None)
    watching_kernel = None if make is None else make(outputs, maximum)
    return _WatchedFunction(kernel, tuple(outputs), maximum) if watching_kernel is None else watching_kernel


class _WatchedFunction:
    """A kernel that is a function of NumPy's, which writes whole arrays."""

    def __init__(self, kernel: KernelFn, outputs: tuple[int, ...], maximum: np.ndarray):
        self._kernel, self._outputs, self._maximum = kernel, outputs, maximum

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._kernel(inputs, outputs)
        for i in self._outputs:
            note_magnitude(self._maximum, magnitude(outputs[i].ravel(order="K")))


class GuardedUpdates:
    """Runs the updates of a plan where their results are finite.

    plan: one with guarded states. kernels: of its steps; those that are watched are replaced. states: what the
    executors of a model know of their states (see `StateBinding`).
    """

    def __init__(self, plan: ExecutablePlan, watch: UpdateWatch, kernels: list[KernelFn], states: Any):
        self._plan, self._watch, self._states = plan, watch, states
        self._value_bits, self._state_bits = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._names = plan.guarded_states & plan.written_states
        self._read_values = [b for b in watch.operands if b.memory == "input"]  # nothing in the plan has made them
        for step_outputs, maximum in ((watch.values, self._value_bits), (watch.states, self._state_bits)):
            for i, outputs in step_outputs.items():
                kernels[i] = watched_kernel(kernels[i], outputs, maximum)

    @classmethod
    def of(cls, plan: ExecutablePlan, kernels: list[KernelFn], states: Any = None) -> GuardedUpdates | None:
        """The guard of a plan; None for a plan without guarded states."""
        watch = find_watch(plan)
        return None if watch is None else cls(plan, watch, kernels, states)

    def bind(self, buffers: BufferArrays, copies: Sequence[tuple[Any, Any]]) -> None:
        """Take the arrays of the plan. copies: of new values into states, at the end of the updates."""
        self._value_arrays = [buffers.array(b).ravel(order="K") for b in self._read_values]
        self._all_states = {name: self._states.array(name) for name in sorted(self._plan.written_states)}
        self._guarded = {name: self._all_states[name] for name in sorted(self._names)}
        self._copies = copies

    def begin_run(self) -> None:
        """Called before each run."""
        self._value_bits[0] = 0

    def run(
        self,
        updates: Sequence[Callable[[], None]],
        refuse: Callable[[Mapping[str, Any]], None],
        outputs: Mapping[str, Any],
    ) -> None:
        """Run the updates, with the copies behind them; where a guarded state would not be finite, leave all states as
        they were, and call ``refuse``, which raises an error, with the outputs of the plan.

        GUARD is NaN among them then, and OVERFLOWED holds the names of those states.
        """
        if self._are_certain():
            self._state_bits[0] = 0
            self._apply(updates)
            self._states.set_largest(self._names, magnitude_of_bits(self._state_bits.item()))
            return
        before = {name: array.copy() for name, array in self._all_states.items()}
        self._apply(updates)
        bad = [name for name, array in self._guarded.items() if not _is_finite(array)]
        self.forget()
        if bad:
            for name, array in self._all_states.items():
                array[...] = before[name]
            refuse({**outputs, GUARD: np.float32(np.nan), OVERFLOWED: bad})

    def forget(self) -> None:
        """The guarded states have changed by what is not known."""
        self._states.set_largest(self._names, None)

    def _apply(self, updates: Sequence[Callable[[], None]]) -> None:
        for call in updates:
            call()
        for state, new in self._copies:
            state[...] = new

    def _are_certain(self) -> bool:
        """Whether no update can give a value that is not finite."""
        if not self._plan.has_bounded_updates:
            return False
        limit = self._watch.limit
        if not magnitude_of_bits(self._value_bits.item()) <= limit:
            return False
        if not all(magnitude(array) <= limit for array in self._value_arrays):
            return False
        largest = self._states.largest(self._names)
        return (self._largest_state() if largest is None else largest) <= MAX_STATE

    def _largest_state(self) -> float:
        """The largest magnitude in the guarded states, which are read for it."""
        return max((magnitude(array.ravel(order="K")) for array in self._guarded.values()), default=0.0)


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
