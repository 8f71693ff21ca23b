"""Executors: an executable plan bound to a backend's memory and to the arrays of its states, ready to be called.

`Executor` is what every backend's executor does; `HostExecutor` is the one of backends whose arrays lie in the host's
memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from prototorch.engine.backends.buffer_arrays import BufferArrays
from prototorch.engine.backends.executable_plan import ExecutablePlan
from prototorch.engine.backends.guarded_updates import GuardedUpdates
from prototorch.engine.backends.registry import KernelFn
from prototorch.engine.backends.value_guard import raise_value_error
from prototorch.errors import ShapeError
from prototorch.spec import Spec

__all__ = [
    "BoundStep", "Executor", "HostExecutor", "LossGuard", "StateBinding", "StateMirror", "StateStore",
    "StepTime", "UntrackedStates", "check_input_shape",
]  # fmt: skip

#: a prepared kernel with the arrays of its inputs and outputs
BoundStep = tuple[KernelFn, Sequence[Any], Sequence[Any]]
#: called with outputs of the forward pass; an error that it raises stops the run before the updates
LossGuard = Callable[[Mapping[str, Any]], None]


class StepTime(NamedTuple):
    """A timed piece of a run: an op of a layer (or what a device does beside them), and its seconds."""

    op: str
    scope: str
    phase: str
    seconds: float


class Executor(Protocol):
    """Runs a plan on one backend."""

    plan: ExecutablePlan
    backend: Any

    @property
    def report_lag(self) -> int:
        """After how many steps at the latest a loss that is not finite is reported."""

    @property
    def warm_up_runs(self) -> int:
        """Runs after which every later run takes the same time."""

    @property
    def timed_setup_steps(self) -> int:
        """How many of the first pieces that `step_timer` times are left out by a run while no state changes."""

    def __call__(self, inputs: Mapping[str, Any], guard: LossGuard | None = None) -> dict[str, Any]:
        """Run once and give the outputs by name, in the executor's own memory: the next run overwrites them.

        Raises ShapeError for an input that is not of the plan's shape.
        """

    def synchronize(self, guard: LossGuard) -> None:
        """Wait for all runs that were started; the guard gets the losses that it has not seen."""

    def step_timer(self, inputs: Mapping[str, Any]) -> Callable[[], list[StepTime]]:
        """A function that runs the steps one by one and gives the time of each."""


class StateBinding(Protocol):
    """One executor's access to the states of a model."""

    def array(self, name: str) -> Any:
        """The array of a state. The executor writes into it only during a run."""

    def persistent(self, offset: int, nbytes: int) -> np.ndarray:
        """The bytes of the persistent tensor at this offset; several executors may share them."""

    def largest(self, names: frozenset[str]) -> float | None:
        """The largest magnitude in these states (but for averages, see `UpdateWatch.states`), where it is known and
        nothing else has changed them; else None."""

    def set_largest(self, names: frozenset[str], value: float | None) -> None:
        """Called after a run that has changed these states, with their largest magnitude; None: it is not known."""

    def begin_run(self) -> None:
        """Called before a run changes any state."""

    def needs_setup(self) -> bool:
        """Whether the persistent tensors must be computed before they are read."""

    def finish_setup(self) -> None:
        """Called when they have been computed."""


class StateMirror(Mapping[str, Any]):
    """The arrays of states in a device's memory, each with a copy in the host's; one of the two may be newer."""

    backend: Any
    #: called before host arrays are copied to the device: others may have changed them
    before_push: Callable[[], None] | None = None
    #: counts the runs that wrote the device's arrays
    writes = 0

    @property
    def resident(self) -> Container[str]:
        """The names of the arrays that are in the device's memory."""
        raise NotImplementedError

    def mark_changed(self) -> None:
        """Say that others than executors may have changed the device's arrays: steps that depend on them run again."""
        raise NotImplementedError

    def pull(self, name: str) -> None:
        """Bring the host's array up to date; it counts as changed from then on."""
        raise NotImplementedError

    def pull_all(self) -> None:
        """Bring all of the host's arrays up to date."""
        raise NotImplementedError

    def discard(self, name: str) -> None:
        """The host has no array of this name any more, or another one."""
        raise NotImplementedError


@runtime_checkable
class StateStore(Protocol):
    """Arrays of states that keep track of their changes (see `runtime.variables.Variables`)."""

    def bind(self, plan: ExecutablePlan, levels: tuple[str, ...]) -> StateBinding:
        """An executor's access; ``levels``: of the kernels that compute the persistent tensors."""


class UntrackedStates:
    """Access to arrays whose changes nobody tracks: setup steps run every time."""

    def __init__(self, arrays: Mapping[str, Any], plan: ExecutablePlan, allocate: Callable[[int], Any]):
        self.array = arrays.__getitem__
        self._plan, self._allocate = plan, allocate
        self._memory: Any = None

    def persistent(self, offset: int, nbytes: int) -> Any:
        if self._memory is None:
            self._memory = self._allocate(self._plan.persistent_bytes)
        return self._memory[offset : offset + nbytes]

    def largest(self, names: frozenset[str]) -> float | None:
        return None

    def set_largest(self, names: frozenset[str], value: float | None) -> None:
        """Nothing is tracked."""

    def begin_run(self) -> None:
        """Nothing is tracked."""

    def needs_setup(self) -> bool:
        return True

    def finish_setup(self) -> None:
        """Nothing is tracked."""


class HostBackend(Protocol):
    """What a host executor needs of its backend; see `backends.core.Backend`."""

    xp: Any
    levels: tuple[str, ...]
    run_context: Callable[[], AbstractContextManager[Any]]

    def prepare(self, op: Any, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> KernelFn:
        """The kernel of a step."""

    def prepare_all(self, steps: Sequence[BoundStep]) -> None:
        """Compile what all steps need."""

    def link_steps(self, steps: Sequence[BoundStep]) -> list[Callable[[], None]]:
        """Calls without arguments."""

    def empty(self, spec: Spec) -> Any:
        """An array."""

    def allocate(self, nbytes: int) -> Any:
        """Bytes."""

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        """An array with these elements."""


class HostExecutor:
    """Runs a plan in the host's memory. Kernels are prepared and arrays bound once; a call copies the inputs in and
    calls the kernels.

    ``states`` are the arrays of the plan's states, by name; a run changes them in place. ``arena`` is memory shared by
    several plans that never run at the same time; without it the executor allocates its own.
    """

    report_lag = 0
    warm_up_runs = 2

    def __init__(
        self, plan: ExecutablePlan, backend: HostBackend, states: StateStore | Mapping[str, Any], arena: Any = None
    ):
        self.plan, self.backend = plan, backend
        self._states: StateBinding = (
            states.bind(plan, backend.levels)
            if isinstance(states, StateStore)
            else UntrackedStates(states, plan, backend.allocate)
        )
        self._arena = backend.allocate(plan.arena_bytes) if arena is None else arena
        self._inputs = {name: backend.empty(spec) for name, spec in plan.inputs.items()}
        self._buffers = BufferArrays(backend, self._arena, self._inputs, self._states.array, self._states.persistent)
        kernels = [backend.prepare(*signature) for signature in plan.signatures()]
        self._guarded_updates = GuardedUpdates.of(plan, kernels, self._states)
        steps: list[BoundStep] = []
        first_update = None
        for i, iteration in plan.schedule:
            step = plan.steps[i]
            if first_update is None and step.phase == "update":
                first_update = len(steps)
            ins, outs = (tuple(self._buffers.array(b, iteration) for b in bs) for bs in (step.inputs, step.outputs))
            steps.append((kernels[i], ins, outs))
        num_before_updates = len(steps) if first_update is None else first_update
        backend.prepare_all(steps)
        self._setup = backend.link_steps(steps[: plan.setup_steps])
        guard_end = self._guard_end(plan)
        self._before_guard = backend.link_steps(steps[plan.setup_steps : guard_end])
        self._forward_backward = backend.link_steps(
            steps[max(guard_end, plan.setup_steps) : max(num_before_updates, guard_end)]
        )
        self._updates = backend.link_steps(steps[max(num_before_updates, guard_end) :])
        calls = (*self._setup, *self._before_guard, *self._forward_backward, *self._updates)
        self._needs_no_context = all(getattr(call, "is_native", False) for call in calls)
        self._copies = [(self._states.array(name), self._buffers.array(b)) for name, b in plan.state_copies]
        self._outputs = {name: self._buffers.array(b) for name, b in plan.outputs.items()}
        value_guard = plan.value_guard
        self._num_outside = None if value_guard is None else self._buffers.array(value_guard.count)
        if self._guarded_updates is not None:
            self._guarded_updates.bind(self._buffers, self._copies)

    @staticmethod
    def _guard_end(plan: ExecutablePlan) -> int:
        """How many pieces of the schedule run before the indices are known to be valid; 0 where there are none."""
        guard = plan.value_guard
        return 0 if guard is None else next(n for n, (i, _) in enumerate(plan.schedule, 1) if i == guard.step)

    def _refuse_indices(self) -> None:
        """Raise IndexRangeError, naming the first index that lies outside."""
        assert self.plan.value_guard is not None
        raise_value_error((check, self._buffers.array(b)) for check, b in self.plan.value_guard.checks)

    @property
    def timed_setup_steps(self) -> int:
        """See `Executor.timed_setup_steps`."""
        return self.plan.setup_steps

    def __call__(self, inputs: Mapping[str, Any], guard: LossGuard | None = None) -> dict[str, Any]:
        """See `Executor.__call__`.

        ``guard`` is called with the outputs before the updates; where it raises, the run ends there and weights stay as
        they were. The outputs that it reads belong to the forward pass. It is called again where a guarded state would
        not be finite, see `GuardedUpdates.run`; without a guard, states are written as they come. Raises
        IndexRangeError for an index outside of its bounds; no state has been changed.
        """
        for name, target in self._inputs.items():
            source = inputs[name]
            if getattr(source, "shape", None) != target.shape:
                check_input_shape(name, source, target.shape)
            target[...] = source
        self._states.begin_run()
        if self._needs_no_context and guard is None:
            self._run(None)
        else:
            with self.backend.run_context():
                self._run(guard)
        return self._outputs

    def _run(self, guard: LossGuard | None) -> None:
        if self._setup and self._states.needs_setup():
            for call in self._setup:
                call()
            self._states.finish_setup()
        if self._guarded_updates is not None:
            self._guarded_updates.begin_run()
        for call in self._before_guard:
            call()
        if self._num_outside is not None and self._num_outside:
            self._refuse_indices()
        for call in self._forward_backward:
            call()
        if guard is not None:
            guard(self._outputs)
            if self._guarded_updates is not None:
                self._guarded_updates.run(self._updates, guard, self._outputs)
                return
        elif self._guarded_updates is not None:
            self._guarded_updates.forget()
        for call in self._updates:
            call()
        for state, new in self._copies:
            state[...] = new

    def synchronize(self, guard: LossGuard) -> None:
        """See `Executor.synchronize`: a run is done when its call returns."""

    def step_timer(self, inputs: Mapping[str, Any]) -> Callable[[], list[StepTime]]:
        """See `Executor.step_timer`: each step as a call of its own, in the memory that it has in a run."""
        calls: list[Callable[[], None]] = []
        for step in self.plan.steps:
            arrays = tuple(map(self._buffers.array, step.inputs)), tuple(map(self._buffers.array, step.outputs))
            calls += self.backend.link_steps([(self.backend.prepare(*step.signature), *arrays)])

        def measure() -> list[StepTime]:
            clock = time.perf_counter
            with self.backend.run_context():
                marks = [clock()]
                for call in calls:
                    call()
                    marks.append(clock())
            spans = zip(self.plan.steps, marks, marks[1:], strict=False)
            return [StepTime(s.op.name, s.scope, s.phase, (end - begin) * s.trip_count) for s, begin, end in spans]

        return measure


def check_input_shape(name: str, source: Any, shape: Sequence[int]) -> None:
    """Raise ShapeError where an input is not of the plan's shape."""
    if tuple(np.shape(source)) != tuple(shape):
        raise ShapeError(f"input {name!r}: expected shape {list(shape)}, got {list(np.shape(source))}")
