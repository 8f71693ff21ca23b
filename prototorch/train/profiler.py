"""Where the time of a training goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

#: what the time of a fit is spent on, in the order it is shown
OPEN, PREPARE, DATA, STEPS, VALIDATION, CALLBACKS = "open", "prepare", "data", "steps", "validation", "callbacks"
START, SAVE = "start", "save"
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
}


class Profiler:
    """Seconds by purpose: ``with clock("steps"): ...``. Purposes nest: the time of an inner one counts for it alone."""

    def __init__(self) -> None:
        self.start_time = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = self.start_time

    def __call__(self, purpose: str) -> Profiler:
        """Begin to count for a purpose; leaving the ``with`` goes back to the one before."""
        self._charge()
        self._running.append(purpose)
        return self

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self._charge()
        self._running.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._running:
            purpose = self._running[-1]
            self.seconds[purpose] = self.seconds.get(purpose, 0.0) + now - self._since
        self._since = now

    def totals(self) -> dict[str, float]:
        """The seconds so far; ``total`` since the clock was made."""
        self._charge()
        return {**self.seconds, "total": self._since - self.start_time}


def epoch_seconds(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The seconds of an epoch, from one `Clock.totals` to a later one: of each purpose there is in it, and in all."""
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in (*EPOCH_PURPOSES, "total")}


def data_wait_share(seconds: Mapping[str, float]) -> float:
    """The share of the training itself (steps and what they waited for) that was spent waiting for data, 0..1."""
    waited = seconds.get(DATA, 0.0)
    spent = waited + seconds.get(STEPS, 0.0)
    return waited / spent if spent else 0.0


def format_table(seconds: Mapping[str, float]) -> str:
    """A line for each purpose: seconds and share of the total; what no purpose was named for is "the rest"."""
    total = seconds["total"]
    rows = [(text, seconds[purpose]) for purpose, text in DESCRIPTIONS.items() if purpose in seconds]
    rows += [("the rest", total - sum(spent for _, spent in rows)), ("all", total)]
    width = max(len(text) for text, _ in rows)
    return "\n".join(f"{text:{width}} {spent:9.3f} s {spent / max(total, 1e-9):7.1%}" for text, spent in rows)
