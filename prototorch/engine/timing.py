"""Timing a plan: each step by itself, and the whole as it runs in earnest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

from prototorch.engine.captured import CapturedRunner
from prototorch.engine.runner import Runner

LEAST, MOST, SECONDS = 3, 50, 2.0  # rounds, where nobody says how many: as many as fit in these seconds


class Piece(NamedTuple):
    """A piece of a run: an op of a layer (or what a device does beside them), and its seconds."""

    op: str
    scope: str
    phase: str
    seconds: float


class Timing(NamedTuple):
    """Medians over ``rounds``: of each piece run by itself, and the seconds of a whole run, which leaves out the first
    ``once`` pieces as long as no weight changes."""

    pieces: tuple[Piece, ...]
    whole: float
    rounds: int
    once: int


def timed(runner: Runner, inputs: Mapping[str, Any], rounds: int | None = None) -> Timing:
    """Time a bound plan; it is run a few times first, so that everything is compiled and all memory is touched.

    The pieces are run in their order, so that each finds in the caches what it would find there; between two of them
    the clock is read, which takes well under a microsecond. States change as in any run. Without ``rounds`` there are
    between 3 and 50, as many as fit in about two seconds. On a GPU the pieces are timed by its own clock.
    """
    for _ in range(4 if isinstance(runner, CapturedRunner) else 2):  # a GPU records its step in the third
        once = _whole(runner, inputs)
        if once > SECONDS:
            break
    rounds = rounds or max(LEAST, min(MOST, int(SECONDS / max(once, 1e-9))))
    whole = median(_whole(runner, inputs) for _ in range(rounds))
    if isinstance(runner, CapturedRunner):
        measure, left_out = _on_device(runner, inputs), 0
    else:
        measure, left_out = _on_host(runner), runner.plan.once
    measure()  # finds the kernels' scratch memory untouched
    each = [measure() for _ in range(rounds)]
    pieces = (group[0]._replace(seconds=median(p.seconds for p in group)) for group in zip(*each, strict=True))
    return Timing(tuple(pieces), whole, rounds, left_out)


def _whole(runner: Runner, inputs: Mapping[str, Any]) -> float:
    """Seconds until all outputs of a run can be read."""
    begin = time.perf_counter()
    for array in runner(inputs).values():
        runner.backend.to_numpy(array)
    return time.perf_counter() - begin


def _on_device(runner: CapturedRunner, inputs: Mapping[str, Any]) -> Callable[[], list[Piece]]:
    return lambda: [Piece(c.op, c.scope, c.phase, ms / 1e3) for c, ms in runner.times(inputs)]


def _on_host(runner: Runner) -> Callable[[], list[Piece]]:
    """Each step of the plan as a call by itself, in the memory that the runner has given it."""
    calls: list[Callable[[], None]] = []
    for step in runner.plan.steps:
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        run = runner.backend.prepare(step.node.op, ins, outs, step.node.attrs)
        arrays = tuple(map(runner.array, step.inputs)), tuple(map(runner.array, step.outputs))
        calls += runner.backend.strung([(run, *arrays)])
    nodes = [step.node for step in runner.plan.steps]

    def measure() -> list[Piece]:
        clock = time.perf_counter
        with runner.backend.running():
            marks = [clock()]
            for call in calls:
                call()
                marks.append(clock())
        spans = zip(nodes, marks, marks[1:], strict=False)
        return [Piece(n.op.name, n.scope, n.phase, (b - a) * (n.loop.times if n.loop else 1)) for n, a, b in spans]

    return measure
