"""Wall-clock time of a training by purpose."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

__all__ = ["CALLBACKS", "DATA", "EPOCH_PURPOSES", "EVALUATE", "OPEN", "PREPARE", "SAVE", "START", "STEPS", "VALIDATION",
           "Profiler", "data_wait_share", "epoch_seconds", "format_table"]  # fmt: skip

#: the purposes, in the order in which they are shown
OPEN, PREPARE, DATA, STEPS, VALIDATION, CALLBACKS = "open", "prepare", "data", "steps", "validation", "callbacks"
START, SAVE, EVALUATE = "start", "save", "evaluate"
EPOCH_PURPOSES = (PREPARE, DATA, STEPS, VALIDATION, CALLBACKS)
DESCRIPTIONS = {
    START: "starting",
    OPEN: "opening and checking the data",
    PREPARE: "planning and compiling the step",
    DATA: "waiting for data",
    STEPS: "training steps",
    VALIDATION: "validation",
    CALLBACKS: "callbacks and snapshots",
    SAVE: "saving the model",
    EVALUATE: "evaluating the saved model",
}


class Profiler:
    """Seconds by purpose: ``with profiler("steps"): ...``. Purposes nest: time counts for the innermost one."""

    def __init__(self) -> None:
        self.start_time = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = self.start_time

    def __call__(self, purpose: str) -> Profiler:
        """Count for a purpose from now on; leaving the ``with`` returns to the outer one."""
        self._charge()
        self._running.append(purpose)
        return self

    def __enter__(self) -> Profiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._charge()
        self._running.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._running:
            purpose = self._running[-1]
            self.seconds[purpose] = self.seconds.get(purpose, 0.0) + now - self._since
        self._since = now

    def totals(self) -> dict[str, float]:
        """The seconds so far by purpose; ``total``: since the profiler was made."""
        self._charge()
        return {**self.seconds, "total": self._since - self.start_time}


def epoch_seconds(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The seconds of an epoch by purpose, and their total, from `Profiler.totals` before and after it."""
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in (*EPOCH_PURPOSES, "total")}


def data_wait_share(seconds: Mapping[str, float]) -> float:
    """The share of training (steps, and waiting for their data) that was spent waiting, from 0 to 1."""
    waiting = seconds.get(DATA, 0.0)
    spent = waiting + seconds.get(STEPS, 0.0)
    return waiting / spent if spent else 0.0


def format_table(seconds: Mapping[str, float]) -> str:
    """A table with a line for each purpose: seconds and share of the total; "the rest" is time without a purpose."""
    total = seconds["total"]
    rows = [(text, seconds[purpose]) for purpose, text in DESCRIPTIONS.items() if purpose in seconds]
    rows += [("the rest", total - sum(spent for _, spent in rows)), ("all", total)]
    width = max(len(text) for text, _ in rows)
    return "\n".join(f"{text:{width}} {spent:9.3f} s {spent / max(total, 1e-9):7.1%}" for text, spent in rows)
