"""The fourth stage: the columns of the inputs before preprocessing, and the spec that it gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prototorch.data.binding import bind_columns
from prototorch.data.checks import check_targets
from prototorch.data.pipeline.bound import BoundColumns
from prototorch.data.pipeline.column_match import ColumnMatch, Feeding
from prototorch.data.pipeline.signature import ModelSignature, Shape, TargetSpec
from prototorch.spec import Spec

__all__ = ["PreprocessedColumns"]


@dataclass(frozen=True)
class PreprocessedColumns:
    """Columns of which it is known what preprocessing makes of them.

    raw_shapes: input -> the shape that its column must have, before preprocessing.
    preprocessed: the spec of the preprocessed input, if there is one, for a batch of one sample.
    """

    signature: ModelSignature
    columns: ColumnMatch
    feeding: Feeding
    raw_shapes: Mapping[str, Shape]
    preprocessed: Mapping[str, Spec]

    def bind(self) -> BoundColumns:
        """The columns in the shapes of inputs and targets. Raises DataError for shapes that do not fit, with both, for
        table indices out of range, and for targets that the losses do not take."""
        signature, columns = self.signature, self.columns
        raw_dataset = bind_columns(columns.dataset, columns.inputs, {}, self.raw_shapes, {})
        specs = {}
        for name, dtype in signature.dtypes.items():
            spec = self.preprocessed.get(name)
            shape = (1, *raw_dataset.columns[columns.inputs[name]].shape) if spec is None else spec.shape
            specs[name] = Spec(shape, dtype)
        targets: Mapping[str, TargetSpec] = {}
        if signature.learned:
            targets = signature.targets(columns.dataset, specs, columns.from_inputs)
        raw_dataset = bind_columns(
            columns.dataset, columns.inputs, columns.targets, self.raw_shapes, targets, signature.indices
        )
        if self.feeding.stream is None:
            check_targets(raw_dataset, targets)
        return BoundColumns(signature, raw_dataset, targets, specs, self.feeding)
