"""Timing a plan: each step by itself, and the whole as it runs in earnest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

from prototorch.runtime.cuda_graph import CudaGraphExecutor
from prototorch.runtime.executor import Executor

MIN_ROUNDS, MAX_ROUNDS, TARGET_SECONDS = (
    3,
    50,
    2.0,
)  # rounds, where nobody says how many: as many as fit in these seconds


class StepTime(NamedTuple):
    """A piece of a run: an op of a layer (or what a device does beside them), and its seconds."""

    op: str
    scope: str
    phase: str
    seconds: float


class PlanTiming(NamedTuple):
    """Medians over ``rounds``: of each piece run by itself, and the seconds of a whole run, which leaves out the first
    ``once`` pieces as long as no weight changes."""

    steps: tuple[StepTime, ...]
    seconds: float
    rounds: int
    setup_steps: int


def time_plan(runner: Executor, inputs: Mapping[str, Any], rounds: int | None = None) -> PlanTiming:
    """Time a bound plan; it is run a few times first, so that everything is compiled and all memory is touched.

    The pieces are run in their order, so that each finds in the caches what it would find there; between two of them
    the clock is read, which takes well under a microsecond. States change as in any run. Without ``rounds`` there are
    between 3 and 50, as many as fit in about two seconds. On a GPU the pieces are timed by its own clock.
    """
    for _ in range(4 if isinstance(runner, CudaGraphExecutor) else 2):  # a GPU records its step in the third
        once = _time_run(runner, inputs)
        if once > TARGET_SECONDS:
            break
    rounds = rounds or max(MIN_ROUNDS, min(MAX_ROUNDS, int(TARGET_SECONDS / max(once, 1e-9))))
    whole = median(_time_run(runner, inputs) for _ in range(rounds))
    if isinstance(runner, CudaGraphExecutor):
        measure, left_out = _device_step_timer(runner, inputs), 0
    else:
        measure, left_out = _host_step_timer(runner), runner.plan.setup_steps
    measure()  # finds the kernels' scratch memory untouched
    each = [measure() for _ in range(rounds)]
    pieces = (group[0]._replace(seconds=median(p.seconds for p in group)) for group in zip(*each, strict=True))
    return PlanTiming(tuple(pieces), whole, rounds, left_out)


def _time_run(runner: Executor, inputs: Mapping[str, Any]) -> float:
    """Seconds until all outputs of a run can be read."""
    begin = time.perf_counter()
    for array in runner(inputs).values():
        runner.backend.to_numpy(array)
    return time.perf_counter() - begin


def _device_step_timer(runner: CudaGraphExecutor, inputs: Mapping[str, Any]) -> Callable[[], list[StepTime]]:
    return lambda: [StepTime(c.op, c.scope, c.phase, ms / 1e3) for c, ms in runner.time_launches(inputs)]


def _host_step_timer(runner: Executor) -> Callable[[], list[StepTime]]:
    """Each step of the plan as a call by itself, in the memory that the runner has given it."""
    calls: list[Callable[[], None]] = []
    for step in runner.plan.steps:
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        run = runner.backend.prepare(step.node.op, ins, outs, step.node.attrs)
        arrays = tuple(map(runner.array, step.inputs)), tuple(map(runner.array, step.outputs))
        calls += runner.backend.link_steps([(run, *arrays)])
    nodes = [step.node for step in runner.plan.steps]

    def measure() -> list[StepTime]:
        clock = time.perf_counter
        with runner.backend.run_context():
            marks = [clock()]
            for call in calls:
                call()
                marks.append(clock())
        spans = zip(nodes, marks, marks[1:], strict=False)
        return [
            StepTime(n.op.name, n.scope, n.phase, (b - a) * (n.loop.trip_count if n.loop else 1)) for n, a, b in spans
        ]

    return measure
