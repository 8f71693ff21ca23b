"""The runner: a plan bound to a backend's memory and to the states' arrays, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.errors import ShapeError
from prototorch.graph.ir import Value
from prototorch.graph.plan import Allocation, Plan
from prototorch.runtime.constant_tensor_cache import CachedTensor, ConstantTensorCache
from prototorch.runtime.versions import Snapshot, Version, VersionTracker
from prototorch.spec import Spec

BoundStep = tuple[Any, tuple[Any, ...], tuple[Any, ...]]


class Executor:
    """Runs a plan. Kernels are prepared and arrays bound once; a call copies the inputs in and makes the calls.

    ``states`` are the arrays the plan's states live in, by name; the run changes them in place. ``arena`` is memory
    that several plans share which never run at the same time; without it the plan gets its own.
    """

    #: a loss that is not finite is told at most so many steps later
    report_lag = 0
    _persistent: Any = None
    _cache: ConstantTensorCache | None = None
    _invalidates = False
    _cached: Mapping[int, CachedTensor] = {}

    def __init__(self, plan: Plan, backend: Backend, states: Mapping[str, Any], arena: Any = None):
        self.plan, self.backend = plan, backend
        changes: VersionTracker | None = getattr(states, "versions", None)
        before = changes.count_references() if changes is not None else None
        if changes is not None and backend.device is None:
            self._cache = states.constant_cache  # type: ignore[attr-defined]
            self._cached = self._cache.tensors_of(plan, backend.levels)
        self._arena = backend.allocate(plan.arena_bytes) if arena is None else arena
        self._inputs = {name: backend.empty(v.spec) for name, v in plan.inputs.items()}
        self._states = states
        self._borrow = states.__getitem__ if changes is None else states.borrow  # type: ignore[attr-defined]
        self._arrays: dict[Any, Any] = {}
        self._steps: list[BoundStep] = []
        prepared = [backend.prepare(op, ins, outs, attrs) for op, ins, outs, attrs in plan.signatures()]
        cut = None
        for i, turn in plan.schedule():
            step = plan.steps[i]
            if cut is None and step.node.phase == "update":
                cut = len(self._steps)
            ins, outs = (tuple(self.array(v, turn) for v in vs) for vs in (step.inputs, step.outputs))
            self._steps.append((prepared[i], ins, outs))
        cut = len(self._steps) if cut is None else cut
        once = plan.setup_steps
        backend.prepare_all(self._steps)
        self._setup = backend.link_steps(self._steps[:once])
        self._version: Version | None = None
        self._snapshot: Snapshot | None = None
        self._forward_backward, self._updates = (
            backend.link_steps(self._steps[once:cut]),
            backend.link_steps(self._steps[cut:]),
        )
        self._needs_no_context = all(
            getattr(call, "is_native", False) for call in (*self._setup, *self._forward_backward, *self._updates)
        )
        self._copies = [(self._borrow(name), self.array(v)) for name, v in plan.state_copies]
        self._outputs = {name: self.array(v) for name, v in plan.outputs.items()}
        self._versions, self._write_counter = changes, [0]
        if changes is not None and before is not None:
            changes.register_owner(self, before)
            self._written_names = plan.written_states()
            self._write_counter = changes.register_writer(self._written_names)
            self._invalidates = self._cache is not None and any(s.node.phase == "update" for s in plan.steps)

    def array(self, value: Value, turn: int = 0) -> Any:
        """The memory of one of the plan's values; of a slice, in this turn of its loop."""
        place = self.plan.allocations[id(value)]
        key = id(value), turn if place.stride else 0
        found = self._arrays.get(key)
        if found is None:
            found = self._arrays[key] = self._bind(place, value, place.stride * turn)
        return found

    def _bind(self, place: Allocation, value: Value, beyond: int = 0) -> Any:
        spec = value.spec
        if place.kind == "arena":
            begin = place.offset + beyond
            raw = self._arena[begin : begin + spec.nbytes]
            return self._with_layout(raw.view(spec.dtype), spec)
        if place.kind == "persistent" and self._cache is not None:
            return self._with_layout(self._cached[place.offset].array.view(spec.dtype), spec)
        if place.kind == "persistent":
            self._persistent = (
                self.backend.allocate(self.plan.persistent_bytes) if self._persistent is None else self._persistent
            )
            return self._with_layout(self._persistent[place.offset : place.offset + spec.nbytes].view(spec.dtype), spec)
        if place.kind == "input":
            held = self._inputs[place.name]
            if place.stride:
                first = beyond // held.itemsize
                held = held.reshape(-1)[first : first + spec.size]
            return self._with_layout(held, spec)
        if place.kind == "state":
            array = self._borrow(place.name)
            if tuple(array.shape) != spec.shape and array.size != spec.size:
                raise ShapeError(f"{place.name} has shape {list(array.shape)}, the plan wants {list(spec.shape)}")
            return self._with_layout(array, spec)
        assert place.value is not None
        array = np.reshape(place.value.array, spec.shape)
        array = array if spec.layout is None else np.moveaxis(array, 1, -1)
        return self._with_layout(self.backend.asarray(np.ascontiguousarray(array), spec.dtype), spec)

    def _with_layout(self, array: Any, spec: Spec) -> Any:
        """Memory under a spec: where that has a layout, a strided view of the logical shape."""
        if spec.layout is None:
            return array.reshape(spec.shape)
        n, channels, *places = spec.shape
        return self.backend.xp.moveaxis(array.reshape((n, *places, channels)), -1, 1)

    def __call__(self, inputs: Mapping[str, Any],
                 guard: Callable[[Mapping[str, Any]], None] | None = None) -> dict[str, Any]:  # fmt: skip
        """Run once. The arrays given back are the plan's own memory: the next run writes over them.

        ``guard`` is called with them before the updates; where it raises, the run ends there and weights stay as they
        were. Outputs that it looks at belong to the forward pass.
        """
        for name, target in self._inputs.items():
            source = inputs[name]
            if getattr(source, "shape", None) != target.shape and tuple(np.shape(source)) != tuple(target.shape):
                raise ShapeError(
                    f"input {name!r} has shape {list(np.shape(source))}, the plan wants {list(target.shape)}"
                )
            target[...] = source
        self._write_counter[0] += 1
        if self._invalidates:
            self._cache.invalidate(self._written_names)  # type: ignore[union-attr]
        if self._needs_no_context and guard is None:
            self._run(None)
        else:
            with self.backend.run_context():
                self._run(guard)
        for state, new in self._copies:
            state[...] = new
        return self._outputs

    def _run(self, guard: Callable[[Mapping[str, Any]], None] | None) -> None:
        if self._setup:
            self._run_setup()
        for call in self._forward_backward:
            call()
        if guard is not None:
            guard(self._outputs)
        for call in self._updates:
            call()

    def _run_setup(self) -> None:
        """Compute what follows from the states alone, where they have changed since, or where nobody can tell."""
        watch = self._versions
        if watch is not None and self._snapshot is not None and watch.is_unchanged(self._snapshot):
            return
        self._snapshot = None
        stamp = None if watch is None else watch.version_of(self.plan.dependencies)
        if stamp is None or stamp != self._version:
            self._version = None
            kept = self._cached.values()
            if stamp is None or self._cache is None or not self._cache.is_current(kept):
                for call in self._setup:
                    call()
                if self._cache is not None:
                    self._cache.mark_filled(kept)
            self._version = stamp
        if watch is not None and stamp is not None:
            self._snapshot = watch.snapshot(self.plan.dependencies)

    def synchronize(self, guard: Callable[[Mapping[str, Any]], None]) -> None:
        """Wait for all that was begun, and let the guard see what it has not seen. Here nothing is left open."""
