"""``Timer``: the time between two points of a script."""

from __future__ import annotations

import time

__all__ = ["Timer"]


class Timer:
    """Measures wall-clock time: `start`, then `stop`, then `ms` (pycaffe's Timer)."""

    def __init__(self) -> None:
        self._begin: float | None = None
        self._seconds = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._begin = time.perf_counter()

    def stop(self) -> None:
        """End the measurement."""
        if self._begin is not None:
            self._seconds, self._begin = time.perf_counter() - self._begin, None

    @property
    def ms(self) -> float:
        """Milliseconds from `start` to `stop`, or to now while it runs; 0 before the first start."""
        return 1e3 * (self._seconds if self._begin is None else time.perf_counter() - self._begin)
