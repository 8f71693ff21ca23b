"""Batches assembled in memory that is given: each part of a batch is read to its place in the columns of the whole."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from prototorch.data.dataset import Columns
from prototorch.spec import Spec

__all__ = ["MIN_COLUMN_BYTES", "BatchAssembly", "BatchMemory"]

MIN_COLUMN_BYTES = 1 << 16  # bytes of a batch's column; to copy fewer takes less than to look for memory


class BatchMemory(Protocol):
    """Memory for the large columns of batches, such as that which a GPU copies from."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
        """An array with undefined elements, whose memory is used again when it is gone; None where there is no more."""

    def holds(self, array: Any) -> bool:
        """Whether an array lies in such memory."""


class BatchAssembly:
    """The large columns of the batches that are being read.

    memory: in which they lie. columns: the specs of a sample's columns that are read to their place.
    """

    def __init__(self, memory: BatchMemory, columns: Mapping[str, Spec]):
        self._memory, self._specs = memory, columns
        self._lock = threading.Lock()
        self._batches: dict[int, Columns] = {}

    def rows(self, batch: int, samples: int, start: int, stop: int) -> Columns:
        """Where samples ``start`` to ``stop`` of a batch of so many are to be read: column -> array [stop - start,
        ...], for the columns that have a place. The first call for a batch allocates it."""
        with self._lock:
            columns = self._batches.get(batch)
            if columns is None:
                columns = self._batches[batch] = {}
                for name, spec in self._specs.items():
                    array = self._new(samples, spec)
                    if array is not None:
                        columns[name] = array
        return {name: array[start:stop] for name, array in columns.items()}

    def take(self, batch: int, parts: Sequence[Columns]) -> Columns:
        """The columns of a batch of which all parts have been read to their place, and which is given up here."""
        with self._lock:
            columns = self._batches.pop(batch, {})
        return {name: array for name, array in columns.items() if all(_lies_in(part[name], array) for part in parts)}

    def move(self, columns: Mapping[str, np.ndarray]) -> Columns:
        """The columns with the large ones, but for those that lie there already, copied to the memory."""
        moved = dict(columns)
        for name, array in columns.items():
            if len(array) and not self._memory.holds(array):
                target = self._new(len(array), Spec(array.shape[1:], array.dtype.name))
                if target is not None:
                    target[...] = array
                    moved[name] = target
        return moved

    def _new(self, samples: int, spec: Spec) -> np.ndarray | None:
        is_large = samples * spec.nbytes >= MIN_COLUMN_BYTES
        return self._memory.empty((samples, *spec.shape), spec.dtype) if is_large else None


def _lies_in(part: np.ndarray, array: np.ndarray) -> bool:
    """Whether a part of a batch is the memory of the whole, not a copy of it."""
    return part.dtype == array.dtype and np.may_share_memory(part, array)
