"""The loader: batches of a data set in an order that depends only on seed and epoch, read ahead by threads."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.data.batch import Batch, BatchContext, BatchIterator, BatchTransform, cast_columns
from prototorch.data.batch_assembly import BatchAssembly, BatchMemory
from prototorch.data.buckets import Buckets
from prototorch.data.dataset import Columns, Dataset, SampleError
from prototorch.data.fingerprint import check_fingerprint, fingerprint
from prototorch.data.ordered_pool import InlinePool, OrderedPool, closing
from prototorch.data.shuffling import permutation
from prototorch.data.split_batches import SplitBatches
from prototorch.errors import DataError, PrototorchError, UsageError
from prototorch.spec import Spec

__all__ = ["MAX_AUTO_THREADS", "SMALL_BATCH_BYTES", "Loader"]

SMALL_BATCH_BYTES = 1 << 21  # bytes; copying less than this costs about as much as a hand-over between threads
MAX_AUTO_THREADS = 8  # the largest number of threads chosen for ``threads=None``
ReadResult = tuple[Columns, np.ndarray, list[SampleError]]  # columns, the indices read, the errors of the others


class Loader(BatchIterator):
    """Iterator over the batches of ``dataset``: the rest of the current epoch, then the loader is at the next epoch.

    The order of an epoch is a permutation determined by (seed, epoch); the randomness of a transform is determined by
    (seed, epoch, position). Batches are therefore bit-identical for any number of threads.

    Args:
        dataset: the source of the samples.
        batch_size: samples per batch; the last batch of an epoch may be smaller.
        shuffle: whether each epoch has a new order; otherwise the data set's order.
        seed: seed of the order and of the augmentation.
        epoch: the first epoch.
        drop_last: whether to drop a last batch that is not full.
        threads: the number of threads that read and transform ahead; 0 reads when a batch is requested; None chooses,
            by ``transform_bytes``.
        prefetch: the largest number of finished batches that wait.
        transform: called in the threads as ``transform(columns, context)`` with a `BatchContext`, returns the columns.
        dtypes: column -> dtype that it is cast to before the transform.
        on_error: ``"fail"`` raises at the first sample that cannot be read, ``"skip"`` leaves it out and counts it.
        skip_limit: the largest fraction of the samples that ``"skip"`` may leave out.
        timeout: seconds that a thread may take to read one batch.
        buckets: rising lengths: the samples of a batch have similar lengths, and are padded to the next one; see
            `prototorch.data.buckets`. Empty: each batch holds samples of any length.

    Attributes:
        wait_seconds: seconds spent waiting for batches so far.
        transform_bytes: estimated bytes that the transform of one batch moves; used to choose the number of threads.
        skipped_samples: index -> message of each sample left out.
        batch_memory: in which the large columns of a batch are assembled, such as memory that a GPU copies from; None:
            ordinary memory.

    Raises:
        UsageError: an invalid argument.
        DataError: the set is empty, or (with drop_last) smaller than a batch.
    """

    state_kind = "Loader"  #: identifies the format of `state` in saved files

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 32,
        *,
        shuffle: bool = True,
        seed: int = 0,
        epoch: int = 0,
        drop_last: bool = False,
        threads: int | None = None,
        prefetch: int = 2,
        transform: BatchTransform | None = None,
        dtypes: Mapping[str, str] | None = None,
        on_error: str = "fail",
        skip_limit: float = 0.05,
        timeout: float = 120.0,
        buckets: Sequence[int] = (),
    ):
        _check_minimum("batch_size", batch_size, 1)
        _check_minimum("prefetch", prefetch, 0)
        if threads is not None:
            _check_minimum("threads", threads, 0)
        if on_error not in ("fail", "skip"):
            raise UsageError(f"on_error is {on_error!r}; it must be 'fail' or 'skip'")
        if not 0 <= skip_limit <= 1:
            raise UsageError(f"skip_limit is {skip_limit}; it must lie between 0 and 1")
        if not timeout > 0:
            raise UsageError(f"timeout is {timeout}; it must be more than 0 seconds")
        if not len(dataset):
            raise DataError(f"{dataset.name}: the data set is empty")
        if drop_last and len(dataset) < batch_size:
            raise DataError(
                f"{dataset.name}: {len(dataset)} samples do not fill a batch of {batch_size}, "
                "and drop_last leaves out what is not full"
            )
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.seed, self.epoch, self.position = seed, epoch, 0
        self.prefetch, self.transform, self.dtypes = prefetch, transform, dict(dtypes or {})
        self.on_error, self.skip_limit, self.timeout = on_error, skip_limit, timeout
        self.threads, self.transform_bytes = threads, 0
        self.buckets = Buckets(dataset, buckets) if len(buckets) else None
        self.wait_seconds = 0.0
        self.skipped_samples: dict[int, str] = {}
        self.batch_memory: BatchMemory | None = None
        self._fingerprint: dict[str, Any] | None = None

    def __len__(self) -> int:
        """The number of batches per epoch."""
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)

    def num_batches(self) -> int | None:
        return len(self)

    @property
    def has_smaller_batches(self) -> bool:
        """Whether an epoch has full batches and may have smaller ones, of the same length."""
        count = len(self.dataset)
        if self.buckets is not None:
            return False
        remainder = count % self.batch_size and not self.drop_last
        return count > self.batch_size and bool(remainder or self.on_error == "skip")

    def __iter__(self) -> Iterator[Batch]:
        count, size = len(self.dataset), self.batch_size
        first, end = self.position, len(self) * size
        order = permutation(count, self.seed, self.epoch) if self.shuffle else np.arange(count)
        epoch, buckets = self.epoch, self.buckets
        chunks: list[tuple[np.ndarray, int]] = []
        if buckets is not None:
            key = (self.seed, epoch) if self.shuffle else None
            chunks = buckets.batches(order, size, self.drop_last, key)[first // size :]

        def indices_of(number: int, part: int) -> np.ndarray:
            position = first + number * size
            batch = order[position : position + size] if buckets is None else chunks[number][0]
            if splits == 1:
                return batch
            return batch[part * len(batch) // splits : (part + 1) * len(batch) // splits]

        def finish(number: int, parts: list[ReadResult]) -> Batch:
            length = None if buckets is None else chunks[number][1]
            placed = {} if assembly is None else assembly.take(number, [part[0] for part in parts])
            batch = self._finish(self.seed, epoch, first + number * size, parts, length, placed)
            if assembly is not None:
                batch.update(assembly.move(batch))
            return batch

        def describe(task: int) -> str:
            number, part = divmod(task, splits)
            return f"batch {first // size + number} of epoch {epoch}, {self._describe(indices_of(number, part))}"

        def read(number: int, part: int) -> ReadResult:
            if assembly is None or not reads_in_place:
                return self._read(indices_of(number, part))
            samples = len(chunks[number][0]) if buckets is not None else min(size, count - first - number * size)
            start, stop = part * samples // splits, (part + 1) * samples // splits
            return self._read(indices_of(number, part), assembly.rows(number, samples, start, stop))

        memory = self.batch_memory
        assembly = None if memory is None else BatchAssembly(memory, self._columns_in_place())
        reads_in_place = self.on_error == "fail" and self.transform is None and buckets is None
        threads = self._choose_threads() if self.threads is None else self.threads
        splits = self._num_splits(threads)
        batches = max(0, end - first) // size
        work = SplitBatches(splits, read, finish)
        with closing(self._make_pool(work, batches * splits, threads, describe)) as pool:
            for number in range(batches):
                start = time.perf_counter()
                try:
                    batch = work.collect(pool.take)
                finally:
                    self.wait_seconds += time.perf_counter() - start
                self._count_skipped(batch.errors)
                self.position = first + (number + 1) * size
                if batch.num_samples:
                    yield batch
        self.epoch, self.position = epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """The loader's position as JSON values, from which `restore` continues exactly."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "samples": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            **({} if self.buckets is None else {"buckets": [int(b) for b in self.buckets.boundaries]}),
            "skipped": sorted(self.skipped_samples),
            "data": self.fingerprint(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``. Raises DataError if the batches would differ from those of the interrupted run."""
        current = self.state()
        for name in ("samples", "batch_size", "shuffle", "drop_last", "buckets"):
            saved, now = state.get(name, []), current.get(name, [])
            if saved != now:
                raise DataError(
                    f"{self.dataset.name}: the training cannot be resumed exactly: {name} was {saved} and is now {now}"
                )
        if "data" in state:
            self.check_unchanged(state["data"])
        elif self.dataset.is_sampled:
            raise DataError(
                f"{self.dataset.name}: the training cannot be resumed exactly: its snapshot is of an older version, "
                "which drew other samples for validation_split or limit. Begin a new training: run without --resume, "
                "or fit(resume=False)"
            )
        self.seed, self.epoch, self.position = int(state["seed"]), int(state["epoch"]), int(state["position"])
        origins = {int(index): self.dataset.origin(int(index)) for index in state["skipped"]}
        self.skipped_samples = {i: f"{origin}: skipped before the run was resumed" for i, origin in origins.items()}

    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of the data set, which is taken once: see `prototorch.data.fingerprint`."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.dataset)
        return self._fingerprint

    def check_unchanged(self, saved: Mapping[str, Any], what: str = "samples") -> None:
        """Raise DataError, with both sides, if the data set is not the one of a saved fingerprint."""
        check_fingerprint(self.dataset, saved, what)
        self._fingerprint = dict(saved)

    def _columns_in_place(self) -> dict[str, Spec]:
        """The columns of a batch that can be read in place: those that are not cast afterwards."""
        return {name: spec for name, spec in self.dataset.columns.items() if name not in self.dtypes}

    def _read(self, indices: np.ndarray, outs: Columns | None = None) -> ReadResult:
        """Read the samples with these indices, a part of a batch; outs: see `Dataset.read_into`."""
        try:
            if outs:
                return self.dataset.read_into(indices, outs), indices, []
            if self.on_error == "skip":
                return self.dataset.read_valid(indices)
            return self.dataset.read(indices), indices, []
        except SampleError as error:
            hint = "; data { on_error: skip } leaves out what cannot be read, and counts it"
            raise SampleError(f"{error}{hint}", error.index, error.origin) from None
        except (PrototorchError, MemoryError):
            raise
        except Exception as error:
            raise self._read_error(indices, error) from error

    def _finish(
        self,
        seed: int,
        epoch: int,
        position: int,
        parts: list[ReadResult],
        length: int | None = None,
        placed: Columns | None = None,
    ) -> Batch:
        """Concatenate the parts of a batch, cut its sequences to a length, cast and transform it. placed: the columns
        whose parts lie side by side already."""
        nonempty = [part for part in parts if len(part[1])] or parts[:1]
        columns, indices, _ = nonempty[0]
        errors = [error for part in parts for error in part[2]]
        try:
            if len(nonempty) > 1:
                columns = {n: np.concatenate([p[0][n] for p in nonempty]) for n in columns if n not in (placed or {})}
                indices = np.concatenate([part[1] for part in nonempty])
            columns = {**columns, **(placed or {})}
            if self.buckets is not None and length is not None:
                columns = self.buckets.trim(columns, length)
            context = BatchContext(seed, epoch, position, indices)
            if len(indices):
                columns = cast_columns(columns, self.dtypes)
                if self.transform is not None:
                    columns = self.transform(columns, context)
        except (PrototorchError, MemoryError):
            raise
        except Exception as error:
            raise self._read_error(indices, error) from error
        return Batch(columns, context, errors)

    def _read_error(self, indices: np.ndarray, error: Exception) -> DataError:
        return DataError(f"{self._describe(indices)}: {type(error).__name__}: {error}")

    def _make_pool(
        self,
        work: SplitBatches[ReadResult, Batch],
        tasks: int,
        threads: int,
        describe: Callable[[int], str],
    ) -> InlinePool[Batch | None] | OrderedPool[Batch | None]:
        if not threads:
            return InlinePool(work)
        read_ahead = self.prefetch * work.num_splits
        return OrderedPool(work, tasks, threads=threads, read_ahead=read_ahead, timeout=self.timeout, describe=describe)

    def _describe(self, indices: np.ndarray) -> str:
        if not len(indices):
            return f"no samples of {self.dataset.name}"
        return f"{len(indices)} samples from {self.dataset.origin(int(indices[0]))} on"

    def _count_skipped(self, errors: list[SampleError]) -> None:
        for error in errors:
            self.skipped_samples[error.index] = str(error)
        num_skipped, limit = len(self.skipped_samples), math.ceil(self.skip_limit * len(self.dataset))
        if num_skipped > limit:
            examples = "\n".join(f"  {message}" for message in list(self.skipped_samples.values())[:5])
            raise DataError(
                f"{self.dataset.name}: {num_skipped} of {len(self.dataset):,} samples cannot be read, more than the "
                f"{limit} that skip_limit {self.skip_limit:g} allows. The first ones:\n{examples}"
            )

    def _choose_threads(self) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        size = sum(spec.nbytes for spec in self.dataset.columns.values()) * self.batch_size
        if self.dataset.is_cheap and size + self.transform_bytes <= SMALL_BATCH_BYTES:
            return 0
        return min(self.dataset.max_threads or MAX_AUTO_THREADS, cores)

    def _num_splits(self, threads: int) -> int:
        """The number of parts in which a batch is read."""
        if threads < 2 or self.dataset.grain_size is None:
            return 1
        return max(1, min(threads, min(self.batch_size, len(self.dataset)) // self.dataset.grain_size))


def _check_minimum(name: str, value: int, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise UsageError(f"{name} is {value!r}; it must be an integer of at least {minimum}")
