"""One epoch of a data loader: its keys, in their order, and the batches that the workers make of them."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from prototorch.data.ordered_pool import OrderedPool
from prototorch.utils.data.fetch import END, BatchReader
from prototorch.utils.data.sampler import Sampler, draw_seed
from prototorch.utils.data.worker import RemoteError, ThreadWorker, Worker, WorkerTask, raise_in_main
from prototorch.utils.data.worker_process import ProcessWorker, process_context

__all__ = ["EndlessKeys", "Epoch", "WorkerSet"]


class EndlessKeys(Sampler[None]):
    """The keys of a stream, which has no indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class WorkerSet:
    """The workers of a loader: threads, or processes where there is a context. They end with this object."""

    def __init__(self, task: WorkerTask, context: Any):
        self.kind = "thread" if context is None else "process"
        self.workers: list[Worker] = []
        self.close = weakref.finalize(self, close_workers, self.workers)
        for number in range(task.num_workers):
            self.workers.append(
                ThreadWorker(task, number) if context is None else ProcessWorker(task, number, process_context(context))
            )


def close_workers(workers: list[Worker]) -> None:
    """End the threads or processes of the workers."""
    for worker in workers:
        worker.close()


class _SharedKeys:
    """The keys of an epoch by number, for threads: they are drawn in order, each once."""

    def __init__(self, keys: Iterator[Any]):
        self._keys, self._lock = keys, threading.Lock()
        self._waiting: dict[int, Any] = {}
        self._num_drawn = 0

    def take(self, number: int) -> Any:
        """The key of a batch, or `END`. Each is taken once."""
        with self._lock:
            while self._num_drawn <= number:
                self._waiting[self._num_drawn] = next(self._keys, END)
                self._num_drawn += 1
            return self._waiting.pop(number)


class _Work:
    """The tasks of an epoch's pool: task n is the n-th batch, read by worker n % num_workers. It knows no `Epoch`, so
    that an iterator that is dropped in the middle ends its workers."""

    def __init__(self, workers: list[Worker], keys: Iterator[Any], seed: int, kind: str):
        self._workers, self._keys, self._seed, self._kind = workers, _SharedKeys(keys), seed, kind
        self._has_begun = [False] * len(workers)
        self._has_ended = [False] * len(workers)

    def __call__(self, number: int) -> Any:
        """The batch, or `END` where its worker has no more."""
        index = number % len(self._workers)
        if self._has_ended[index]:
            return END
        key = self._keys.take(number)
        if key is END:
            return END
        try:
            if not self._has_begun[index]:
                self._workers[index].begin(self._seed + index)
                self._has_begun[index] = True
            batch = self._workers[index].read(key)
        except RemoteError as error:
            raise_in_main(error, f"DataLoader worker process {index}")
        except Exception as error:
            if self._kind == "process":
                raise
            raise_in_main(RemoteError.of(error), f"DataLoader worker thread {index}", error)
        self._has_ended[index] = batch is END
        return batch


class Epoch(Iterator[Any]):
    """The iterator over a loader's batches. Workers stop when it ends, is closed, or is no longer referred to."""

    def __init__(self, loader: Any, workers: WorkerSet | None):
        self._loader, self._is_done, self._number = loader, False, 0
        self._ended: set[int] = set()
        self._pool: OrderedPool[Any] | None = None
        seed = draw_seed(loader.generator)
        keys = iter(loader.keys)
        if workers is None:
            self._keys, task = keys, loader.task()
            self._reader = BatchReader(task.dataset, task.collate, task.is_batched, task.drop_last)
            return
        self._num_workers = len(workers.workers)
        self._pool = OrderedPool(
            _Work(workers.workers, keys, seed, workers.kind),
            sys.maxsize,
            threads=self._num_workers,
            read_ahead=(loader.prefetch_factor - 1) * self._num_workers,
            timeout=loader.timeout or math.inf,
            describe=lambda number: f"batch {number}",
            round_robin=True,
        )
        owned = None if loader.persistent_workers else workers
        self._finalizer = weakref.finalize(self, _close, self._pool, owned)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        if self._is_done:
            raise StopIteration
        try:
            batch = self._read() if self._pool is None else self._take(self._pool)
        except StopIteration as error:
            raise RuntimeError(f"the data set has raised StopIteration: {error}") from error
        except (KeyboardInterrupt, SystemExit):
            self.close()
            raise
        if batch is END:
            self.close()
            raise StopIteration
        return self._loader.finish(batch)

    def close(self) -> None:
        """End the epoch and, unless they are persistent, the workers. Later calls do nothing."""
        self._is_done = True
        if self._pool is not None:
            self._finalizer()

    def _read(self) -> Any:
        key = next(self._keys, END)
        return END if key is END else self._reader.read(key)

    def _take(self, pool: OrderedPool[Any]) -> Any:
        """The next batch. One worker of a stream may end before the others."""
        while len(self._ended) < self._num_workers:
            worker = self._number % self._num_workers
            self._number += 1
            batch = pool.take()
            if batch is not END:
                return batch
            if not self._loader.is_stream:
                break
            self._ended.add(worker)
        return END


def _close(pool: OrderedPool[Any], workers: WorkerSet | None) -> None:
    if workers is not None:
        workers.close()
    pool.close()
