"""Several threads that do numbered pieces of work ahead of their use, handed over in order.

What the threads do is bounded (``ahead`` pieces wait at most), an exception arrives where its piece would have, and a
piece that takes too long, or a thread that is gone, is an error and not a wait without end.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from prototorch.backends.cpu.worker_pool import single_threaded
from prototorch.errors import DataError

A = TypeVar("A")
T = TypeVar("T")


class OrderedPool(Generic[T]):
    """``work(0), work(1), ... work(count - 1)``, done by threads, taken in order by `take`.

    Args:
        work: does one piece.
        count: the number of pieces.
        threads: how many at the same time; at least 1.
        ahead: how many finished pieces may wait.
        timeout: seconds one piece may take.
        describe: what a piece is, for messages.
    """

    def __init__(
        self,
        work: Callable[[int], T],
        count: int,
        *,
        threads: int,
        ahead: int,
        timeout: float,
        describe: Callable[[int], str],
    ):
        self._work, self._count, self._window = work, count, threads + ahead
        self._timeout, self._describe = timeout, describe
        self._changed = threading.Condition()
        self._started = self._taken = 0
        self._since: dict[int, tuple[float, str]] = {}
        self._ready: dict[int, tuple[T | None, BaseException | None]] = {}
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"loader-{i}", daemon=True) for i in range(min(threads, count))
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> T:
        """The next piece. Raises what its work raised, or DataError where it does not come."""
        with self._changed:
            number = self._taken
            while number not in self._ready:
                begun, worker = self._since.get(number, (None, ""))
                if begun is not None and time.monotonic() - begun >= self._timeout:
                    raise DataError(
                        f"the data loader's thread {worker} has been busy for {self._timeout:g} s with "
                        f"{self._describe(number)}; a longer time-out can be given with timeout"
                    )
                if not any(thread.is_alive() for thread in self._threads):
                    raise DataError(f"the data loader's threads have ended before {self._describe(number)}")
                self._changed.wait(min(0.5, self._timeout))
            value, error = self._ready.pop(number)
            self._taken += 1
            self._changed.notify_all()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def close(self, patience: float = 1.0) -> None:
        """Stop the threads; those that have not ended after ``patience`` seconds are left behind (they are daemons)."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
        until = time.monotonic() + patience
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        with single_threaded():  # the step that runs at the same time has the other threads
            self._work_off()

    def _work_off(self) -> None:
        while (number := self._claim()) is not None:
            value, error = None, None
            try:
                value = self._work(number)
            except BaseException as caught:  # also SystemExit: it belongs to whoever takes the piece
                error = caught
            with self._changed:
                self._since.pop(number, None)
                if self._stopped:
                    return
                self._ready[number] = (value, error)
                self._changed.notify_all()

    def _claim(self) -> int | None:
        with self._changed:
            while not self._stopped and self._started < self._count and self._started - self._taken >= self._window:
                self._changed.wait()
            if self._stopped or self._started >= self._count:
                return None
            number = self._started
            self._started += 1
            self._since[number] = (time.monotonic(), threading.current_thread().name)
            return number


class InlinePool(Generic[T]):
    """The same face without threads: each piece is done when it is taken."""

    def __init__(self, work: Callable[[int], T]):
        self._work, self._taken = work, 0

    def take(self) -> T:
        """The next piece. Raises what its work raises."""
        self._taken += 1
        return self._work(self._taken - 1)

    def close(self) -> None:
        """Nothing to stop."""


def map_in_threads(work: Callable[[A], T], items: Sequence[A]) -> list[T]:
    """The work on each item, done in threads at the same time. Raises what the first one in order raises."""
    pool = OrderedPool(
        lambda i: work(items[i]),
        len(items),
        threads=len(items),
        ahead=0,
        timeout=math.inf,
        describe=lambda i: f"{items[i]}",
    )
    with closing(pool):
        return [pool.take() for _ in items]


@contextlib.contextmanager
def closing(pool: OrderedPool[T] | InlinePool[T]) -> Iterator[OrderedPool[T] | InlinePool[T]]:
    """Close the pool on the way out, whatever happens."""
    try:
        yield pool
    finally:
        pool.close()
