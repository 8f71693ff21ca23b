"""The runner on a GPU: a whole step is recorded once as a CUDA graph, and then launched with one call.

The first runs of a plan in a row are made kernel by kernel (they compile and upload what a recording must not); the
next one is recorded. A plan that never runs so often in a row, such as that of a smaller last batch which cannot be
filled up, is never recorded. Learning rate, step number and random key are inputs like any other, so a recorded step
reads them anew.

A loss that is not finite is noticed on the device: from that step on no update counts, and the host is told within
`LAG` steps. Nothing is copied to the host for a step but the 16 bytes that say so, every `EVERY`-th step.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cuda.device import Device, GuardBlock
from prototorch.engine.feeding import Feeding
from prototorch.engine.mirror import Mirror
from prototorch.engine.runner import Runner
from prototorch.engine.variables import Variables
from prototorch.errors import ResourceError
from prototorch.graph.plan import Plan, Step

WARM_UP = 2  # runs in a row before a plan is recorded
EVERY = 4  # steps between two reports of the loss's check
LAG = 2 * EVERY  # steps after which the host knows at the latest
LOSS, APPLY = "loss", "apply"  # outputs that the check reads: the loss, and whether the updates count (absent: they do)

Look = Callable[[Mapping[str, Any]], None]


def bound(plan: Plan, backend: Backend, variables: Variables, arena: Any = None) -> Runner:
    """A plan bound to its memory: the runner of the backend's kind."""
    if backend.device is None:
        return Runner(plan, backend, variables, arena)
    return CapturedRunner(plan, backend, variables.on(backend), arena)


class Call(NamedTuple):
    """One piece of a step: the op, the layer it belongs to, and what starts it."""

    op: str
    scope: str
    phase: str
    start: Callable[[], None]


class Guard:
    """The check of the loss that all training plans of a model share."""

    def __init__(self, device: Device):
        self.device = device
        self.block = device.alloc(GuardBlock.itemsize)
        self.alive, self.go = self.block[:4].view("int32"), self.block[4:8].view("int32")
        self.told = device.pinned(GuardBlock.itemsize)
        self.event = device.event()
        self.begun = 0  # steps since the reset
        self.asked = False
        self.reset()

    def reset(self) -> None:
        """Begin anew: alive, no step counted."""
        start = np.array([(1, 1, 0, 0.0)], GuardBlock)
        self.device.store(self.block, start.view("uint8"))
        self.begun, self.asked = 0, False

    def look(self, guard: Look) -> None:
        """See what was reported last; the guard is called where a loss was not finite.

        The error it raises bears ``late``: how many steps have been begun after that one.
        """
        if not self.asked:
            return
        self.device.wait_host(self.event)
        self.asked = False
        (found,) = self.told.view(GuardBlock)
        if found["alive"]:
            return
        late, loss = self.begun - int(found["good"]) - 1, np.float32(found["loss"])
        self.reset()
        try:
            guard({LOSS: loss})
        except Exception as stop:
            stop.late = late  # type: ignore[attr-defined]
            raise

    def ask(self) -> None:
        """Let the device report."""
        self.device.copy_out(self.told, self.block, self.device.main)
        self.device.record(self.event, self.device.main)
        self.asked = True


class CapturedRunner(Runner):
    """See the module's text. ``graph`` is the recorded step, ``refused`` why there will be none ("" as long as there
    may be one)."""

    lag = LAG

    backend: Any  # of backends/cuda

    def __init__(self, plan: Plan, backend: Any, states: Mirror, arena: Any = None):
        self.plan, self.backend, self.states = plan, backend, states
        self.device: Device = backend.device
        self._arena = backend.bytes(plan.arena) if arena is None else arena
        self._states, self._arrays, self._lent = states, {}, states.__getitem__
        with backend.turn:
            self._bind_all()

    def _bind_all(self) -> None:
        plan, states = self.plan, self.states
        self._feeding = Feeding(self.device, {name: v.spec for name, v in plan.inputs.items()})
        self._inputs = self._feeding.arrays
        self._outputs = {name: self.array(v) for name, v in plan.outputs.items()}
        self.guard: Guard | None = None
        if LOSS in plan.outputs and any(s.node.phase == "update" for s in plan.steps):
            self.guard = states.guard = states.guard or Guard(self.device)
        self.graph: Any = None
        self.refused = ""
        self._row, self._version = 0, -1
        self.calls = self._bound()
        self._renewed = plan.written()

    def _bound(self) -> list[Call]:
        """All pieces of a step in their order."""
        steps = self.plan.steps
        cut = next((i for i, s in enumerate(steps) if s.node.phase == "update"), len(steps))
        calls = [_call(*self._prepared(step)) for step in steps[:cut]]
        if self.guard is not None:
            calls.append(self._check())
        bound = [self._prepared(step) for step in steps[cut:]]
        places = [(v, self.plan.places[id(v)]) for step in steps[cut:] for v in step.outputs]
        states = {id(self.array(v)): place.name for v, place in places if place.kind == "state"}
        for run, _, outs in bound:
            names = {states[id(a)] for a in outs if id(a) in states}
            if self.guard is not None and (names or not outs):
                run.gate = "alive" if names and not names & self.plan.gated else "go"
        for run, ins, outs in self.backend.together(bound):
            if self.guard is not None and run.gate:
                run = run.gated(self.guard.alive if run.gate == "alive" else self.guard.go)
            calls.append(_call(run, ins, outs))
        return [*calls, *self._copies_at_end()]

    def _prepared(self, step: Step) -> Any:
        node = step.node
        run = self.backend.prepare(node.op, tuple(v.spec for v in step.inputs),
                                        tuple(v.spec for v in step.outputs), node.attrs)  # fmt: skip
        run.scope, run.phase = node.scope, node.phase
        if run.why_not_captured and not self.refused:
            self.refused = f"{node.op.name} in {node.scope or 'the net'}: {run.why_not_captured}"
        return run, tuple(map(self.array, step.inputs)), tuple(map(self.array, step.outputs))

    def _check(self) -> Call:
        assert self.guard is not None
        block, loss, apply = self.guard.block, self._outputs[LOSS], self._outputs.get(APPLY)
        return Call("check of the loss", "", "update", lambda: self.device.guard(block, loss, apply))

    def _copies_at_end(self) -> list[Call]:
        """States take their new values: those of the optimiser where updates count, the others where the loss and all
        before it were finite."""
        flags: dict[bool, Any] = {True: None, False: None}
        if self.guard is not None:
            flags = {True: self.guard.go, False: self.guard.alive}
        elif self.plan.copies:
            flags[False] = self.device.upload(np.ones(1, np.int32))
        groups: dict[bool, list[tuple[Any, Any]]] = {False: [], True: []}
        for name, value in self.plan.copies:
            groups[name in self.plan.gated].append((self._states[name], self.array(value)))
        return [Call("copy", "new states", "update", self.device.copying(pairs, flags[updated]))
                for updated, pairs in groups.items() if pairs]  # fmt: skip

    # ---------------------------------------------------------------- running

    def __call__(self, inputs: Mapping[str, Any], guard: Look | None = None) -> dict[str, Any]:
        """Begin a step; see `Runner.__call__`. What is given back lies on the device: `Backend.to_numpy` waits for it.

        ``guard`` is called with the loss of a step before this one, where it was not finite; see `Guard.look`.
        """
        with self.backend.turn:
            return self._begun(inputs, guard)

    def _begun(self, inputs: Mapping[str, Any], guard: Look | None) -> dict[str, Any]:
        self.states.push()
        self._feeding(inputs)
        self._step()
        self.states.wrote(self._renewed)
        self._version = self.states.version  # what is computed once does not follow from what this plan writes
        if self.guard is not None:
            self.guard.begun += 1
            if guard is not None and self.guard.begun % EVERY == 0:
                self.guard.look(guard)  # what was asked for EVERY steps ago: no waiting
                self.guard.ask()
        return self._outputs

    def settle(self, guard: Look) -> None:
        """Wait for all steps that were begun, and look at their losses as `__call__` does."""
        if self.guard is not None and self.guard.begun:
            with self.backend.turn:
                self.guard.ask()
                self.guard.look(guard)

    def _step(self) -> None:
        if self.states.running is not self:
            self.states.running, self._row = self, 0
        self._row += 1
        if self.states.version != self._version:  # what follows from the weights alone is computed again
            self._plainly(self.calls[: self.plan.once])
            self._version = self.states.version
        if self.graph is None and self._row > WARM_UP:
            self._capture()
        if self.graph is not None:
            self.device.launch_graph(self.graph)
        else:
            self._plainly(self.calls[self.plan.once :])

    def _plainly(self, calls: Sequence[Call]) -> None:
        if calls:
            with self.backend.running():
                for call in calls:
                    self._start(call)

    def _start(self, call: Call) -> None:
        try:
            call.start()
        except MemoryError as exc:
            free = self.device.free_bytes()
            left = "" if free is None else f"; {free:,} bytes are free"
            batch = max((v.shape[0] for v in self.plan.inputs.values() if v.shape), default=0)
            advice = f". A batch of {batch // 2} needs about half" if batch > 1 else ""
            raise ResourceError(f"{call.op} in {call.scope or 'the net'}: {exc}{left}{advice}") from exc

    def _capture(self) -> None:
        """Record the step, or find out why it cannot be recorded: then it goes on kernel by kernel."""
        if not self.refused:
            self._record()
        if self.refused and self.refused not in self.states.warned:
            self.states.warned.add(self.refused)
            warnings.warn(f"this step runs kernel by kernel, not as one CUDA graph: {self.refused}", RuntimeWarning, 4)

    def _record(self) -> None:
        self._space = self.device.workspace()  # what the recording has seen stays alive with it
        collecting = gc.isenabled()
        gc.disable()  # what is freed while a stream records would be recorded, or void the recording
        call = self.calls[0] if self.calls else None
        try:
            with self.backend.running():
                self.device.begin_capture()
                for call in self.calls[self.plan.once :]:
                    self._start(call)
                self.graph = self.device.end_capture()
        except ResourceError:
            self.device.abandon_capture()
            raise
        except Exception as exc:
            self.device.abandon_capture()
            where = f"{call.op} in {call.scope or 'the net'}" if call is not None else "the step"
            self.refused = f"{where}: {type(exc).__name__}: {exc}"
        finally:
            if collecting:
                gc.enable()

    def times(self, inputs: Mapping[str, Any]) -> list[tuple[Call, float]]:
        """Milliseconds of each piece of the step on the device, from one run kernel by kernel.

        The first piece, "prefetch", is the copy of the inputs from the host. In earnest it runs beside the step before.
        """
        with self.backend.turn:
            return self._times(inputs)

    def _times(self, inputs: Mapping[str, Any]) -> list[tuple[Call, float]]:
        copied = self.device.event(timing=True), self.device.event(timing=True)
        self.states.push()
        self._feeding(inputs, copied)
        marks = [self.device.event(timing=True) for _ in range(len(self.calls) + 1)]
        with self.backend.running():
            self.device.record(marks[0], self.device.main)
            for call, mark in zip(self.calls, marks[1:], strict=True):
                self._start(call)
                self.device.record(mark, self.device.main)
        self.states.wrote(self._renewed)
        self.device.wait_host(marks[-1])
        prefetch = Call("prefetch", "inputs", "forward", lambda: None), self.device.elapsed(*copied)
        return [
            prefetch,
            *((c, self.device.elapsed(a, b)) for c, a, b in zip(self.calls, marks, marks[1:], strict=False)),
        ]


def _call(run: Any, ins: Sequence[Any], outs: Sequence[Any]) -> Call:
    return Call(run.op, run.scope, run.phase, lambda: run(ins, outs))
