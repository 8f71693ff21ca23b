"""Workers of a data loader: each reads the batches that it is asked for, in a thread or in a process of its own.

The threads of both kinds are those of `prototorch.data.ordered_pool`: worker i runs in thread i, and a worker that has
a process hands each key to it and waits.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from prototorch.eager.random_keys import RandomKeys, default_keys
from prototorch.utils.data.dataset import IterableDataset
from prototorch.utils.data.fetch import BatchReader
from prototorch.utils.data.worker_info import WorkerInfo, inside_worker

__all__ = ["RemoteError", "ThreadWorker", "Worker", "WorkerTask", "raise_in_main"]


@dataclass(frozen=True)
class WorkerTask:
    """What all workers of a loader do. dataset, collate, is_batched, drop_last: as for `BatchReader`; num_workers;
    init: called with the worker's id when it starts, or None."""

    dataset: Any
    collate: Callable[[Any], Any]
    is_batched: bool
    drop_last: bool
    num_workers: int
    init: Callable[[int], Any] | None = None


class Worker(Protocol):
    """One worker. All methods are called by one thread, except `close`."""

    def begin(self, seed: int) -> None:
        """Begin an epoch whose random numbers have this seed."""

    def read(self, key: Any) -> Any:
        """The batch of a key, as `BatchReader.read`."""

    def close(self) -> None:
        """Stop at once; also while `read` runs in another thread."""


class ThreadWorker:
    """Reads in the calling thread. Of a stream it has a shallow copy of its own, as a process would have."""

    def __init__(self, task: WorkerTask, number: int):
        self._task, self._number = task, number
        self._keys = RandomKeys()
        self._info: WorkerInfo | None = None
        self._reader: BatchReader | None = None
        self._lock = threading.Lock()  # an epoch that was left may still be reading when the next one begins

    def begin(self, seed: int) -> None:
        """As `Worker.begin`; in the first epoch the loader's ``worker_init_fn`` is called."""
        task = self._task
        self._keys.restart(seed)
        is_first = self._info is None
        if self._info is None:
            dataset = copy.copy(task.dataset) if isinstance(task.dataset, IterableDataset) else task.dataset
            self._info = WorkerInfo(self._number, task.num_workers, seed, dataset)
        self._info.seed = seed
        with self._lock, inside_worker(self._info), default_keys.replaced_by(self._keys):
            if is_first and task.init is not None:
                task.init(self._number)
            self._reader = BatchReader(self._info.dataset, task.collate, task.is_batched, task.drop_last)

    def read(self, key: Any) -> Any:
        """As `Worker.read`."""
        assert self._info is not None
        assert self._reader is not None
        with self._lock, inside_worker(self._info), default_keys.replaced_by(self._keys):
            return self._reader.read(key)

    def close(self) -> None:
        """Does nothing: the pool stops the thread."""


class RemoteError(Exception):
    """An exception of a worker. kind: its class, or None where that cannot be sent; text: its traceback."""

    def __init__(self, kind: type[BaseException] | None, name: str, text: str):
        super().__init__(kind, name, text)
        self.kind, self.name, self.text = kind, name, text

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """The exception with its traceback as text."""
        lines = traceback.format_exception(error)
        return cls(type(error), type(error).__name__, "".join(lines))


def raise_in_main(error: RemoteError, where: str, cause: BaseException | None = None) -> NoReturn:
    """Raise a worker's exception, of its own class where that takes a message, with the traceback of the worker."""
    message = f"Caught {error.name} in {where}.\nOriginal {error.text}"
    exception: BaseException = RuntimeError(message)
    if error.kind is not None and not issubclass(error.kind, StopIteration):
        with contextlib.suppress(Exception):  # a class that takes other arguments
            exception = error.kind(KeyMessage(message) if issubclass(error.kind, KeyError) else message)
    try:
        raise exception from cause
    finally:
        del exception, cause  # the exception's traceback refers to this frame: it must not refer to the exception


class KeyMessage(str):
    """A message that KeyError, which prints the repr of its argument, prints as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
