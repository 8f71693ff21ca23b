"""The fifth stage: columns in the shapes that the model's inputs and losses expect, with valid targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prototorch.data.binding import BoundDataset
from prototorch.data.checks import warn_of_notes
from prototorch.data.dataset_notes import find_dataset_notes
from prototorch.data.loader import Loader
from prototorch.data.pipeline.batches import Batches
from prototorch.data.pipeline.column_match import Feeding
from prototorch.data.pipeline.signature import ModelSignature, TargetSpec
from prototorch.errors import DataError
from prototorch.spec import Spec

__all__ = ["BoundColumns"]


@dataclass(frozen=True)
class BoundColumns:
    """A data set as a model sees it.

    dataset: its columns have the shapes that the model expects. targets: what the losses expect, by output.
    input_specs: of the net's inputs, for a batch of one sample.
    """

    signature: ModelSignature
    dataset: BoundDataset
    targets: Mapping[str, TargetSpec]
    input_specs: Mapping[str, Spec]
    feeding: Feeding

    def batches(self, batch_size: int, training: bool = False, shuffle: bool = True) -> Batches:
        """Batches of this many samples, the last of an epoch may be smaller; of a stream the batches that it has.

        training: whether they are to be learned, so that they are shuffled and bucketed as the data's options say;
        then unusual data are noted as well. Raises DataError for buckets of inputs of one size.
        """
        if self.feeding.stream is not None:
            return self._stream_batches()
        warn_of_notes(find_dataset_notes(self.dataset, self.targets, training))
        options = dict(self.feeding.loader_options)
        if training:
            options["shuffle"] = shuffle and options.get("shuffle", True)
        else:
            options = {**{k: v for k, v in options.items() if k not in ("drop_last", "buckets")}, "shuffle": False}
        if options.get("buckets") and not self.signature.has_open_sizes:
            raise DataError("buckets give batches of several lengths, and the inputs have one: input { shape: [none] }")
        loader = Loader(self.dataset, batch_size, seed=self.signature.seed, **options)
        return Batches(self.dataset, loader, self.input_specs)

    def _stream_batches(self) -> Batches:
        """The batches of a stream; those after the first may differ from it in the sizes that the inputs leave open."""
        signature, stream = self.signature, self.feeding.stream
        assert stream is not None
        inputs, name = dict(signature.inputs), signature.preprocessed
        if name is not None:
            raw, declared = self.dataset.columns[self.dataset.input_columns[name]].shape, inputs[name]
            declared = declared if len(declared) == len(raw) else raw
            inputs[name] = tuple(None if d is None else n for n, d in zip(raw, declared, strict=True))
        targets = signature.widen(self.input_specs, self.targets)
        return Batches(self.dataset, stream.bind(inputs, targets, signature.indices), self.input_specs)
