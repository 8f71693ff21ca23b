"""Threads that run numbered tasks ahead of their use and deliver the results in order.

Read-ahead is bounded (at most ``read_ahead`` results wait), an exception is raised where its result would have been
delivered, and a task that takes too long, or a thread that has died, is an error instead of an endless wait.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from prototorch.engine.backends.cpu.worker_pool import single_threaded
from prototorch.errors import DataError

__all__ = ["InlinePool", "OrderedPool", "closing", "map_in_threads"]

A = TypeVar("A")
T = TypeVar("T")


class OrderedPool(Generic[T]):
    """``work(0), work(1), ... work(count - 1)``, run by threads; `take` returns the results in order.

    Args:
        work: runs one task.
        count: the number of tasks.
        threads: the number of threads, at least 1.
        read_ahead: the largest number of results that wait to be taken.
        timeout: seconds that one task may take.
        describe: the description of a task, for messages.
        round_robin: whether task i is run by thread i % threads; otherwise by the first thread that is free.
    """

    def __init__(
        self,
        work: Callable[[int], T],
        count: int,
        *,
        threads: int,
        read_ahead: int,
        timeout: float,
        describe: Callable[[int], str],
        round_robin: bool = False,
    ):
        self._work, self._count, self._window = work, count, threads + read_ahead
        self._timeout, self._describe = timeout, describe
        self._condition = threading.Condition()
        self._num_started = self._num_taken = 0
        self._running: dict[int, tuple[float, str]] = {}  # task -> start time, name of its thread
        self._results: dict[int, tuple[T | None, BaseException | None]] = {}
        self._is_closed = False
        num_threads = min(threads, count)
        self._own_tasks = list(range(num_threads)) if round_robin else None  # the next task of each thread
        self._threads = [
            threading.Thread(target=self._run, args=(i,), name=f"loader-{i}", daemon=True) for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> T:
        """The result of the next task. Raises what the task raised, or DataError if its result does not arrive."""
        with self._condition:
            number = self._num_taken
            while number not in self._results:
                start, thread_name = self._running.get(number, (None, ""))
                if start is not None and time.monotonic() - start >= self._timeout:
                    raise DataError(
                        f"the data loader's thread {thread_name} has been busy for {self._timeout:g} s with "
                        f"{self._describe(number)}; set timeout to a larger value if this is expected"
                    )
                if not any(thread.is_alive() for thread in self._threads):
                    raise DataError(f"the data loader's threads have ended before {self._describe(number)}")
                self._condition.wait(min(0.5, self._timeout))
            value, error = self._results.pop(number)
            self._num_taken += 1
            self._condition.notify_all()
        if error is not None:
            try:
                raise error
            finally:
                del error  # the exception's traceback refers to this frame: it must not refer to the exception
        return value  # type: ignore[return-value]

    def close(self, patience: float = 1.0) -> None:
        """Stop the threads; those still running after ``patience`` seconds are abandoned (they are daemons)."""
        with self._condition:
            self._is_closed = True
            self._results.clear()
            self._condition.notify_all()
        deadline = time.monotonic() + patience
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, thread: int) -> None:
        with single_threaded():  # the training step, which runs at the same time, uses the other threads
            self._run_tasks(thread)

    def _run_tasks(self, thread: int) -> None:
        while (number := self._claim(thread)) is not None:
            value, error = None, None
            try:
                value = self._work(number)
            except BaseException as caught:  # also SystemExit: it is raised where the result is taken
                error = caught
            with self._condition:
                self._running.pop(number, None)
                if self._is_closed:
                    return
                self._results[number] = (value, error)
                self._condition.notify_all()
            value, error = None, None  # an exception refers, by its traceback, to who took it

    def _claim(self, thread: int) -> int | None:
        """The next task of a thread, as soon as there is room for its result; None when there are no more."""
        with self._condition:
            while not self._is_closed:
                number = self._num_started if self._own_tasks is None else self._own_tasks[thread]
                if number >= self._count:
                    return None
                if number - self._num_taken < self._window:
                    self._num_started += 1
                    if self._own_tasks is not None:
                        self._own_tasks[thread] += len(self._threads)
                    self._running[number] = (time.monotonic(), threading.current_thread().name)
                    return number
                self._condition.wait()
            return None


class InlinePool(Generic[T]):
    """The interface of `OrderedPool` without threads: each task runs when its result is taken."""

    def __init__(self, work: Callable[[int], T]):
        self._work, self._num_taken = work, 0

    def take(self) -> T:
        """The result of the next task. Raises what the task raises."""
        self._num_taken += 1
        return self._work(self._num_taken - 1)

    def close(self) -> None:
        """Does nothing."""


def map_in_threads(work: Callable[[A], T], items: Sequence[A]) -> list[T]:
    """``work`` of each item, one thread per item. Raises the exception of the first item, in order, that fails."""
    pool = OrderedPool(
        lambda i: work(items[i]),
        len(items),
        threads=len(items),
        read_ahead=0,
        timeout=math.inf,
        describe=lambda i: f"{items[i]}",
    )
    with closing(pool):
        return [pool.take() for _ in items]


@contextlib.contextmanager
def closing(pool: OrderedPool[T] | InlinePool[T]) -> Iterator[OrderedPool[T] | InlinePool[T]]:
    """Close the pool on exit, also after an exception."""
    try:
        yield pool
    finally:
        pool.close()
