"""What watches the ops of a thread while they run: collections of applications, pack hooks, anomaly mode."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

__all__ = ["AnomalyMode", "Observers", "anomaly_mode", "caller_traceback", "observers", "use_observers"]


class AnomalyMode(NamedTuple):
    """That each op remembers where it was called. check_nan: whether a gradient that is not a number is an error."""

    check_nan: bool


class Observers(NamedTuple):
    """collections: lists that applications of ops are appended to. pack_hooks: what packs saved arrays, the last
    alone. anomaly: the mode, or None. hooks_refusal: why there may be no pack hooks, or None."""

    collections: tuple[list[Any], ...] = ()
    pack_hooks: tuple[Any, ...] = ()
    anomaly: AnomalyMode | None = None
    hooks_refusal: str | None = None


#: None where nothing watches
observers: ContextVar[Observers | None] = ContextVar("prototorch_observers", default=None)


def anomaly_mode() -> AnomalyMode | None:
    """The anomaly mode, or None."""
    watching = observers.get()
    return None if watching is None else watching.anomaly


@contextmanager
def use_observers(**changes: Any) -> Iterator[None]:
    """A context with other observers; those that are not named stay."""
    token = observers.set((observers.get() or Observers())._replace(**changes))
    try:
        yield
    finally:
        observers.reset(token)


def caller_traceback() -> str:
    """Where the op that runs was called, innermost last, without the package's own lines."""
    package = __name__.partition(".")[0]
    frames = [
        (frame, line)
        for frame, line in traceback.walk_stack(sys._getframe(1))
        if not str(frame.f_globals.get("__name__", "")).startswith(f"{package}.")
    ]
    summary = traceback.StackSummary.extract(reversed(frames))
    return "".join(summary.format())
