"""A batch: named arrays, and where in the training they belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from prototorch.data.dataset import Columns, SampleError
from prototorch.data.shuffling import batch_generator, batch_key


@dataclass(frozen=True)
class BatchContext:
    """Where a batch belongs. All randomness of its augmentation follows from this and nothing else.

    seed, epoch: of the loader; position: how many samples of the epoch's order came before this batch;
    indices: the samples in it, int64 [n], in the data set's numbering.
    """

    seed: int
    epoch: int
    position: int
    indices: np.ndarray

    @property
    def key(self) -> int:
        """A random 64-bit number that belongs to this place."""
        return batch_key(self.seed, self.epoch, self.position)

    def generator(self) -> np.random.Generator:
        """A new NumPy generator that belongs to this place."""
        return batch_generator(self.seed, self.epoch, self.position)


BatchTransform = Callable[[Columns, BatchContext], Columns]


class Batch(dict[str, np.ndarray]):
    """Column name -> array [n, ...], with its ``place`` and the samples that had to be left out."""

    def __init__(
        self, columns: Mapping[str, np.ndarray], context: BatchContext, errors: list[SampleError] | None = None
    ):
        super().__init__(columns)
        self.context, self.errors = context, errors or []

    @property
    def num_samples(self) -> int:
        """The number of samples."""
        return len(self.context.indices)


def cast_columns(columns: Columns, dtypes: Mapping[str, str]) -> Columns:
    """The columns with the element types asked for; what has its type already is not copied."""
    return {
        name: array.astype(dtypes[name], copy=False) if name in dtypes else array for name, array in columns.items()
    }
