"""The executor on a GPU: a whole step is captured once as a CUDA graph, and then launched with one call.

The first runs of a plan in a row launch kernel by kernel (they compile and upload what a capture must not); the next
one is captured. A plan that never runs so often in a row, such as that of a smaller last batch which cannot be padded,
is never captured. Learning rate, step number and random key are inputs like any other, so that a captured step reads
their present values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.cuda.executor.device_mirror import DeviceMirror
from prototorch.cuda.executor.input_staging import InputStaging
from prototorch.cuda.executor.loss_check import MAX_REPORT_LAG, REPORT_INTERVAL, DeviceLossCheck
from prototorch.cuda.executor.value_check import DeviceValueCheck
from prototorch.cuda.graph_capture import capture_graph
from prototorch.engine.backends.buffer_arrays import BufferArrays
from prototorch.engine.backends.executable_plan import APPLY, GUARD, ExecutablePlan, ExecutableStep
from prototorch.engine.backends.executor import LossGuard, StepTime
from prototorch.engine.backends.watching import find_watch
from prototorch.errors import ResourceError

__all__ = ["WARM_UP_RUNS", "CudaGraphExecutor", "LaunchRecord"]

WARM_UP_RUNS = 2  # runs in a row before a plan is captured


class LaunchRecord(NamedTuple):
    """One piece of a step: the op, the layer it belongs to, and the function that launches it."""

    op: str
    scope: str
    phase: str
    launch: Callable[[], None]


class CudaGraphExecutor:
    """See the module's text.

    Attributes:
        graph: the captured step; None before it is captured.
        capture_failure: why the step cannot be captured; "" as long as it may be.
        launches: all pieces of a step, in their order.
    """

    report_lag = MAX_REPORT_LAG
    warm_up_runs = WARM_UP_RUNS + 2  # the captured step has then been launched once
    timed_setup_steps = 0

    def __init__(self, plan: ExecutablePlan, backend: Any, states: DeviceMirror, arena: Any = None):
        self.plan, self.backend, self.states = plan, backend, states
        self.device: CudaDevice = backend.device
        self._arena = backend.allocate(plan.arena_bytes) if arena is None else arena
        self._persistent: Any = None
        self.graph: Any = None
        self.capture_failure = ""
        self._consecutive_runs, self._states_version = 0, -1
        with backend.run_context():
            self._staging = InputStaging(self.device, plan.inputs)
            self._buffers = BufferArrays(
                backend, self._arena, self._staging.arrays, states.__getitem__, self._persistent_bytes
            )
            self._outputs = {name: self._buffers.array(b) for name, b in plan.outputs.items()}
            self.loss_check: DeviceLossCheck | None = None
            self._watch = None if APPLY in plan.outputs else find_watch(plan)  # a scaled loss has a check of its own
            if self._watch is not None or (GUARD in plan.outputs and plan.first_update < len(plan.steps)):
                self.loss_check = states.loss_check = states.loss_check or DeviceLossCheck(self.device)
            self.value_check: DeviceValueCheck | None = None
            if plan.value_guard is not None:
                self.value_check = DeviceValueCheck(self.device, plan.value_guard, self._buffers.array)
                backend.value_checks.add(self.value_check)
            self.launches = self._bind_steps()

    def _persistent_bytes(self, offset: int, nbytes: int) -> Any:
        if self._persistent is None:
            self._persistent = self.backend.allocate(self.plan.persistent_bytes)
        return self._persistent[offset : offset + nbytes]

    def _bind_steps(self) -> list[LaunchRecord]:
        """All pieces of a step in their order; what writes a state depends on a flag of the step's check."""
        steps, check_at, first_update = self.plan.steps, self._check_position(), self.plan.first_update
        launches = [_launch_record(*self._prepare_step(step)) for step in steps[:check_at]]
        launches += self._check_launches()
        prepared = [(step, *self._prepare_step(step)) for step in steps[check_at:]]
        for step, kernel, _, _ in prepared:
            names = {b.name for b in step.outputs if b.memory == "state"}
            if names or (not step.outputs and self.loss_check is not None):
                kernel.condition = self._condition(not names or bool(names & self.plan.guarded_states))
        num_forward = max(first_update - check_at, 0)
        bound = [(kernel, ins, outs) for _, kernel, ins, outs in prepared]
        for kernel, ins, outs in [*bound[:num_forward], *self.backend.fuse_updates(bound[num_forward:])]:
            conditional = kernel.make_conditional(self._flag(kernel.condition)) if kernel.condition else kernel
            launches.append(_launch_record(conditional, ins, outs))
        return [*launches, *self._state_copy_launches()]

    def _check_position(self) -> int:
        """The number of steps before the step's check: they write no state, and compute what is checked."""
        guard = self.plan.value_guard
        after_guard = 0 if guard is None else max(guard.step + 1, self.plan.setup_steps)
        return max(after_guard, self.plan.first_update if self.loss_check is not None or guard is None else 0)

    def _condition(self, is_guarded: bool) -> str:
        """The flag that the writing of a state depends on, "" for none; guarded states also depend on what decides
        whether updates count."""
        if self.loss_check is not None and (is_guarded or self.value_check is None):
            return "apply_updates" if is_guarded else "all_finite"
        return "" if self.value_check is None else "write_states"

    def _flag(self, condition: str) -> Any:
        """The flag of a condition, int32[1] on the device."""
        return getattr(self.value_check if condition == "write_states" else self.loss_check, condition)

    def _prepare_step(self, step: ExecutableStep) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        kernel = self.backend.prepare(*step.signature)
        kernel.scope, kernel.phase = step.scope, step.phase
        if kernel.not_capturable_reason and not self.capture_failure:
            self.capture_failure = f"{step.op.name} in {step.scope or 'the net'}: {kernel.not_capturable_reason}"
        return kernel, tuple(map(self._buffers.array, step.inputs)), tuple(map(self._buffers.array, step.outputs))

    def _check_launches(self) -> list[LaunchRecord]:
        """The check of the loss and of the values outside, in one launch behind that of the gradients; a copy keeps
        values that lie outside."""
        losses, values, launch = self.loss_check, self.value_check, self.device.check_step
        arrays: list[Any] = [None] * 6
        if losses is not None:
            arrays[:3] = losses.block, self._outputs.get(GUARD), self._outputs.get(APPLY)
        if values is not None:
            arrays[3:] = values.block, values.outside, values.report
        elif losses is None:
            return []
        name, phase = ("check of values", "forward") if losses is None else ("check of the loss", "update")
        launches = [*self._gradient_check(), LaunchRecord(name, "", phase, lambda: launch(*arrays))]
        return (
            launches
            if values is None
            else [*launches, LaunchRecord("copy", "values outside", phase, values.keep_values)]
        )

    def _gradient_check(self) -> list[LaunchRecord]:
        """The check of all that the updates read, whatever has made it, in one launch."""
        if self.loss_check is None or self._watch is None or not self._watch.operands:
            return []
        arrays = [self._buffers.array(b) for b in self._watch.operands]
        check = self.device.make_finite_check(arrays, self.loss_check.not_finite)
        return [LaunchRecord("check of the gradients", "", "update", check)]

    def _state_copy_launches(self) -> list[LaunchRecord]:
        """The copies of new values into states: into guarded states where updates count, into the others where the loss
        and all losses before it were finite."""
        conditions = {is_guarded: self._condition(is_guarded) for is_guarded in (True, False)}
        flags = {is_guarded: self._flag(condition) for is_guarded, condition in conditions.items() if condition}
        if not flags and self.plan.state_copies:
            flags[False] = flags[True] = self.device.upload(np.ones(1, np.int32))
        groups: dict[bool, list[tuple[Any, Any]]] = {False: [], True: []}
        for name, new in self.plan.state_copies:
            groups[name in self.plan.guarded_states].append((self.states[name], self._buffers.array(new)))
        return [
            LaunchRecord("copy", "new states", "update", self.device.make_conditional_copy(pairs, flags[guarded]))
            for guarded, pairs in groups.items()
            if pairs
        ]

    # ---------------------------------------------------------------- running

    def __call__(self, inputs: Mapping[str, Any], guard: LossGuard | None = None) -> dict[str, Any]:
        """Start a step; see `Executor.__call__`. The outputs are arrays of the device: `Backend.to_numpy` waits for
        them.

        Raises the error of an earlier step that read a value outside of its bounds, see `DeviceValueCheck`.
        ``guard`` is called with the loss of an earlier step that was not finite; see `DeviceLossCheck.read_report`.
        """
        with self.backend.run_context():
            return self._start_step(inputs, guard)

    def _start_step(self, inputs: Mapping[str, Any], guard: LossGuard | None) -> dict[str, Any]:
        if self.value_check is not None:
            self.value_check.raise_error()
            self.value_check.steps_started += 1
        self.states.push()
        self._staging(inputs)
        self._run_step()
        self.states.mark_written(self.plan.written_states)
        self._states_version = self.states.version  # setup steps do not depend on what this plan writes
        if self.loss_check is not None:
            self.loss_check.steps_started += 1
            if guard is not None and self.loss_check.steps_started % REPORT_INTERVAL == 0:
                self.loss_check.read_report(guard)  # requested REPORT_INTERVAL steps ago: no waiting
                self.loss_check.request_report()
        return self._outputs

    def synchronize(self, guard: LossGuard) -> None:
        """See `Executor.synchronize`."""
        with self.backend.run_context():
            self._staging.release()
            if self.loss_check is not None and self.loss_check.steps_started:
                self.loss_check.request_report()
                self.loss_check.read_report(guard)
            if self.value_check is not None and self.value_check.steps_started:
                event = self.device.create_event()
                self.device.record_event(event, self.device.compute_stream)
                self.device.synchronize_event(event)
                self.value_check.raise_error()

    def _run_step(self) -> None:
        if self.states.last_executor is not self:
            self.states.last_executor, self._consecutive_runs = self, 0
        self._consecutive_runs += 1
        if self.states.version != self._states_version:
            self._launch_all(self.launches[: self.plan.setup_steps])
            self._states_version = self.states.version
        if self.graph is None and self._consecutive_runs > WARM_UP_RUNS:
            self._capture()
        if self.graph is not None:
            self.device.launch_graph(self.graph)
        else:
            self._launch_all(self.launches[self.plan.setup_steps :])

    def _launch_all(self, launches: Sequence[LaunchRecord]) -> None:
        for record in launches:
            self._launch(record)

    def _launch(self, record: LaunchRecord) -> None:
        try:
            record.launch()
        except MemoryError as error:
            free = self.device.free_bytes()
            remaining = "" if free is None else f"; {free:,} bytes are free"
            batch = max((spec.shape[0] for spec in self.plan.inputs.values() if spec.shape), default=0)
            advice = f". A batch of {batch // 2} needs about half" if batch > 1 else ""
            raise ResourceError(f"{record.op} in {record.scope or 'the net'}: {error}{remaining}{advice}") from error

    def _capture(self) -> None:
        """Capture the step, or report once why it cannot be captured: then it goes on kernel by kernel."""
        if not self.capture_failure:
            self._record()
        if self.capture_failure and self.capture_failure not in self.states.reported_failures:
            self.states.reported_failures.add(self.capture_failure)
            warnings.warn(
                f"this step runs kernel by kernel, not as one CUDA graph: {self.capture_failure}", RuntimeWarning, 4
            )

    def _record(self) -> None:
        self._workspace = self.device.workspace()  # must live as long as the graph
        record: LaunchRecord | None = None

        def launch_all() -> None:
            nonlocal record
            for record in self.launches[self.plan.setup_steps :]:
                self._launch(record)

        try:
            self.graph = capture_graph(self.device, launch_all)
        except ResourceError:
            raise
        except Exception as error:
            where = f"{record.op} in {record.scope or 'the net'}" if record is not None else "the step"
            self.capture_failure = f"{where}: {type(error).__name__}: {error}"

    # ---------------------------------------------------------------- timing

    def step_timer(self, inputs: Mapping[str, Any]) -> Callable[[], list[StepTime]]:
        """See `Executor.step_timer`; the times are those of the device's clock."""
        return lambda: [StepTime(r.op, r.scope, r.phase, ms / 1e3) for r, ms in self.time_launches(inputs)]

    def time_launches(self, inputs: Mapping[str, Any]) -> list[tuple[LaunchRecord, float]]:
        """Milliseconds of each piece of the step on the device, from one run kernel by kernel.

        The first piece, "prefetch", is the copy of the inputs from the host, which otherwise overlaps with the step
        before.
        """
        with self.backend.run_context():
            return self._time_launches(inputs)

    def _time_launches(self, inputs: Mapping[str, Any]) -> list[tuple[LaunchRecord, float]]:
        device = self.device
        copy_events = device.create_event(timing=True), device.create_event(timing=True)
        self.states.push()
        self._staging(inputs, copy_events)
        marks = [device.create_event(timing=True) for _ in range(len(self.launches) + 1)]
        device.record_event(marks[0], device.compute_stream)
        for record, mark in zip(self.launches, marks[1:], strict=True):
            self._launch(record)
            device.record_event(mark, device.compute_stream)
        self.states.mark_written(self.plan.written_states)
        device.synchronize_event(marks[-1])
        prefetch = LaunchRecord("prefetch", "inputs", "forward", lambda: None), device.elapsed_ms(*copy_events)
        spans = zip(self.launches, marks, marks[1:], strict=False)
        return [prefetch, *((record, device.elapsed_ms(begin, end)) for record, begin, end in spans)]


def _launch_record(kernel: Any, ins: Sequence[Any], outs: Sequence[Any]) -> LaunchRecord:
    return LaunchRecord(kernel.op, kernel.scope, kernel.phase, lambda: kernel(ins, outs))
