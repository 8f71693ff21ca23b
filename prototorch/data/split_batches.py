"""A batch read in pieces by several threads: the one that reads the last piece puts the batch together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
T = TypeVar("T")


class SplitBatches(Generic[Piece, T]):
    """Turns numbered pieces of work into numbered things that consist of ``cuts`` pieces each.

    Args:
        cuts: how many pieces one thing has.
        read: makes the piece of a thing, both counted from 0.
        finish: makes a thing of its pieces, in their order.
    """

    def __init__(self, num_splits: int, read: Callable[[int, int], Piece], finish: Callable[[int, list[Piece]], T]):
        self.num_splits = num_splits
        self._read, self._finish = read, finish
        self._lock = threading.Lock()
        self._held: dict[int, dict[int, Piece]] = {}

    def __call__(self, number: int) -> T | None:
        """Do a piece of work (counted over all things); the thing, where this was the last piece missing."""
        thing, part = divmod(number, self.num_splits)
        piece = self._read(thing, part)
        with self._lock:
            held = self._held.setdefault(thing, {})
            held[part] = piece
            if len(held) < self.num_splits:
                return None
            del self._held[thing]
        return self._finish(thing, [held[i] for i in range(self.num_splits)])

    def collect(self, take: Callable[[], T | None]) -> T:
        """The next thing, out of the results of its pieces as ``take`` hands them over. Raises what ``take`` raises."""
        found = [one for one in [take() for _ in range(self.num_splits)] if one is not None]
        return found[0]
