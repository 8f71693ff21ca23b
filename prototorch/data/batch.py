"""A batch: named arrays, and where in the training they belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .dataset import Columns, SampleError
from .order import batch_key, generator


@dataclass(frozen=True)
class Place:
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
        return generator(self.seed, self.epoch, self.position)


Transform = Callable[[Columns, Place], Columns]


class Batch(dict[str, np.ndarray]):
    """Column name -> array [n, ...], with its ``place`` and the samples that had to be left out."""

    def __init__(self, columns: Mapping[str, np.ndarray], place: Place, wrong: list[SampleError] | None = None):
        super().__init__(columns)
        self.place, self.wrong = place, wrong or []

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.place.indices)


def convert(columns: Columns, dtypes: Mapping[str, str]) -> Columns:
    """The columns with the element types asked for; what has its type already is not copied."""
    return {
        name: array.astype(dtypes[name], copy=False) if name in dtypes else array for name, array in columns.items()
    }
