"""Data as `Model.fit`, `evaluate` and `predict` accept them, made into batches for a model.

The path from data to a step goes one way, and no stage calls back: `DataAdapter` (arrays, data blocks and streams
become a data set) -> `train.dataset_binding` (what the model expects of it) -> `data.binding` (columns by name and
shape) -> `data.checks` (values) -> `BatchSource` -> `train.batch_feeder` (the inputs of a plan, batch by batch).
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from prototorch.data.array_conversion import as_dataset, is_stream
from prototorch.data.binding import TargetSpec
from prototorch.data.checks import check_dataset, check_overlap, check_validation_classes
from prototorch.data.data_block import Data
from prototorch.data.dataset import ArrayDataset, Dataset
from prototorch.data.loader import Loader
from prototorch.data.read_limits import ReadLimits
from prototorch.data.stream import BatchStream
from prototorch.errors import DataError, UsageError
from prototorch.graph.net import Net
from prototorch.layers.image import Resizing
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located
from prototorch.text.source import Span
from prototorch.train.batch_source import BatchSource
from prototorch.train.config import Fit
from prototorch.train.dataset_binding import ModelBinding, bind_dataset, index_inputs, targets_of_any_size
from prototorch.train.plan_cache import PlanCache
from prototorch.train.preprocessing import Preprocessor
from prototorch.train.text_inputs import encode_texts, predicted_kind, text_inputs

__all__ = ["DataAdapter", "InputData", "warn_of_overlap"]

MAX_COMPARED_BYTES = 1 << 26  # bytes of training data that are searched for validation samples


class InputData:
    """A data set, or a stream of batches (``source``), the options of its loader, and the validation data that the
    source itself has. span: where a text names the source."""

    def __init__(
        self,
        source: Dataset | Any,
        loader_options: Mapping[str, Any] | None = None,
        validation: Dataset | None = None,
        span: Span | None = None,
    ):
        self.source, self.loader_options, self.validation = source, dict(loader_options or {}), validation
        self.span = span

    @property
    def is_stream(self) -> bool:
        """Whether the source gives batches already."""
        return not isinstance(self.source, Dataset)


class DataAdapter:
    """Makes batches for one model. read_limits: on the data that its own blocks name."""

    def __init__(self, plan_cache: PlanCache, preprocessor: Preprocessor, read_limits: ReadLimits | None = None):
        self.read_limits = read_limits
        self.net, self.plan_cache, self.preprocessor = plan_cache.net, plan_cache, preprocessor

    def adapt(self, x: Any, y: Any = None, sample_weight: Any = None, learn: bool = False) -> InputData:
        """x as `Model.fit` accepts it; learn: whether a tokenizer without a vocabulary learns that of x. Raises
        DataError, UsageError."""
        if isinstance(x, str | PathLike):
            x = Data(source=fspath(x))
        if isinstance(x, Data | Dataset) or _is_stream(x):
            for name, value in (("y", y), ("sample_weight", sample_weight)):
                if value is not None:
                    raise UsageError(f"{name} is given together with data that contain their own targets")
        if isinstance(x, Data):
            return self._open(x, learn=learn)
        if _gives_samples(x):
            raise UsageError(
                f"a {type(x).__name__} gives single samples; give DataLoader(dataset, batch_size=32, shuffle=True), "
                "which makes batches of them"
            )
        is_set = isinstance(x, Dataset) or _is_stream(x)
        return InputData(x if is_set else self.arrays(x, y, sample_weight, learn))

    def adapt_validation(self, data: Any) -> InputData:
        """``validation_data`` as `Model.fit` accepts it: also (x, y) and (x, y, sample_weight)."""
        if isinstance(data, str | PathLike):
            data = Data(source=fspath(data), part="test")
        if isinstance(data, tuple):
            if not 1 <= len(data) <= 3:
                raise UsageError(f"validation_data is (x, y) or (x, y, sample_weight), not a tuple of {len(data)}")
            return self.adapt(*data)
        return self.adapt(data)

    def adapt_fit_data(
        self, x: Any, y: Any, sample_weight: Any, block: Fit, validation: Any
    ) -> tuple[InputData, InputData | None]:
        """Training and validation data; without x those of the fit block. Raises UsageError where there are none."""
        is_declared = isinstance(x, Data | str | PathLike)
        if x is None:
            if block.data is None:
                raise UsageError("there are no data: give x and y, or a fit { data { ... } } block in the model's text")
            is_declared, data = True, self._open(block.data, self.read_limits, learn=True)
            if validation is None and block.validation is not None:
                return data, self._open(block.validation, self.read_limits)
        else:
            data = self.adapt(x, y, sample_weight, learn=True)
        if validation is not None:
            return data, self.adapt_validation(validation)
        if block.validation_split:
            if data.is_stream:
                raise UsageError(
                    "validation_split needs arrays or a data set; of a stream of batches give validation_data"
                )
            seed = self.plan_cache.seed if is_declared else None  # arrays: the last samples, as in Keras
            with located(find_span(block, "validation_split")):
                data.source, data.validation = data.source.split(block.validation_split, seed)
        if data.validation is None:
            return data, None
        return data, InputData(data.validation, data.loader_options, span=data.span)

    def _open(self, data: Data, limits: ReadLimits | None = None, learn: bool = False) -> InputData:
        shape = self.net.inputs[0].shape if self.net.inputs else None
        span = find_span(data, "source")
        size = _covering_size(self.net)
        if size is not None and data.size is None and shape is not None and data.resize == "stretch":
            shape, data = (*shape[:1], *size), data.replace(resize="crop")
        with located(span):
            train, validation = data.open_train_and_validation(
                shape, self.plan_cache.seed, limits, text_inputs(self.net), learn, predicted_kind(self.plan_cache)
            )
        return InputData(train, data.loader_options(), validation, span)

    def arrays(self, x: Any, y: Any = None, sample_weight: Any = None, learn: bool = False) -> ArrayDataset:
        """Arrays in memory as a data set with the model's names. A target has the name of the column that its loss
        names, else of its output; an output whose target is an input has none. learn: as for `adapt`."""
        x = encode_texts(self.net, x, learn)
        inputs = [i.name for i in self.net.inputs]
        dataset = as_dataset(x, y, sample_weight, inputs=inputs, outputs=self._target_names())
        dataset.mark_sequences([name for name in self.net.tokenizers() if name in dataset.columns])
        return dataset

    def make_batches(self, data: InputData, batch_size: int, *, supervised: bool, training: bool = False,
                     shuffle: bool = True, steps: int | None = None) -> BatchSource:  # fmt: skip
        """Batches of data, bound to the model and checked. Raises DataError where they do not fit."""
        if data.is_stream:
            return self._stream_batches(data.source, supervised, steps)
        with located(data.span):
            binding = self.bind(data.source, supervised, training=training)
        options = data.loader_options
        if training:
            options = {**options, "shuffle": shuffle and options.get("shuffle", True)}
        else:
            options = {**{k: v for k, v in options.items() if k not in ("drop_last", "buckets")}, "shuffle": False}
        if options.get("buckets") and not any(None in node.shape for node in self.net.inputs):
            raise DataError("buckets give batches of several lengths, and the inputs have one: input { shape: [none] }")
        loader = Loader(binding.dataset, batch_size, seed=self.plan_cache.seed, **options)
        return BatchSource(binding.dataset, loader, binding.input_specs)

    def bind(self, dataset: Dataset, supervised: bool, warn: bool = True, training: bool = False) -> ModelBinding:
        """The data set bound to the model, and checked. warn: also of what is unusual in a whole set; training: and in
        one that is to be learned."""
        binding = bind_dataset(self.plan_cache, self.preprocessor, dataset, supervised)
        check_dataset(binding.dataset, binding.targets if supervised else None, warn=warn, training=training)
        return binding

    def _stream_batches(self, source: Any, supervised: bool, steps: int | None) -> BatchSource:
        inputs: dict[str, tuple[int | None, ...]] = {i.name: i.shape for i in self.net.inputs}
        terms = self.plan_cache.loss_terms if supervised else ()
        targets = {t.output: TargetSpec(()) for t in terms if t.target not in inputs}
        stream = BatchStream(source, inputs, targets, steps=steps, seed=self.plan_cache.seed)
        binding = bind_dataset(self.plan_cache, self.preprocessor, stream.peek(), supervised)
        dataset = binding.dataset
        if self.preprocessor.has_layers:
            name = self.preprocessor.name
            raw, declared = dataset.columns[dataset.input_columns[name]].shape, inputs[name]
            declared = declared if len(declared) == len(raw) else raw
            stream.inputs[name] = tuple(None if d is None else n for n, d in zip(raw, declared, strict=True))
        stream.targets = targets_of_any_size(self.plan_cache, binding)
        stream.indices = index_inputs(self.net, self.preprocessor)
        return BatchSource(dataset, stream, binding.input_specs)

    def _target_names(self) -> tuple[str, ...]:
        inputs = {i.name for i in self.net.inputs}
        terms = self.plan_cache.loss_terms
        return tuple(dict.fromkeys(t.target or t.output for t in terms if t.target not in inputs)) or self.net.outputs


def warn_of_overlap(
    training: BatchSource, validation: BatchSource, class_outputs: Mapping[str, int | None] | None = None
) -> None:
    """Warn of validation samples that are training samples too, where searching for them is cheap, and of classes
    that only the validation data have. class_outputs: output whose targets are class labels -> its ignored label."""
    for output, ignored_class in (class_outputs or {}).items():
        check_validation_classes(training.dataset, validation.dataset, output, ignored_class)
    size = sum(spec.nbytes for spec in training.dataset.columns.values()) * len(training.dataset)
    are_sets = isinstance(training.batches, Loader) and isinstance(validation.batches, Loader)
    if are_sets and training.dataset.is_cheap and validation.dataset.is_cheap and size <= MAX_COMPARED_BYTES:
        check_overlap(training.dataset, validation.dataset)


def _is_stream(x: Any) -> bool:
    """Whether x gives batches: also an object that only has ``__iter__``, such as other libraries' loaders."""
    if isinstance(x, Dataset | Data):
        return False
    is_array_like = hasattr(x, "__array__") or isinstance(
        x, list | tuple | Mapping | str | bytes | bytearray | memoryview
    )
    return is_stream(x) or (hasattr(x, "__iter__") and not is_array_like)


def _gives_samples(x: Any) -> bool:
    """Whether x is a data set by PyTorch's names, of prototorch or PyTorch."""
    owners = ("prototorch.utils.data", "torch.utils.data")
    return any(c.__name__ == "Dataset" and c.__module__.startswith(owners) for c in type(x).__mro__)


def _covering_size(net: Net) -> tuple[int, int] | None:
    """Height and width that the first `Resizing` of ``preprocess`` keeps the aspect ratio for: images of a folder,
    which have one size in a batch, are cropped to that aspect ratio instead of being stretched."""
    layer = next((one for one in net.preprocess if isinstance(one, Resizing)), None)
    return (layer.height, layer.width) if layer is not None and layer.keep_aspect_ratio else None
