"""Timing a plan: each step by itself, and the whole as it runs in earnest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from prototorch.engine.runner import Runner

LEAST, MOST, SECONDS = 3, 50, 2.0  # rounds, where nobody says how many: as many as fit in these seconds


@dataclass(frozen=True)
class Timing:
    """Seconds, medians over ``rounds``: of each step of the plan run by itself, and of the whole run at once."""

    steps: tuple[float, ...]
    whole: float
    rounds: int


def timed(runner: Runner, inputs: Mapping[str, Any], rounds: int | None = None) -> Timing:
    """Time a bound plan; it is run a few times first, so that everything is compiled and all memory is touched.

    The steps are run in their order, so that each finds in the caches what it would find there; between two of them the
    clock is read, which takes well under a microsecond. States change as in any run. Without ``rounds`` there are
    between 3 and 50, as many as fit in about two seconds.
    """
    calls = _calls(runner)
    begin = time.perf_counter()
    runner(inputs)
    if time.perf_counter() - begin < SECONDS:
        runner(inputs)
    begin = time.perf_counter()
    runner(inputs)
    once = time.perf_counter() - begin
    rounds = rounds or max(LEAST, min(MOST, int(SECONDS / max(once, 1e-9))))
    wholes = []
    for _ in range(rounds):
        begin = time.perf_counter()
        runner(inputs)
        wholes.append(time.perf_counter() - begin)
    each: list[list[float]] = [[] for _ in calls]
    with runner.backend.running():
        for n in range(rounds + 1):
            marks = _marks(calls)
            if n:  # the first round finds the kernels' scratch memory untouched
                for times, a, b in zip(each, marks, marks[1:], strict=False):
                    times.append(b - a)
    return Timing(tuple(map(median, each)), median(wholes), rounds)


def _calls(runner: Runner) -> list[Any]:
    """Each step as a call by itself, in the memory that the runner has given it."""
    calls = []
    for step in runner.plan.steps:
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        run = runner.backend.prepare(step.node.op, ins, outs, step.node.attrs)
        arrays = tuple(map(runner.array, step.inputs)), tuple(map(runner.array, step.outputs))
        calls += runner.backend.strung([(run, *arrays)])
    return calls


def _marks(calls: list[Any]) -> list[float]:
    """The clock before the first step and after each one."""
    clock = time.perf_counter
    marks = [clock()]
    for call in calls:
        call()
        marks.append(clock())
    return marks
