"""A batch read in parts by several threads; the thread that reads the last part assembles the batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["SplitBatches"]

P = TypeVar("P")
B = TypeVar("B")


class SplitBatches(Generic[P, B]):
    """Splits each batch into ``num_splits`` tasks, numbered over all batches.

    Args:
        num_splits: tasks per batch.
        read: ``read(batch, part)`` reads one part of a batch; both count from 0.
        finish: ``finish(batch, parts)`` assembles a batch from its parts, in their order.
    """

    def __init__(self, num_splits: int, read: Callable[[int, int], P], finish: Callable[[int, list[P]], B]):
        self.num_splits = num_splits
        self._read, self._finish = read, finish
        self._lock = threading.Lock()
        self._pending: dict[int, dict[int, P]] = {}

    def __call__(self, task: int) -> B | None:
        """Run one task. The batch if this was its last missing part, else None."""
        batch, index = divmod(task, self.num_splits)
        part = self._read(batch, index)
        with self._lock:
            parts = self._pending.setdefault(batch, {})
            parts[index] = part
            if len(parts) < self.num_splits:
                return None
            del self._pending[batch]
        return self._finish(batch, [parts[i] for i in range(self.num_splits)])

    def collect(self, take: Callable[[], B | None]) -> B:
        """The next batch, from the results of its tasks as ``take`` returns them. Raises what ``take`` raises."""
        results = [take() for _ in range(self.num_splits)]
        return next(result for result in results if result is not None)
