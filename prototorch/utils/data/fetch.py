"""Batches of a data set: the samples of one list of indices, or the next ones of a stream, collated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from prototorch.utils.data.collate import default_collate
from prototorch.utils.data.dataset import IterableDataset, Subset, TensorDataset

__all__ = ["END", "BatchReader"]


class EndOfStream:
    """What a worker gives after its last batch. There is one instance, also after pickling."""

    def __reduce__(self) -> str:
        return "END"


END = EndOfStream()


class BatchReader:
    """Reads the batches of a data set.

    collate: makes a batch of a list of samples; where ``is_batched`` is false, of one sample. is_batched: whether keys
    are lists of indices. drop_last: whether a stream's last batch that is not full is left out.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], is_batched: bool, drop_last: bool):
        self.dataset, self._collate = dataset, collate
        self._is_batched, self._drop_last = is_batched, drop_last
        self._stream: Iterator[Any] | None = iter(dataset) if isinstance(dataset, IterableDataset) else None
        self._is_fast = is_batched and collate is default_collate and reads_batches(dataset)

    def read(self, key: Any) -> Any:
        """The batch of an index or a list of indices; of a stream the next one of so many samples, or `END`."""
        if self._stream is not None:
            return self._read_stream(key)
        if not self._is_batched:
            return self._collate(self.dataset[key])
        if self._is_fast:
            return read_batch(self.dataset, np.asarray(key, np.int64))
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self._collate(self.dataset.__getitems__(key))
        return self._collate([self.dataset[index] for index in key])

    def _read_stream(self, key: Any) -> Any:
        assert self._stream is not None
        if not self._is_batched:
            sample = next(self._stream, END)
            return END if sample is END else self._collate(sample)
        samples = list(itertools.islice(self._stream, len(key)))
        if not samples or (self._drop_last and len(samples) < len(key)):
            return END
        return self._collate(samples)


def reads_batches(dataset: Any) -> bool:
    """Whether a data set is a `TensorDataset`, or `Subset`\\ s of one, whose samples no subclass defines anew."""
    kind = type(dataset)
    if isinstance(dataset, Subset):
        own = kind.__getitem__ is Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__
        return own and reads_batches(dataset.dataset)
    own = isinstance(dataset, TensorDataset) and kind.__getitem__ is TensorDataset.__getitem__
    return own and not hasattr(dataset, "__getitems__")


def read_batch(dataset: Any, indices: np.ndarray) -> list[Any]:
    """The batch of a data set that `reads_batches`. Raises IndexError for an index outside of it."""
    if isinstance(dataset, Subset):
        return read_batch(dataset.dataset, np.asarray([dataset.indices[i] for i in indices], np.int64))
    count = len(dataset)
    outside = indices[(indices < -count) | (indices >= count)]
    if len(outside):
        raise IndexError(f"sample {outside[0]} of a TensorDataset of {count} samples")
    batch: list[Any] = dataset.read_batch(np.where(indices < 0, indices + count, indices))
    return batch
