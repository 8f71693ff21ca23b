"""The batches of one data layer of a Caffe net, read ahead by threads."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from math import prod
from types import TracebackType
from typing import Self

import numpy as np

from prototorch.data.ordered_pool import InlinePool, OrderedPool
from prototorch.data.safe_io import check_memory

__all__ = ["BlobSource", "Blobs"]

Blobs = dict[str, np.ndarray]
_TIMEOUT = 300.0  # seconds that one batch may take


class BlobSource(ABC):
    """The batches of a data layer; they never end, as the data are read again from their start.

    A batch is a function of its number (and of the seed), so that `seek` continues anywhere.

    Attributes:
        name: of the layer and its file, for messages.
        shapes: for each top the shape of the first batch, with all axes. A later batch may have another shape where
            the images of a database or a list differ in size.
        threads: that make batches at the same time.
        prefetch: the largest number of batches that are made ahead, those that threads work on included; 0: each is
            made when it is taken.
    """

    name: str
    shapes: dict[str, tuple[int, ...]]
    threads = 1
    prefetch = 4

    def __init__(self) -> None:
        self._pool: OrderedPool[Blobs] | InlinePool[Blobs] | None = None
        self._position = 0

    @abstractmethod
    def make_batch(self, number: int) -> Blobs:
        """The batch of this number, from 0 on: for each top a C-contiguous array in the layer's floating-point type.

        Raises DataError with the file, and the line or key, of what cannot be read.
        """

    def check_batch_memory(self, itemsize: int) -> None:
        """Raise ResourceError where this machine has no memory for a batch of `shapes`."""
        check_memory(sum(prod(shape) for shape in self.shapes.values()) * itemsize, f"{self.name}: a batch")

    @property
    def position(self) -> int:
        """The number of the next batch: how many have been taken since the start of the data."""
        return self._position

    def next_batch(self) -> Blobs:
        """The next batch: a new array for each top. Raises DataError as `make_batch` does."""
        if self._pool is None:
            self.start(self._position)
            self._pool = self._new_pool(self._position)
        batch = self._pool.take()
        self._position += 1
        return batch

    def seek(self, position: int) -> None:
        """Continue with the batch of this number."""
        self.stop()
        self._position = position

    def start(self, number: int) -> None:  # noqa: B027 - most sources need nothing
        """Get ready for `make_batch` of this number and those behind it, before threads call it."""

    def stop(self) -> None:
        """End the threads; `next_batch` starts them again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def close(self) -> None:
        """End the threads and close the files; the source gives no more batches."""
        self.stop()

    def _new_pool(self, start: int) -> OrderedPool[Blobs] | InlinePool[Blobs]:
        if self.prefetch == 0:
            return InlinePool(lambda i: self.make_batch(start + i))
        threads = min(self.threads, self.prefetch)
        return OrderedPool(
            lambda i: self.make_batch(start + i),
            sys.maxsize,
            threads=threads,
            read_ahead=self.prefetch - threads,
            timeout=_TIMEOUT,
            describe=lambda i: f"batch {start + i} of {self.name}",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
