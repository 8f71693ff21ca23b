"""The second stage: named columns of samples, before it is known whether they fit the model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from prototorch.data.checks import check_inputs, check_sample, warn_of_small_split
from prototorch.data.data_block import Data
from prototorch.data.dataset import ArrayDataset, Dataset
from prototorch.data.dataset_notes import MIN_SAMPLES
from prototorch.data.pipeline.batches import Batches
from prototorch.data.pipeline.bound import BoundColumns
from prototorch.data.pipeline.checked import CheckedColumns
from prototorch.data.pipeline.column_match import ColumnMatch, Feeding
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.errors import UsageError
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """A data set for a model.

    dataset: the samples; of a stream those of its first batch. validation: the data that the source itself has for
    validation. block: the data block that names the source, if one does.
    """

    signature: ModelSignature
    dataset: Dataset
    feeding: Feeding = field(default_factory=Feeding)
    validation: Dataset | None = None
    block: Data | None = None

    def is_small(self, batch_size: int) -> bool:
        """Whether they are arrays of one batch, and so few that there are no notes on them: a loader costs more than a
        step on them."""
        is_plain = self.block is None and self.feeding == Feeding() and isinstance(self.dataset, ArrayDataset)
        return is_plain and 0 < len(self.dataset) <= min(batch_size, MIN_SAMPLES - 1)

    def arrays_in_memory(self) -> ArrayDataset:
        """The data set of columns that are small; see `is_small`."""
        assert isinstance(self.dataset, ArrayDataset)
        return self.dataset

    def split(self, fraction: float, seed: int | None) -> Columns:
        """The data without a share of them, which is for validation; arguments as of `Dataset.split`.

        Raises UsageError for a stream, DataError as `Dataset.split` does.
        """
        if self.feeding.stream is not None:
            raise UsageError("validation_split needs arrays or a data set; of a stream of batches give validation_data")
        training, validation = self.dataset.split(fraction, seed)
        warn_of_small_split(self.dataset, fraction)
        return replace(self, dataset=training, validation=validation)

    def of_validation(self) -> Columns | None:
        """The validation data of the source, which are read as it is."""
        return None if self.validation is None else replace(self, dataset=self.validation, validation=None)

    def check(self) -> CheckedColumns:
        """The columns that the model reads and learns. Raises DataError for columns that are missing or not as they are
        declared, an empty set, values in memory that are not finite, and weights that cannot be."""
        signature, dataset = self.signature, self.dataset
        inputs = dataset.match_inputs(list(signature.inputs))
        target_names = {one.output: one.column for one in signature.learned if one.column is not None}
        for one in signature.learned:
            if one.column is not None:
                with located(one.span):
                    dataset.column_spec(one.column)
        used = set(inputs.values())
        from_inputs = {output: column for output, column in target_names.items() if column in used}
        target_names = {output: column for output, column in target_names.items() if column not in used}
        outputs = [one.output for one in signature.learned if one.output not in from_inputs]
        targets = dataset.match_targets(list(dict.fromkeys(outputs)), target_names) if outputs else {}
        if self.feeding.stream is None:
            if len(dataset):
                check_sample(dataset, (*inputs.values(), *targets.values()))
            check_inputs(dataset, inputs.values())
        return CheckedColumns(signature, ColumnMatch(dataset, inputs, targets, from_inputs), self.feeding)

    def bind(self) -> BoundColumns:
        """The columns as the model reads them, after all checks."""
        with located(find_span(self.block, "source")):
            return self.check().preprocess().bind()

    def batches(self, batch_size: int, training: bool = False, shuffle: bool = True) -> Batches:
        """Batches for the model; arguments as of `BoundColumns.batches`. Raises DataError where the data do not fit."""
        return self.bind().batches(batch_size, training, shuffle)
