"""The last stage: the batches of a data set that is bound to a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prototorch.data.batch import Batch, BatchIterator
from prototorch.data.binding import BoundDataset
from prototorch.data.checks import DataWarning, check_overlap, check_validation_classes
from prototorch.data.loader import Loader
from prototorch.errors import DataError, warn_user
from prototorch.spec import Spec

__all__ = ["Batches", "iterate_epoch"]

MAX_LISTED = 5  # samples that a warning lists
MAX_COMPARED_BYTES = 1 << 26  # bytes of training data that are searched for validation samples


@dataclass(frozen=True)
class Batches:
    """A data set bound to the model, the loader or stream of its batches, and the net's input specs for one sample."""

    dataset: BoundDataset
    batches: BatchIterator
    input_specs: Mapping[str, Spec]

    @property
    def is_stream(self) -> bool:
        """Whether the batches come from an iterable, so that only the first of them are known."""
        return not isinstance(self.batches, Loader)

    def steps(self) -> int | None:
        """The number of batches of an epoch; None where it is not known."""
        return self.batches.num_batches()

    def full_batch(self) -> int:
        """The number of samples of a batch that is not the smaller last one."""
        return len(self.dataset) if self.is_stream else min(self.batches.batch_size, len(self.dataset))

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

    def warn_of_overlap(self, validation: Batches, class_outputs: Mapping[str, int | None] | None = None) -> None:
        """Warn of validation samples that are training samples too, where searching for them is cheap, and of classes
        that only the validation data have. class_outputs: output whose targets are class labels -> its ignored label.
        """
        for output, ignored_class in (class_outputs or {}).items():
            check_validation_classes(self.dataset, validation.dataset, output, ignored_class)
        size = sum(spec.nbytes for spec in self.dataset.columns.values()) * len(self.dataset)
        are_sets = not self.is_stream and not validation.is_stream
        if are_sets and self.dataset.is_cheap and validation.dataset.is_cheap and size <= MAX_COMPARED_BYTES:
            check_overlap(self.dataset, validation.dataset)


def iterate_epoch(batches: BatchIterator, steps: int | None) -> Iterator[Batch]:
    """The batches of an epoch; with a number of steps, a data set is repeated as often as that takes.

    Raises DataError for a data set without a batch.
    """
    yield from batches
    while steps is not None and isinstance(batches, Loader):
        count = 0
        for batch in batches:
            count += 1
            yield batch
        if not count:
            raise DataError(f"{batches.dataset.name}: no batch is left of it")
