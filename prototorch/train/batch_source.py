"""A data set bound to a model, and the batches made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prototorch.data.batch import Batch
from prototorch.data.binding import BoundDataset
from prototorch.data.loader import Loader
from prototorch.data.stream import BatchStream
from prototorch.errors import DataError
from prototorch.spec import Spec

__all__ = ["BatchSource", "iterate_epoch"]


class BatchSource(NamedTuple):
    """A data set bound to the model, the loader or stream of its batches, and the net's input specs for one sample."""

    dataset: BoundDataset
    batches: Loader | BatchStream
    input_specs: dict[str, Spec]

    def steps(self) -> int | None:
        """The number of batches of an epoch; None where it is not known."""
        return self.batches.steps if isinstance(self.batches, BatchStream) else len(self.batches)

    def full_batch(self) -> int:
        """The number of samples of a batch that is not the smaller last one."""
        if isinstance(self.batches, BatchStream):
            return len(self.dataset)
        return min(self.batches.batch_size, len(self.dataset))


def iterate_epoch(loader: Loader | BatchStream, steps: int | None) -> Iterator[Batch]:
    """The batches of an epoch; with a number of steps, a data set is repeated as often as that takes.

    Raises DataError for a data set without a batch.
    """
    yield from loader
    while steps is not None and isinstance(loader, Loader):
        count = 0
        for batch in loader:
            count += 1
            yield batch
        if not count:
            raise DataError(f"{loader.dataset.name}: no batch is left of it")
