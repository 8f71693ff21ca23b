"""The runner: a plan bound to a backend's memory and to the states' arrays, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.engine.changes import Changes, Seen, Stamp
from prototorch.engine.keeping import Kept, Store
from prototorch.errors import ShapeError
from prototorch.graph.plan import Place, Plan
from prototorch.graph.record import Value
from prototorch.spec import Spec

Step = tuple[Any, tuple[Any, ...], tuple[Any, ...]]


class Runner:
    """Runs a plan. Kernels are prepared and arrays bound once; a call copies the inputs in and makes the calls.

    ``states`` are the arrays the plan's states live in, by name; the run changes them in place. ``arena`` is memory
    that several plans share which never run at the same time; without it the plan gets its own.
    """

    #: a loss that is not finite is told at most so many steps later
    lag = 0
    _kept: Any = None
    _store: Store | None = None
    _trains = False
    _held: Mapping[int, Kept] = {}

    def __init__(self, plan: Plan, backend: Backend, states: Mapping[str, Any], arena: Any = None):
        self.plan, self.backend = plan, backend
        changes: Changes | None = getattr(states, "changes", None)
        before = changes.references() if changes is not None else None
        if changes is not None and backend.device is None:
            self._store = states.kept  # type: ignore[attr-defined]
            self._held = self._store.kept(plan, backend.levels)
        self._arena = backend.bytes(plan.arena) if arena is None else arena
        self._inputs = {name: backend.empty(v.spec) for name, v in plan.inputs.items()}
        self._states = states
        self._lent = states.__getitem__ if changes is None else states.lent  # type: ignore[attr-defined]
        self._arrays: dict[Any, Any] = {}
        self._calls: list[Step] = []
        prepared = [backend.prepare(op, ins, outs, attrs) for op, ins, outs, attrs in plan.said()]
        cut = None
        for i, turn in plan.turns():
            step = plan.steps[i]
            if cut is None and step.node.phase == "update":
                cut = len(self._calls)
            ins, outs = (tuple(self.array(v, turn) for v in vs) for vs in (step.inputs, step.outputs))
            self._calls.append((prepared[i], ins, outs))
        cut = len(self._calls) if cut is None else cut
        once = plan.once
        backend.ready(self._calls)
        self._once = backend.strung(self._calls[:once])
        self._stamp: Stamp | None = None
        self._seen: Seen | None = None
        self._before, self._updates = backend.strung(self._calls[once:cut]), backend.strung(self._calls[cut:])
        self._bare = all(getattr(call, "bare", False) for call in (*self._once, *self._before, *self._updates))
        self._copies = [(self._lent(name), self.array(v)) for name, v in plan.copies]
        self._outputs = {name: self.array(v) for name, v in plan.outputs.items()}
        self._watch, self._runs = changes, [0]
        if changes is not None and before is not None:
            changes.bound(self, before)
            self._written = plan.written()
            self._runs = changes.writer(self._written)
            self._trains = self._store is not None and any(s.node.phase == "update" for s in plan.steps)

    def array(self, value: Value, turn: int = 0) -> Any:
        """The memory of one of the plan's values; of a slice, in this turn of its loop."""
        place = self.plan.places[id(value)]
        key = id(value), turn if place.stride else 0
        found = self._arrays.get(key)
        if found is None:
            found = self._arrays[key] = self._bind(place, value, place.stride * turn)
        return found

    def _bind(self, place: Place, value: Value, beyond: int = 0) -> Any:
        spec = value.spec
        if place.kind == "arena":
            begin = place.offset + beyond
            raw = self._arena[begin : begin + spec.nbytes]
            return self._shaped(raw.view(spec.dtype), spec)
        if place.kind == "kept" and self._store is not None:
            return self._shaped(self._held[place.offset].array.view(spec.dtype), spec)
        if place.kind == "kept":
            self._kept = self.backend.bytes(self.plan.kept) if self._kept is None else self._kept
            return self._shaped(self._kept[place.offset : place.offset + spec.nbytes].view(spec.dtype), spec)
        if place.kind == "input":
            held = self._inputs[place.name]
            if place.stride:
                first = beyond // held.itemsize
                held = held.reshape(-1)[first : first + spec.size]
            return self._shaped(held, spec)
        if place.kind == "state":
            array = self._lent(place.name)
            if tuple(array.shape) != spec.shape and array.size != spec.size:
                raise ShapeError(f"{place.name} has shape {list(array.shape)}, the plan wants {list(spec.shape)}")
            return self._shaped(array, spec)
        assert place.value is not None
        array = np.reshape(place.value.array, spec.shape)
        array = array if spec.layout is None else np.moveaxis(array, 1, -1)
        return self._shaped(self.backend.asarray(np.ascontiguousarray(array), spec.dtype), spec)

    def _shaped(self, array: Any, spec: Spec) -> Any:
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
        self._runs[0] += 1
        if self._trains:
            self._store.changed(self._written)  # type: ignore[union-attr]
        if self._bare and guard is None:
            self._run(None)
        else:
            with self.backend.running():
                self._run(guard)
        for state, new in self._copies:
            state[...] = new
        return self._outputs

    def _run(self, guard: Callable[[Mapping[str, Any]], None] | None) -> None:
        if self._once:
            self._again()
        for call in self._before:
            call()
        if guard is not None:
            guard(self._outputs)
        for call in self._updates:
            call()

    def _again(self) -> None:
        """Compute what follows from the states alone, where they have changed since, or where nobody can tell."""
        watch = self._watch
        if watch is not None and self._seen is not None and watch.unchanged(self._seen):
            return
        self._seen = None
        stamp = None if watch is None else watch.stamp(self.plan.watched)
        if stamp is None or stamp != self._stamp:
            self._stamp = None
            kept = self._held.values()
            if stamp is None or self._store is None or not self._store.fresh(kept):
                for call in self._once:
                    call()
                if self._store is not None:
                    self._store.filled(kept)
            self._stamp = stamp
        if watch is not None and stamp is not None:
            self._seen = watch.seen(self.plan.watched)

    def settle(self, guard: Callable[[Mapping[str, Any]], None]) -> None:
        """Wait for all that was begun, and let the guard see what it has not seen. Here nothing is left open."""
