"""The runner on a GPU: a whole step is recorded once as a CUDA graph, and then launched with one call.

The first runs of a plan in a row are made kernel by kernel (they compile and upload what a recording must not); the
next one is recorded. A plan that never runs so often in a row, such as that of a smaller last batch which cannot be
filled up, is never recorded. Learning rate, step number and random key are inputs like any other, so a recorded step
reads them anew.

A loss that is not finite is noticed on the device: from that step on no update counts, and the host is told within
`MAX_REPORT_LAG` steps. Nothing is copied to the host for a step but the 16 bytes that say so, every
`REPORT_INTERVAL`-th step.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cuda.device import CudaDevice, LossCheckState
from prototorch.errors import ResourceError
from prototorch.graph.plan import Plan, Step
from prototorch.runtime.device_mirror import DeviceMirror
from prototorch.runtime.executor import Executor
from prototorch.runtime.input_staging import InputStaging
from prototorch.runtime.variables import Variables

WARM_UP_RUNS = 2  # runs in a row before a plan is recorded
REPORT_INTERVAL = 4  # steps between two reports of the loss's check
MAX_REPORT_LAG = 2 * REPORT_INTERVAL  # steps after which the host knows at the latest
LOSS, APPLY = "loss", "apply"  # outputs that the check reads: the loss, and whether the updates count (absent: they do)

LossGuard = Callable[[Mapping[str, Any]], None]


def make_executor(plan: Plan, backend: Backend, variables: Variables, arena: Any = None) -> Executor:
    """A plan bound to its memory: the runner of the backend's kind."""
    if backend.device is None:
        return Executor(plan, backend, variables, arena)
    return CudaGraphExecutor(plan, backend, variables.on_device(backend), arena)


class LaunchRecord(NamedTuple):
    """One piece of a step: the op, the layer it belongs to, and what starts it."""

    op: str
    scope: str
    phase: str
    start: Callable[[], None]


class DeviceLossCheck:
    """The check of the loss that all training plans of a model share."""

    def __init__(self, device: CudaDevice):
        self.device = device
        self.block = device.alloc(LossCheckState.itemsize)
        self.is_finite, self.apply_updates = self.block[:4].view("int32"), self.block[4:8].view("int32")
        self.report = device.alloc_pinned(LossCheckState.itemsize)
        self.event = device.create_event()
        self.steps_started = 0  # steps since the reset
        self.report_requested = False
        self.reset()

    def reset(self) -> None:
        """Begin anew: alive, no step counted."""
        start = np.array([(1, 1, 0, 0.0)], LossCheckState)
        self.device.overwrite(self.block, start.view("uint8"))
        self.steps_started, self.report_requested = 0, False

    def read_report(self, guard: LossGuard) -> None:
        """See what was reported last; the guard is called where a loss was not finite.

        The error it raises bears ``late``: how many steps have been begun after that one.
        """
        if not self.report_requested:
            return
        self.device.synchronize_event(self.event)
        self.report_requested = False
        (found,) = self.report.view(LossCheckState)
        if found["alive"]:
            return
        late, loss = self.steps_started - int(found["good"]) - 1, np.float32(found["loss"])
        self.reset()
        try:
            guard({LOSS: loss})
        except Exception as stop:
            stop.steps_since = late  # type: ignore[attr-defined]
            raise

    def request_report(self) -> None:
        """Let the device report."""
        self.device.copy_to_host(self.report, self.block, self.device.compute_stream)
        self.device.record_event(self.event, self.device.compute_stream)
        self.report_requested = True


class CudaGraphExecutor(Executor):
    """See the module's text. ``graph`` is the recorded step, ``refused`` why there will be none ("" as long as there
    may be one)."""

    report_lag = MAX_REPORT_LAG

    backend: Any  # of backends/cuda

    def __init__(self, plan: Plan, backend: Any, states: DeviceMirror, arena: Any = None):
        self.plan, self.backend, self.states = plan, backend, states
        self.device: CudaDevice = backend.device
        self._arena = backend.allocate(plan.arena_bytes) if arena is None else arena
        self._states, self._arrays, self._borrow = states, {}, states.__getitem__
        with backend.lock:
            self._bind_all()

    def _bind_all(self) -> None:
        plan, states = self.plan, self.states
        self._staging = InputStaging(self.device, {name: v.spec for name, v in plan.inputs.items()})
        self._inputs = self._staging.arrays
        self._outputs = {name: self.array(v) for name, v in plan.outputs.items()}
        self.loss_check: DeviceLossCheck | None = None
        if LOSS in plan.outputs and any(s.node.phase == "update" for s in plan.steps):
            self.loss_check = states.loss_check = states.loss_check or DeviceLossCheck(self.device)
        self.graph: Any = None
        self.capture_failure = ""
        self._consecutive_runs, self._states_version = 0, -1
        self.launches = self._bind_steps()
        self._written_names = plan.written_states()

    def _bind_steps(self) -> list[LaunchRecord]:
        """All pieces of a step in their order."""
        steps = self.plan.steps
        cut = next((i for i, s in enumerate(steps) if s.node.phase == "update"), len(steps))
        calls = [_launch_record(*self._prepare_step(step)) for step in steps[:cut]]
        if self.loss_check is not None:
            calls.append(self._loss_check_launch())
        bound = [self._prepare_step(step) for step in steps[cut:]]
        places = [(v, self.plan.allocations[id(v)]) for step in steps[cut:] for v in step.outputs]
        states = {id(self.array(v)): place.name for v, place in places if place.kind == "state"}
        for run, _, outs in bound:
            names = {states[id(a)] for a in outs if id(a) in states}
            if self.loss_check is not None and (names or not outs):
                run.condition = "alive" if names and not names & self.plan.guarded_states else "go"
        for run, ins, outs in self.backend.fuse_updates(bound):
            if self.loss_check is not None and run.condition:
                run = run.make_conditional(
                    self.loss_check.is_finite if run.condition == "alive" else self.loss_check.apply_updates
                )
            calls.append(_launch_record(run, ins, outs))
        return [*calls, *self._state_copy_launches()]

    def _prepare_step(self, step: Step) -> Any:
        node = step.node
        run = self.backend.prepare(node.op, tuple(v.spec for v in step.inputs),
                                        tuple(v.spec for v in step.outputs), node.attrs)  # fmt: skip
        run.scope, run.phase = node.scope, node.phase
        if run.not_capturable_reason and not self.capture_failure:
            self.capture_failure = f"{node.op.name} in {node.scope or 'the net'}: {run.not_capturable_reason}"
        return run, tuple(map(self.array, step.inputs)), tuple(map(self.array, step.outputs))

    def _loss_check_launch(self) -> LaunchRecord:
        assert self.loss_check is not None
        block, loss, apply = self.loss_check.block, self._outputs[LOSS], self._outputs.get(APPLY)
        return LaunchRecord("check of the loss", "", "update", lambda: self.device.check_loss(block, loss, apply))

    def _state_copy_launches(self) -> list[LaunchRecord]:
        """States take their new values: those of the optimiser where updates count, the others where the loss and all
        before it were finite."""
        flags: dict[bool, Any] = {True: None, False: None}
        if self.loss_check is not None:
            flags = {True: self.loss_check.apply_updates, False: self.loss_check.is_finite}
        elif self.plan.state_copies:
            flags[False] = self.device.upload(np.ones(1, np.int32))
        groups: dict[bool, list[tuple[Any, Any]]] = {False: [], True: []}
        for name, value in self.plan.state_copies:
            groups[name in self.plan.guarded_states].append((self._states[name], self.array(value)))
        return [LaunchRecord("copy", "new states", "update", self.device.make_conditional_copy(pairs, flags[updated]))
                for updated, pairs in groups.items() if pairs]  # fmt: skip

    # ---------------------------------------------------------------- running

    def __call__(self, inputs: Mapping[str, Any], guard: LossGuard | None = None) -> dict[str, Any]:
        """Begin a step; see `Runner.__call__`. What is given back lies on the device: `Backend.to_numpy` waits for it.

        ``guard`` is called with the loss of a step before this one, where it was not finite; see `Guard.read_report`.
        """
        with self.backend.lock:
            return self._start_step(inputs, guard)

    def _start_step(self, inputs: Mapping[str, Any], guard: LossGuard | None) -> dict[str, Any]:
        self.states.push()
        self._staging(inputs)
        self._run_step()
        self.states.mark_written(self._written_names)
        self._states_version = self.states.version  # what is computed once does not follow from what this plan writes
        if self.loss_check is not None:
            self.loss_check.steps_started += 1
            if guard is not None and self.loss_check.steps_started % REPORT_INTERVAL == 0:
                self.loss_check.read_report(guard)  # what was asked for EVERY steps ago: no waiting
                self.loss_check.request_report()
        return self._outputs

    def synchronize(self, guard: LossGuard) -> None:
        """Wait for all steps that were begun, and look at their losses as `__call__` does."""
        if self.loss_check is not None and self.loss_check.steps_started:
            with self.backend.lock:
                self.loss_check.request_report()
                self.loss_check.read_report(guard)

    def _run_step(self) -> None:
        if self.states.last_executor is not self:
            self.states.last_executor, self._consecutive_runs = self, 0
        self._consecutive_runs += 1
        if self.states.version != self._states_version:  # what follows from the weights alone is computed again
            self._launch_all(self.launches[: self.plan.setup_steps])
            self._states_version = self.states.version
        if self.graph is None and self._consecutive_runs > WARM_UP_RUNS:
            self._capture()
        if self.graph is not None:
            self.device.launch_graph(self.graph)
        else:
            self._launch_all(self.launches[self.plan.setup_steps :])

    def _launch_all(self, calls: Sequence[LaunchRecord]) -> None:
        if calls:
            with self.backend.run_context():
                for call in calls:
                    self._launch(call)

    def _launch(self, call: LaunchRecord) -> None:
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
        if not self.capture_failure:
            self._record()
        if self.capture_failure and self.capture_failure not in self.states.reported_failures:
            self.states.reported_failures.add(self.capture_failure)
            warnings.warn(
                f"this step runs kernel by kernel, not as one CUDA graph: {self.capture_failure}", RuntimeWarning, 4
            )

    def _record(self) -> None:
        self._space = self.device.workspace()  # what the recording has seen stays alive with it
        collecting = gc.isenabled()
        gc.disable()  # what is freed while a stream records would be recorded, or void the recording
        call = self.launches[0] if self.launches else None
        try:
            with self.backend.run_context():
                self.device.begin_capture()
                for call in self.launches[self.plan.setup_steps :]:
                    self._launch(call)
                self.graph = self.device.end_capture()
        except ResourceError:
            self.device.abandon_capture()
            raise
        except Exception as exc:
            self.device.abandon_capture()
            where = f"{call.op} in {call.scope or 'the net'}" if call is not None else "the step"
            self.capture_failure = f"{where}: {type(exc).__name__}: {exc}"
        finally:
            if collecting:
                gc.enable()

    def time_launches(self, inputs: Mapping[str, Any]) -> list[tuple[LaunchRecord, float]]:
        """Milliseconds of each piece of the step on the device, from one run kernel by kernel.

        The first piece, "prefetch", is the copy of the inputs from the host. In earnest it runs beside the step before.
        """
        with self.backend.lock:
            return self._time_launches(inputs)

    def _time_launches(self, inputs: Mapping[str, Any]) -> list[tuple[LaunchRecord, float]]:
        copied = self.device.create_event(timing=True), self.device.create_event(timing=True)
        self.states.push()
        self._staging(inputs, copied)
        marks = [self.device.create_event(timing=True) for _ in range(len(self.launches) + 1)]
        with self.backend.run_context():
            self.device.record_event(marks[0], self.device.compute_stream)
            for call, mark in zip(self.launches, marks[1:], strict=True):
                self._launch(call)
                self.device.record_event(mark, self.device.compute_stream)
        self.states.mark_written(self._written_names)
        self.device.synchronize_event(marks[-1])
        prefetch = LaunchRecord("prefetch", "inputs", "forward", lambda: None), self.device.elapsed_ms(*copied)
        return [
            prefetch,
            *((c, self.device.elapsed_ms(a, b)) for c, a, b in zip(self.launches, marks, marks[1:], strict=False)),
        ]


def _launch_record(run: Any, ins: Sequence[Any], outs: Sequence[Any]) -> LaunchRecord:
    return LaunchRecord(run.op, run.scope, run.phase, lambda: run(ins, outs))
