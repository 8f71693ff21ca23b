"""What goes through all stages: the data set, the columns of it that the model reads, and how it becomes batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from prototorch.data.batch import BatchIterator
from prototorch.data.dataset import Dataset
from prototorch.data.pipeline.signature import IndexRange, Shape, TargetSpec

__all__ = ["ColumnMatch", "Feeding", "Stream"]


class Stream(Protocol):
    """Batches of an iterable, of which the first is the data set that goes through the stages."""

    def bind(
        self, inputs: Mapping[str, Shape], targets: Mapping[str, TargetSpec], indices: Mapping[str, IndexRange]
    ) -> BatchIterator:
        """All batches, with columns in these shapes and values in these ranges."""


@dataclass(frozen=True)
class ColumnMatch:
    """The columns of a data set that feed a model.

    inputs: input of the model -> the column that feeds it. targets: output -> the column that it learns.
    from_inputs: output -> the column of the input that it learns, as it is after preprocessing.
    """

    dataset: Dataset
    inputs: Mapping[str, str]
    targets: Mapping[str, str] = field(default_factory=dict)
    from_inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Feeding:
    """How samples become batches. loader_options: keyword arguments of `Loader`; stream: the batches themselves, where
    the data set is only the first of them."""

    loader_options: Mapping[str, Any] = field(default_factory=dict)
    stream: Stream | None = None
