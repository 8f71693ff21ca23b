"""Timing a plan: each step by itself, and whole runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

from prototorch.engine.backends.executor import Executor, StepTime

__all__ = ["PlanTiming", "StepTime", "time_plan"]

# the number of rounds where none is given: as many as fit in TARGET_SECONDS, within these limits
MIN_ROUNDS, MAX_ROUNDS, TARGET_SECONDS = 3, 50, 2.0


class PlanTiming(NamedTuple):
    """Medians over ``rounds`` runs: of each step run by itself, and the ``seconds`` of a whole run, which leaves out
    the first ``setup_steps`` steps as long as no state changes."""

    steps: tuple[StepTime, ...]
    seconds: float
    rounds: int
    setup_steps: int


def time_plan(executor: Executor, inputs: Mapping[str, Any], rounds: int | None = None) -> PlanTiming:
    """Time a bound plan; it is run a few times first, so that everything is compiled and all memory is touched.

    The steps are run in their order, so that each finds in the caches what it finds there in a run; between two of them
    the clock is read, which takes well under a microsecond. States change as in any run. rounds: how many runs
    (default: between 3 and 50, as many as fit in about two seconds). A GPU's steps are timed by its own clock.
    """
    for _ in range(executor.warm_up_runs):
        seconds = _time_run(executor, inputs)
        if seconds > TARGET_SECONDS:
            break
    rounds = rounds or max(MIN_ROUNDS, min(MAX_ROUNDS, int(TARGET_SECONDS / max(seconds, 1e-9))))
    whole = median(_time_run(executor, inputs) for _ in range(rounds))
    time_steps = executor.step_timer(inputs)
    time_steps()  # touches the kernels' scratch memory
    runs = [time_steps() for _ in range(rounds)]
    steps = (group[0]._replace(seconds=median(s.seconds for s in group)) for group in zip(*runs, strict=True))
    return PlanTiming(tuple(steps), whole, rounds, executor.timed_setup_steps)


def _time_run(executor: Executor, inputs: Mapping[str, Any]) -> float:
    """Seconds until all outputs of a run can be read."""
    begin = time.perf_counter()
    for array in executor(inputs).values():
        executor.backend.to_numpy(array)
    return time.perf_counter() - begin
