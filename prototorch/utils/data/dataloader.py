"""`DataLoader`, by PyTorch's name: the batches of a data set, read ahead by threads or processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prototorch.eager.generator import Generator, keys_of
from prototorch.errors import UsageError
from prototorch.utils.data.collate import default_collate, default_convert
from prototorch.utils.data.dataset import IterableDataset
from prototorch.utils.data.epoch import EndlessKeys, Epoch, WorkerSet
from prototorch.utils.data.pinned_memory import pin_memory
from prototorch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from prototorch.utils.data.worker import WorkerTask
from prototorch.utils.data.worker_process import process_context

__all__ = ["DataLoader"]

#: what is fixed once the loader exists
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """An iterable of batches; each iteration is an epoch. The batches come in one order for any number of workers.

    Args:
        dataset: a `Dataset` or anything with ``__getitem__`` and ``__len__``, or an `IterableDataset`.
        batch_size: samples in a batch; None: the data set gives batches, which are not collated.
        shuffle: whether each epoch has a new random order.
        sampler: an iterable of indices, in place of ``shuffle``.
        batch_sampler: an iterable of lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler``,
            ``drop_last``.
        num_workers: the number of workers that read ahead; 0 reads where a batch is requested.
        collate_fn: makes a batch of a list of samples; default: `default_collate`, without batches `default_convert`.
        pin_memory: whether batches are in memory that a GPU copies from faster, where there is a GPU.
        drop_last: whether a last batch that is not full is left out.
        timeout: seconds that one batch may take a worker; 0: any time.
        worker_init_fn: called in each worker with its number when it starts.
        multiprocessing_context: None: workers are threads of this process, which need neither pickling nor a copy of
            the data set. ``"spawn"``, ``"forkserver"``, ``"fork"`` or a context of `multiprocessing`: they are
            processes, for data sets that compute in Python. Everything that they are given must be picklable, except
            with ``"fork"``.
        generator: the source of the order and of the workers' seeds; default: that of `prototorch.manual_seed`.
        prefetch_factor: batches that each worker reads ahead; default 2.
        persistent_workers: whether workers live from one epoch to the next.
        pin_memory_device: accepted as in PyTorch where it is empty.
        in_order: accepted as in PyTorch; the order is kept in any case.

    An exception in a worker is raised where its batch would have been returned, as its own class, with the number of
    the worker and its traceback. The random numbers that prototorch draws in worker i have the seed
    ``get_worker_info().seed``, the epoch's seed + i; those of `random` and `numpy.random` are the process'.

    Raises:
        UsageError: arguments that exclude each other, or are wrong.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        if pin_memory_device:
            raise UsageError(
                f"pin_memory_device is {pin_memory_device!r}; pinned memory serves each GPU alike: leave it"
            )
        keys_of(generator)
        self.is_stream = isinstance(dataset, IterableDataset)
        if self.is_stream:
            _check_stream(shuffle, sampler, batch_sampler)
        elif not hasattr(dataset, "__getitem__"):
            raise UsageError(
                f"a data set has __getitem__ and __len__, or is an IterableDataset; got a {type(dataset).__name__}"
            )
        _check_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.pin_memory, self.timeout = dataset, num_workers, pin_memory, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.generator, self.in_order, self.pin_memory_device = generator, in_order, pin_memory_device
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers, self.drop_last = persistent_workers, drop_last
        if sampler is None:
            sampler = self._default_sampler(shuffle)
        self.batch_size: int | None = batch_size
        if batch_sampler is not None:
            self.batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._workers: WorkerSet | None = None
        self._is_complete = True

    def __iter__(self) -> Epoch:
        return Epoch(self, self._worker_set())

    def __len__(self) -> int:
        """The number of batches of an epoch. Raises TypeError where the data set or the sampler has no length."""
        if self.is_stream:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        keys: Any = self.keys
        return len(keys)

    @property
    def keys(self) -> Iterable[Any]:
        """The iterable of what each batch is read by: lists of indices, or indices."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "_is_complete", False):
            raise UsageError(f"{name} of a DataLoader is fixed when it is made: make another DataLoader")
        super().__setattr__(name, value)

    def task(self) -> WorkerTask:
        """What its workers do."""
        return WorkerTask(
            self.dataset,
            self.collate_fn,
            self.batch_sampler is not None,
            self.drop_last,
            self.num_workers,
            self.worker_init_fn,
        )

    def finish(self, batch: Any) -> Any:
        """A batch as the loop gets it."""
        return pin_memory(batch) if self.pin_memory else batch

    def _default_sampler(self, shuffle: bool | None) -> Iterable[Any]:
        if self.is_stream:
            return EndlessKeys()
        if not hasattr(self.dataset, "__len__"):
            raise UsageError(f"{type(self.dataset).__name__} has no __len__: give a sampler of its indices")
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def _worker_set(self) -> WorkerSet | None:
        if not self.num_workers:
            return None
        if self._workers is not None:
            return self._workers
        workers = WorkerSet(self.task(), self.multiprocessing_context)
        if self.persistent_workers:
            self._workers = workers
        return workers


def _check_workers(
    num_workers: Any, timeout: Any, prefetch_factor: Any, persistent_workers: bool, context: Any
) -> None:
    if not isinstance(num_workers, int) or num_workers < 0:
        raise UsageError(f"num_workers must be an integer of at least 0, got {num_workers!r}")
    if not timeout >= 0:
        raise UsageError(f"timeout must be at least 0 seconds, got {timeout}")
    if not num_workers and prefetch_factor is not None:
        raise UsageError("prefetch_factor is for workers: set num_workers above 0")
    if prefetch_factor is not None and (not isinstance(prefetch_factor, int) or prefetch_factor < 1):
        raise UsageError(f"prefetch_factor must be a positive integer, got {prefetch_factor!r}")
    if persistent_workers and not num_workers:
        raise UsageError("persistent_workers is for workers: set num_workers above 0")
    if context is not None:
        process_context(context)
        if not num_workers:
            raise UsageError("multiprocessing_context is for workers: set num_workers above 0")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle not in (None, False):
        raise UsageError("an IterableDataset gives its samples in its own order: leave shuffle, and shuffle in it")
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise UsageError(f"an IterableDataset gives its samples in its own order: leave {name}")


def _check_samplers(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if shuffle not in (None, False, True):
        raise UsageError(f"shuffle must be True, False or None, got {shuffle!r:.60}")
    if sampler is not None and shuffle:
        raise UsageError("sampler gives the order: leave shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise UsageError("batch_sampler gives whole batches: leave batch_size, shuffle, sampler and drop_last")
    if batch_size is None and drop_last:
        raise UsageError("batch_size=None: the data set gives batches, and drop_last has none to leave out")
