"""Runs the steps of a part within its minutes; after each step the results are published anew."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from benchmarks.device.archive import write_archive
from benchmarks.device.processors import worker_count
from benchmarks.device.results_file import forget_failed
from benchmarks.device.state import (
    CACHE,
    CUT,
    FAILED,
    INTERRUPTED,
    PASSED,
    RUNNING,
    SITE,
    STAND_IN,
    TIMED_OUT,
    RunState,
    StepState,
)
from benchmarks.device.step import Step, describe_step
from benchmarks.device.summary import write_summary
from benchmarks.isolated_process import ROOT, run_isolated

#: seconds of each part, together 25 minutes
PART_SECONDS = {1: 240.0, 2: 420.0, 3: 480.0, 4: 180.0, 5: 180.0}
FIRST_SECONDS = 560.0  # of `PartRunner.run_first`, with the start of the script below 9.5 minutes
MAX_ATTEMPTS = 2  # of a step that was interrupted: it may be what interrupts
PUBLISH_SECONDS = 20.0  # during a long step
#: instead of the names of steps: those that have not passed, and all
NOT_PASSED, ALL = "failed", "all"


class Interrupted(Exception):
    """The process was asked to end."""


def step_environment(step: Step) -> dict[str, str]:
    """This process's variables, with the carried packages, and the caches of all libraries in the tree's ignored
    folder."""
    caches = {"CUPY_CACHE_DIR": "cupy", "PROTOTORCH_CACHE": "prototorch", "TORCHINDUCTOR_CACHE_DIR": "inductor",
              "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}  # fmt: skip
    kept = {name: str(CACHE / folder) for name, folder in caches.items()}
    path = os.pathsep.join([str(SITE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **kept, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **dict(step.environment)}


class PartRunner:
    """Runs parts; see the module's text.

    state: where results are kept. out: the folder that summary.md and results.tar.gz are written into. print_line:
    prints a line. slowdown: all limits are multiplied by it.

    Attributes:
        is_published: whether the summary and the archive could be written the last time.

    Raises OSError where ``out`` cannot be made.
    """

    def __init__(
        self,
        state: RunState,
        steps: Sequence[Step],
        out: Path,
        print_line: Callable[[str], None] = print,
        slowdown: float = 1.0,
    ):
        self.state, self.steps, self.out, self.print_line = state, steps, out, print_line
        self.slowdown = slowdown
        self.is_stand_in = bool(os.environ.get(STAND_IN))
        self.cores = worker_count(has_gpu=not self.is_stand_in)
        self.is_published = False
        self._published = 0.0
        self._problems: set[str] = set()
        out.mkdir(parents=True, exist_ok=True)

    def run(self, part: int, again: Iterable[str] = (), seconds: float | None = None) -> int:
        """Run what is left of a part; the number of its steps that have not passed.

        again: names of steps that are run although they ended before, `NOT_PASSED` or `ALL`: of a step that resumes,
        `NOT_PASSED` runs what failed in it. seconds: default: `PART_SECONDS`.
        """
        limits = {step.name: step.limit for step in self.steps if step.part == part}
        return self._run_steps(limits, again, PART_SECONDS[part] * self.slowdown if seconds is None else seconds)

    def run_first(self, limits: Mapping[str, float], again: Iterable[str] = (), seconds: float | None = None) -> int:
        """Run steps of any part in the order of ``limits``, each for so many seconds at most; what they find counts for
        their parts. The number of steps that have not passed. again, seconds: as of `run`."""
        return self._run_steps(limits, again, FIRST_SECONDS * self.slowdown if seconds is None else seconds)

    def _run_steps(self, limits: Mapping[str, float], again: Iterable[str], seconds: float) -> int:
        again = frozenset(again)
        self._mark_killed()
        end = time.monotonic() + seconds
        steps = {step.name: step for step in self.steps}
        before = signal.signal(signal.SIGTERM, _raise_interrupted)
        try:
            for name, limit in limits.items():
                if not self._run_step(steps[name], limit, end, again) and steps[name].required:
                    self.print_line(f"this ends here: nothing after {name} tells anything without it")
                    break
        finally:
            signal.signal(signal.SIGTERM, before)
            self.publish()
        return sum(not self._has_passed(steps[name]) for name in limits)

    def publish(self) -> None:
        """Write the summary and the archive; what cannot be written is a line, once, as the results are kept anyway."""
        self._published = time.monotonic()
        problems = []
        for name, write in (("summary.md", self._write_summary), ("results.tar.gz", self._write_archive)):
            try:
                self.out.mkdir(parents=True, exist_ok=True)
                write(self.out / name)
            except OSError as error:
                problems.append(f"{name} could not be written: {error}; the results are in {self.state.folder}")
        for line in problems:
            if line not in self._problems:
                self.print_line(line)
        self._problems.update(problems)
        self.is_published = not problems

    def _write_summary(self, path: Path) -> None:
        write_summary(self.state, self.steps, path)

    def _write_archive(self, path: Path) -> None:
        write_archive(self.state.folder, path)

    def _mark_killed(self) -> None:
        """A step that was running when its script was killed was interrupted."""
        for step in self.steps:
            state = self.state.read(step.name)
            if state is not None and state.status == RUNNING:
                state.status = INTERRUPTED
                self.state.write(step.name, state)

    def _has_passed(self, step: Step) -> bool:
        state = self.state.read(step.name)
        return state is not None and state.status == PASSED

    def _run_step(self, step: Step, limit: float, end: float, again: Collection[str]) -> bool:
        """Run a step, for ``limit`` seconds at most, unless it has ended before; whether it has passed."""
        earlier = self.state.read(step.name)
        is_cleared = step.name in again or ALL in again
        is_failed = earlier is not None and earlier.status != PASSED
        is_again = is_cleared or (is_failed and NOT_PASSED in again)
        if earlier is not None and not is_again and not _is_open(step, earlier):
            self.print_line(f"{step.name}: {_describe_earlier(step, earlier)}")
            return earlier.status == PASSED
        limit = min(min(step.limit, limit) * self.slowdown, end - time.monotonic())
        is_shortened = limit < step.limit * self.slowdown
        if limit < step.least:
            self.print_line(f"{step.name}: not begun, {max(limit, 0):.0f} s are left and it needs {step.least:.0f}")
            return True
        folder = self.state.step_folder(step.name)
        if is_cleared or not step.resumes or earlier is None:  # only now: a step that is not begun loses nothing
            self.state.clear(step.name)
        elif is_again:
            forget_failed(folder / "results.jsonl")
        attempts = 1 + (earlier.attempts if earlier is not None and not is_again else 0)
        state = StepState(RUNNING, attempts=attempts)
        self.state.write(step.name, state)
        command = [sys.executable, *step.arguments(folder, limit, self.cores, self.is_stand_in)]
        self.print_line(f"{step.name}: {step.title} (at most {limit:.0f} s)")
        begin = time.monotonic()
        try:
            done = run_isolated(command, limit, step_environment(step), folder / "output.txt", self._publish_at_times)
            state.code = done.code
            state.status = FAILED if done.code else PASSED
            if done.code is None:
                state.status = CUT if is_shortened else TIMED_OUT
        except (Interrupted, KeyboardInterrupt):
            state.status = INTERRUPTED
            raise
        finally:
            state.seconds = round(time.monotonic() - begin, 1)
            self.state.write(step.name, state)
            for line in describe_step(step, folder):
                self.print_line(f"    {line}")
            self.print_line(f"  {step.name}: {state.status} after {state.seconds} s")
            self.publish()
        return state.status == PASSED

    def _publish_at_times(self) -> None:
        if time.monotonic() - self._published > PUBLISH_SECONDS:
            self.publish()


def _is_open(step: Step, state: StepState) -> bool:
    """Whether a step that was begun is to be run (again)."""
    if state.status in (RUNNING, INTERRUPTED):  # "running": the process that ran it was killed
        return state.attempts < MAX_ATTEMPTS or step.resumes
    if state.status == CUT:
        return True
    if step.required:  # short, and what it found may have been mended outside of the sources
        return state.status != PASSED
    return state.status == TIMED_OUT and step.resumes


def _describe_earlier(step: Step, state: StepState) -> str:
    """How a step that is not run (again) has ended."""
    if state.status == PASSED:
        return "passed before"
    if state.status in (RUNNING, INTERRUPTED):
        return f"interrupted {state.attempts} times (it may be what interrupts); --again {step.name} runs it"
    return f"{state.status} before; --again {step.name} runs it again"


def _raise_interrupted(number: int, frame: FrameType | None) -> None:
    raise Interrupted
