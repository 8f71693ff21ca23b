"""A data set bound to a model, and the batches made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prototorch.data.batch import Batch
from prototorch.data.binding import BoundDataset
from prototorch.data.checks import DataWarning
from prototorch.data.loader import Loader
from prototorch.data.stream import BatchStream
from prototorch.errors import DataError, warn_user
from prototorch.spec import Spec

__all__ = ["BatchSource", "iterate_epoch"]

MAX_LISTED = 5  # samples that a warning lists


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

    def num_skipped(self) -> int:
        """The number of samples that could not be read and were left out so far."""
        return len(self.batches.skipped_samples) if isinstance(self.batches, Loader) else 0

    def warn_of_skipped(self, kind: str = "samples", consequence: str = "") -> None:
        """Warn of the samples that could not be read, with the first of them.

        kind: what the samples are, such as "validation samples". consequence: what follows from it.
        """
        count = self.num_skipped()
        if not count or not isinstance(self.batches, Loader):
            return
        messages = list(self.batches.skipped_samples.values())
        listing = ", ".join(messages[:MAX_LISTED]) + (", ..." if count > MAX_LISTED else "")
        warn_user(
            f"{self.dataset.name}: {count:,} of the {len(self.dataset):,} {kind} could not be read and "
            f"{'was' if count == 1 else 'were'} skipped{consequence}: {listing}",
            DataWarning,
        )


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
