"""The loader: batches of a data set in an order that depends on seed and epoch alone, made ahead by threads."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from prototorch.data.batch import Batch, BatchContext, BatchTransform, cast_columns
from prototorch.data.dataset import Columns, Dataset, SampleError
from prototorch.data.ordered_pool import InlinePool, OrderedPool, closing
from prototorch.data.shuffling import permutation
from prototorch.data.split_batches import SplitBatches
from prototorch.errors import DataError, PrototorchError, UsageError

SMALL_BATCH_BYTES = 1 << 21  # bytes: moving less than this costs hardly more than handing it over from another thread
MAX_AUTO_THREADS = 8  # that are chosen unasked
ReadResult = tuple[
    Columns, np.ndarray, list[SampleError]
]  # columns, the samples kept, and what was wrong with the others


class Loader:
    """Batches of ``dataset``. Iterating gives the rest of the current epoch and then stands before the next one.

    The order of an epoch is a permutation that follows from (seed, epoch); the randomness a transform may use follows
    from (seed, epoch, position). So batches are the same bit for bit whatever the number of threads.

    Args:
        dataset: where the samples come from.
        batch_size: samples in a batch; the last one of an epoch may be smaller.
        shuffle: a new order each epoch; else the data set's order.
        seed: of the order and of the augmentation.
        epoch: the epoch to begin with.
        drop_last: leave out a last batch that is not full.
        threads: that read and transform ahead; 0 does it when a batch is asked for; None chooses, by ``work``.
        prefetch: how many finished batches may wait.
        transform: called with (columns, `BatchContext`) in the threads, gives the columns back; None leaves them.
        dtypes: element types the columns are converted to before the transform, by column.
        on_error: ``"fail"`` raises at the first sample that cannot be read, ``"skip"`` leaves it out and counts it.
        skip_limit: the fraction of the samples that may be left out before it is an error after all.
        timeout: seconds the reading of one batch may take in a thread.

    Attributes:
        waited: seconds spent waiting for batches so far.
        work: bytes that the transform of a whole batch moves, as far as is known; decides about threads.
        skipped: what was left out: index -> message.

    Raises:
        UsageError: an argument that makes no sense.
        DataError: the set is empty, or (with drop_last) smaller than a batch.
    """

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
        self.wait_seconds = 0.0
        self.skipped_samples: dict[int, str] = {}

    def __len__(self) -> int:
        """The number of batches in a whole epoch."""
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)

    @property
    def has_smaller_batches(self) -> bool:
        """Whether there are full batches and may be smaller ones."""
        count = len(self.dataset)
        rest = count % self.batch_size and not self.drop_last
        return count > self.batch_size and bool(rest or self.on_error == "skip")

    def __iter__(self) -> Iterator[Batch]:
        count, size = len(self.dataset), self.batch_size
        begin, end = self.position, len(self) * size
        order = permutation(count, self.seed, self.epoch) if self.shuffle else np.arange(count)
        epoch = self.epoch

        def samples(number: int, part: int) -> np.ndarray:
            position = begin + number * size
            batch = order[position : position + size]
            return batch if cuts == 1 else batch[part * len(batch) // cuts : (part + 1) * len(batch) // cuts]

        def finish(number: int, pieces: list[ReadResult]) -> Batch:
            return self._finish(self.seed, epoch, begin + number * size, pieces)

        def describe(piece: int) -> str:
            number, part = divmod(piece, cuts)
            return f"batch {begin // size + number} of epoch {epoch}, {self._samples(samples(number, part))}"

        threads = self._choose_threads() if self.threads is None else self.threads
        cuts = self._cuts(threads)
        batches = max(0, end - begin) // size
        work = SplitBatches(cuts, lambda number, part: self._read(samples(number, part)), finish)
        with closing(self._pool(work, batches * cuts, threads, describe)) as pool:
            for number in range(batches):
                asked = time.perf_counter()
                try:
                    batch = work.collect(pool.take)
                finally:
                    self.wait_seconds += time.perf_counter() - asked
                self._count_skipped(batch.errors)
                self.position = begin + (number + 1) * size
                if batch.num_samples:
                    yield batch
        self.epoch, self.position = epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """Where the loader stands, as plain numbers: what `restore` needs to go on exactly from here."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "samples": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            "skipped": sorted(self.skipped_samples),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from where ``state`` was taken. Raises DataError where the batches would not be the same ones."""
        here = self.state()
        for name in ("samples", "batch_size", "shuffle", "drop_last"):
            if state[name] != here[name]:
                raise DataError(
                    f"the training cannot go on exactly: {name} was {state[name]} and is now {here[name]} "
                    f"({self.dataset.name})"
                )
        self.seed, self.epoch, self.position = int(state["seed"]), int(state["epoch"]), int(state["position"])
        self.skipped_samples = {int(i): f"{self.dataset.origin(int(i))}: left out before" for i in state["skipped"]}

    def _read(self, indices: np.ndarray) -> ReadResult:
        """Some samples of a batch, and which of them there are."""
        try:
            if self.on_error == "skip":
                return self.dataset.read_valid(indices)
            return self.dataset.read(indices), indices, []
        except (PrototorchError, MemoryError):
            raise
        except Exception as error:
            raise self._failed(indices, error) from error

    def _finish(self, seed: int, epoch: int, position: int, pieces: list[ReadResult]) -> Batch:
        """The batch of what was read for it."""
        full = [piece for piece in pieces if len(piece[1])] or pieces[:1]
        columns, kept, _ = full[0]
        wrong = [error for piece in pieces for error in piece[2]]
        try:
            if len(full) > 1:
                columns = {name: np.concatenate([piece[0][name] for piece in full]) for name in columns}
                kept = np.concatenate([piece[1] for piece in full])
            place = BatchContext(seed, epoch, position, kept)
            if len(kept):
                columns = cast_columns(columns, self.dtypes)
                if self.transform is not None:
                    columns = self.transform(columns, place)
        except (PrototorchError, MemoryError):
            raise
        except Exception as error:
            raise self._failed(kept, error) from error
        return Batch(columns, place, wrong)

    def _failed(self, indices: np.ndarray, error: Exception) -> DataError:
        return DataError(f"{self._samples(indices)}: {type(error).__name__}: {error}")

    def _pool(
        self, work: Any, pieces: int, threads: int, describe: Any
    ) -> InlinePool[Batch | None] | OrderedPool[Batch | None]:
        if not threads:
            return InlinePool(work)
        ahead = self.prefetch * work.num_splits
        return OrderedPool(work, pieces, threads=threads, ahead=ahead, timeout=self.timeout, describe=describe)

    def _samples(self, indices: np.ndarray) -> str:
        if not len(indices):
            return f"no samples of {self.dataset.name}"
        return f"{len(indices)} samples from {self.dataset.origin(int(indices[0]))} on"

    def _count_skipped(self, wrong: list[SampleError]) -> None:
        for error in wrong:
            self.skipped_samples[error.index] = str(error)
        allowed = math.ceil(self.skip_limit * len(self.dataset))
        if len(self.skipped_samples) > allowed:
            shown = "\n".join(f"  {message}" for message in list(self.skipped_samples.values())[:5])
            raise DataError(
                f"{self.dataset.name}: {len(self.skipped_samples)} of {len(self.dataset):,} samples cannot be read, "
                f"more than the {allowed} that skip_limit {self.skip_limit:g} allows. The first ones:\n{shown}"
            )

    def _choose_threads(self) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        size = sum(spec.nbytes for spec in self.dataset.columns.values()) * self.batch_size
        if self.dataset.is_cheap and size + self.transform_bytes <= SMALL_BATCH_BYTES:
            return 0
        return min(self.dataset.max_threads or MAX_AUTO_THREADS, cores)

    def _cuts(self, threads: int) -> int:
        """How many pieces a batch is read in."""
        if threads < 2 or self.dataset.grain_size is None:
            return 1
        return max(1, min(threads, min(self.batch_size, len(self.dataset)) // self.dataset.grain_size))


def _check_minimum(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} is {value!r}; it must be a whole number, {least} or more")
