"""What `fit`, `evaluate` and `predict` are given, made into batches for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any

from prototorch.data.array_conversion import as_dataset, is_stream
from prototorch.data.binding import BoundDataset, TargetSpec
from prototorch.data.checks import check_dataset, check_overlap
from prototorch.data.data_block import Data
from prototorch.data.dataset import ArrayDataset, Dataset
from prototorch.data.loader import Loader
from prototorch.data.stream import BatchStream
from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.spec import Spec
from prototorch.train.batch_feeder import bind_dataset, index_inputs, input_specs, make_target
from prototorch.train.batch_source import BatchSource
from prototorch.train.config import Fit
from prototorch.train.trainer import Trainer

MAX_COMPARED_BYTES = 1 << 26  # bytes of training data that are searched for validation samples


class InputData:
    """Data as they were given: a data set, or a stream of batches (``source``), how they are to be read, and what the
    source itself has to validate on."""

    def __init__(self, source: Dataset | Any, loading: Mapping[str, Any] | None = None, held: Dataset | None = None):
        self.source, self.loader_options, self.validation = source, dict(loading or {}), held

    @property
    def is_stream(self) -> bool:
        """Whether these are batches already."""
        return not isinstance(self.source, Dataset)


class DataAdapter:
    """Makes `BatchSource` of data for one model. ``build`` makes the weights when the inputs' specs are known."""

    def __init__(self, net: Net, trainer: Trainer, build: Callable[[Mapping[str, Spec]], Any]):
        self.net, self.trainer, self.build = net, trainer, build

    # ---------------------------------------------------------------- what is given

    def adapt(self, x: Any, y: Any = None, sample_weight: Any = None) -> InputData:
        """x as `Model.fit` takes it. Raises DataError, UsageError."""
        if isinstance(x, str | PathLike):
            x = Data(source=fspath(x))
        if isinstance(x, Data | Dataset) or _is_stream(x):
            for name, value in (("y", y), ("sample_weight", sample_weight)):
                if value is not None:
                    raise UsageError(f"{name} is given beside data that hold their own targets")
        if isinstance(x, Data):
            return InputData(*self._open(x))
        return InputData(x if isinstance(x, Dataset) or _is_stream(x) else self.arrays(x, y, sample_weight))

    def adapt_validation(self, given: Any) -> InputData:
        """``validation_data`` as `Model.fit` takes it: also (x, y) and (x, y, sample_weight)."""
        if isinstance(given, str | PathLike):
            given = Data(source=fspath(given), part="test")
        if isinstance(given, tuple):
            if not 1 <= len(given) <= 3:
                raise UsageError(f"validation_data is (x, y) or (x, y, sample_weight), not a tuple of {len(given)}")
            return self.adapt(*given)
        return self.adapt(given)

    def adapt_fit_data(
        self, x: Any, y: Any, sample_weight: Any, block: Fit, validation: Any
    ) -> tuple[InputData, InputData | None]:
        """Training and validation data; without x those of the fit block. Raises UsageError where there are none."""
        if x is None:
            if block.data is None:
                raise UsageError("there are no data: give x and y, or a fit { data { ... } } block in the model's text")
            x, validation = block.data, block.validation if validation is None else validation
        data = self.adapt(x, y, sample_weight)
        if validation is not None:
            return data, self.adapt_validation(validation)
        if block.validation_split:
            if data.is_stream:
                raise UsageError(
                    "validation_split needs arrays or a data set; of a stream of batches give validation_data"
                )
            data.source, data.validation = data.source.split(block.validation_split)
        return data, None if data.validation is None else InputData(data.validation, data.loader_options)

    def _open(self, data: Data) -> tuple[Dataset, dict[str, Any], Dataset | None]:
        found, held = data.open_train_and_validation(self.net.inputs[0].shape if self.net.inputs else None)
        return found, data.loader_options(), held

    def arrays(self, x: Any, y: Any = None, sample_weight: Any = None) -> ArrayDataset:
        """Arrays in memory as a data set with the model's names. Targets bear the name of the column that their loss
        names, else of their output; an output that learns an input has none."""
        return as_dataset(x, y, sample_weight, inputs=[i.name for i in self.net.inputs], outputs=self._target_names())

    def _target_names(self) -> tuple[str, ...]:
        inputs = {i.name for i in self.net.inputs}
        terms = self.trainer.plan_cache.loss_terms
        return tuple(dict.fromkeys(t.target or t.output for t in terms if t.target not in inputs)) or self.net.outputs

    # ---------------------------------------------------------------- batches

    def make_batches(self, given: InputData, batch_size: int, *, supervised: bool, training: bool = False,
                     shuffle: bool = True, steps: int | None = None) -> BatchSource:  # fmt: skip
        """Batches of it, bound to the model and checked. Raises DataError for what does not fit."""
        seed = self.trainer.plan_cache.seed
        if given.is_stream:
            return self._stream(given.source, supervised, steps, seed)
        held = self.bind(given.source, supervised)
        loading = given.loader_options
        if training:
            loading = {**loading, "shuffle": shuffle and loading.get("shuffle", True)}
        else:
            loading = {**{k: v for k, v in loading.items() if k != "drop_last"}, "shuffle": False}
        return BatchSource(held, Loader(held, batch_size, seed=seed, **loading))

    def bind(self, data: Dataset, supervised: bool, warn: bool = True) -> BoundDataset:
        """The data set as the model sees it, checked; the weights are made. warn: of what is odd in a whole set."""
        held = bind_dataset(self.trainer.plan_cache, data, self.trainer.preprocessor, supervised)
        check_dataset(held, self.make_targets(held) if supervised else None, warn=warn)
        if not supervised:
            self.build(input_specs(self.net, held, self.trainer.preprocessor, 1))
        return held

    def make_targets(self, held: BoundDataset) -> dict[str, TargetSpec]:
        """What the loss of each output wants to be given; the weights are made."""
        specs = input_specs(self.net, held, self.trainer.preprocessor, 1)
        self.build(specs)
        program = self.trainer.plan_cache
        outputs = program.output_specs(specs)
        return {
            t.output: make_target(t, outputs[t.output]) for t in program.loss_terms if t.output in held.target_columns
        }

    def _stream(self, source: Any, supervised: bool, steps: int | None, seed: int) -> BatchSource:
        inputs: dict[str, tuple[int | None, ...]] = {i.name: i.shape for i in self.net.inputs}
        learned = [t.output for t in self.trainer.plan_cache.loss_terms if t.target not in inputs] if supervised else []
        stream = BatchStream(source, inputs, {name: TargetSpec(()) for name in learned}, steps=steps, seed=seed)
        first = stream.peek()
        held = bind_dataset(self.trainer.plan_cache, first, self.trainer.preprocessor, supervised)
        targets = self.make_targets(held) if supervised else {}
        if not supervised:
            self.build(input_specs(self.net, held, self.trainer.preprocessor, 1))
        if self.trainer.preprocessor.has_layers:
            name = self.trainer.preprocessor.name
            stream.inputs[name] = held.columns[held.input_columns[name]].shape
        stream.targets, stream.indices = targets, index_inputs(self.net, self.trainer.preprocessor)
        return BatchSource(held, stream)


def warn_of_overlap(training: BatchSource, validation: BatchSource) -> None:
    """Warn of validation samples that are training samples too, where looking for them is cheap."""
    size = sum(spec.nbytes for spec in training.dataset.columns.values()) * len(training.dataset)
    sets = isinstance(training.batches, Loader) and isinstance(validation.batches, Loader)
    if sets and training.dataset.is_cheap and validation.dataset.is_cheap and size <= MAX_COMPARED_BYTES:
        check_overlap(training.dataset, validation.dataset)


def _is_stream(x: Any) -> bool:
    """Whether x gives batches: also what only says ``__iter__``, as other libraries' loaders do."""
    if isinstance(x, Dataset | Data):
        return False
    plain = hasattr(x, "__array__") or isinstance(x, list | tuple | Mapping | str | bytes | bytearray | memoryview)
    return is_stream(x) or (hasattr(x, "__iter__") and not plain)


__all__ = ["DataAdapter", "InputData", "warn_of_overlap"]
