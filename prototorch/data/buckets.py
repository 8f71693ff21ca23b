"""Batches of samples of similar lengths: less padding than where a batch holds samples of any length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from prototorch.data.dataset import Columns, Dataset
from prototorch.data.shuffling import philox
from prototorch.errors import DataError, UsageError

__all__ = ["MAX_BUCKETS", "Buckets"]

MAX_BUCKETS = 64  # each has a plan of its own


class Buckets:
    """Assigns the samples of a data set to buckets by the length of their longest sequence.

    A bucket holds the samples that are longer than the boundary before it, up to its own; the last one holds those
    beyond all boundaries. Those of a bucket that fill no batch join the next one, so that the last bucket alone has a
    batch that is not full: there are as many batches as without buckets.

    Args:
        dataset: has sequences of token ids, see `Dataset.sequence_lengths`.
        boundaries: lengths, rising.

    Raises:
        UsageError: boundaries that do not rise, or too many. DataError: the set has no sequences.
    """

    def __init__(self, dataset: Dataset, boundaries: Sequence[int]):
        check_boundaries(boundaries)
        sequences = dataset.sequence_lengths()
        self._sequences = {c: n for c, n in sequences.items() if c in dataset.columns}
        if not self._sequences:
            raise DataError(f"{dataset.name}: buckets are for texts, and the data have no sequences of token ids")
        self._longest = max(dataset.columns[column].shape[0] or 1 for column in self._sequences)
        self.boundaries = (*(b for b in boundaries if b < self._longest), self._longest)
        lengths = np.max(np.stack(list(self._sequences.values())), axis=0)
        self._bucket = np.searchsorted(np.asarray(self.boundaries[:-1]), lengths)

    def batches(
        self, order: np.ndarray, batch_size: int, drop_last: bool, key: tuple[int, int] | None
    ) -> list[tuple[np.ndarray, int]]:
        """The batches of an epoch: the indices of each, and the length of its sequences.

        order: of the samples. key: (seed, epoch), which decide the order of the batches; None: the shortest first.
        """
        chunks = self._chunks(order, batch_size, drop_last)
        if key is None:
            return chunks
        shuffled = np.argsort(philox(*key, stream=3).random_raw(len(chunks)), kind="stable")
        return [chunks[i] for i in shuffled]

    def trim(self, columns: Columns, length: int) -> Columns:
        """The columns with their sequences cut to this length, which is padding alone."""
        return {
            name: np.ascontiguousarray(array[:, :length]) if name in self._sequences else array
            for name, array in columns.items()
        }

    def _chunks(self, order: np.ndarray, batch_size: int, drop_last: bool) -> list[tuple[np.ndarray, int]]:
        bucket, chunks = self._bucket[order], list[tuple[np.ndarray, int]]()
        rest = np.empty(0, np.int64)
        for number, boundary in enumerate(self.boundaries):
            samples = np.concatenate([rest, order[bucket == number]])
            full = len(samples) // batch_size * batch_size
            chunks += [(samples[at : at + batch_size], boundary) for at in range(0, full, batch_size)]
            rest = samples[full:]
        return chunks if drop_last or not len(rest) else [*chunks, (rest, self.boundaries[-1])]


def check_boundaries(boundaries: Sequence[int]) -> None:
    """Raise UsageError unless the boundaries are rising lengths."""
    numbers = list(boundaries)
    if len(numbers) > MAX_BUCKETS:
        raise UsageError(f"buckets has {len(numbers)} boundaries; at most {MAX_BUCKETS} are possible")
    if any(isinstance(b, bool) or not isinstance(b, int | np.integer) or b < 1 for b in numbers):
        raise UsageError(f"buckets are lengths, integers of at least 1, not {numbers}")
    if any(a >= b for a, b in pairwise(numbers)):
        raise UsageError(f"the boundaries of buckets must rise, and are {numbers}")
