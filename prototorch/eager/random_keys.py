"""Keys of random numbers: a seed, and a counter of the streams that were drawn from it.

Every random op and every shuffled order takes one key; the same seed and the same number of draws give the same key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from prototorch.data.shuffling import philox
from prototorch.eager.tracing import active_trace
from prototorch.errors import UsageError

__all__ = ["RandomKeys", "default_keys"]


class RandomKeys:
    """The keys (seed, 0), (seed, 1), ... one after another."""

    def __init__(self, seed: int = 0):
        self.seed, self.count = int(seed) & (2**64 - 1), 0

    def restart(self, seed: int) -> None:
        """Begin again with the first key of a seed; negative ones count modulo 2**64."""
        self.seed, self.count = int(seed) & (2**64 - 1), 0

    def next_pair(self) -> tuple[int, int]:
        """The next key as integers (seed, number of keys before it). Raises UsageError in a function that is traced."""
        if active_trace.get() is not None:
            raise UsageError(
                "a function that is traced (prototorch.compile) draws its random numbers by ops on tensors: numbers "
                "that NumPy draws would be the same ones at each call"
            )
        number, self.count = self.count, self.count + 1
        return self.seed, number

    def next_key(self) -> np.ndarray:
        """The next key, uint64 [2], as the random ops take it."""
        return np.array(self.next_pair(), np.uint64)

    def next_generator(self) -> np.random.Generator:
        """A NumPy generator of the next key."""
        return np.random.Generator(philox(*self.next_pair()))


class _DefaultKeys(RandomKeys):
    """The process' keys; in a thread that has keys of its own, those."""

    def __init__(self) -> None:
        self._process_keys, self._local = RandomKeys(), threading.local()

    @property
    def _current(self) -> RandomKeys:
        keys: RandomKeys = getattr(self._local, "keys", self._process_keys)
        return keys

    def restart(self, seed: int) -> None:
        self._current.restart(seed)

    @property
    def seed(self) -> int:
        return self._current.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._current.seed = seed

    @property
    def count(self) -> int:
        return self._current.count

    @count.setter
    def count(self, count: int) -> None:
        self._current.count = count

    @contextmanager
    def replaced_by(self, keys: RandomKeys) -> Iterator[None]:
        """A context in which everything random in this thread draws from these keys."""
        before = getattr(self._local, "keys", None)
        self._local.keys = keys
        try:
            yield
        finally:
            if before is None:
                del self._local.keys
            else:
                self._local.keys = before


#: the keys of everything random on tensors that no generator is given for; `manual_seed` restarts them
default_keys = _DefaultKeys()
