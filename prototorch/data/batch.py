"""A batch of samples, and its position in the training run, which seeds all of its randomness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from prototorch.data.batch_assembly import BatchMemory
from prototorch.data.dataset import Columns, SampleError
from prototorch.data.shuffling import batch_generator, batch_key

__all__ = ["Batch", "BatchContext", "BatchIterator", "BatchTransform", "cast_columns"]


@dataclass(frozen=True)
class BatchContext:
    """The position of a batch in the training run. The randomness of its augmentation depends on nothing else.

    seed, epoch: those of the loader.
    position: the number of samples before this batch in the epoch's order.
    indices: the data set's indices of the samples, int64 [n].
    """

    seed: int
    epoch: int
    position: int
    indices: np.ndarray

    @property
    def key(self) -> int:
        """A random 64-bit integer, a function of seed, epoch and position."""
        return batch_key(self.seed, self.epoch, self.position)

    def generator(self) -> np.random.Generator:
        """A new NumPy generator seeded by seed, epoch and position."""
        return batch_generator(self.seed, self.epoch, self.position)


BatchTransform = Callable[[Columns, BatchContext], Columns]


class Batch(dict[str, np.ndarray]):
    """Column name -> array [n, ...], with the batch's ``context`` and the ``errors`` of the samples left out."""

    def __init__(
        self, columns: Mapping[str, np.ndarray], context: BatchContext, errors: list[SampleError] | None = None
    ):
        super().__init__(columns)
        self.context, self.errors = context, errors or []

    @property
    def num_samples(self) -> int:
        """The number of samples."""
        return len(self.context.indices)


class BatchIterator(ABC):
    """The batches of an epoch in order: the rest of the current epoch, then it is at the next one.

    batch_size: samples of a full batch; 1 where it counts batches.
    epoch, position: the epoch, and how much of it has been taken.
    transform: applied to the columns of each batch; batch_memory: to which large columns are copied.
    wait_seconds: seconds spent waiting for batches so far.
    state_kind: the format of `state` in saved files.
    """

    state_kind: ClassVar[str]
    batch_size: int
    epoch: int
    position: int
    transform: BatchTransform | None
    batch_memory: BatchMemory | None
    wait_seconds: float

    @abstractmethod
    def __iter__(self) -> Iterator[Batch]: ...

    @abstractmethod
    def num_batches(self) -> int | None:
        """The number of batches of an epoch; None where it is not known."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The position as JSON values, from which `restore` continues exactly."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``. Raises DataError if the batches would differ from those of the interrupted run."""


def cast_columns(columns: Columns, dtypes: Mapping[str, str]) -> Columns:
    """The columns with the given dtypes; a column that has its dtype already is not copied."""
    return {
        name: array.astype(dtypes[name], copy=False) if name in dtypes else array for name, array in columns.items()
    }
