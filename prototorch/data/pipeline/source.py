"""The first stage: data as `Model.fit`, `evaluate` and `predict` accept them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

from prototorch.data import pipeline
from prototorch.data.array_conversion import as_dataset, is_stream
from prototorch.data.data_block import Data
from prototorch.data.dataset import ArrayDataset, Dataset
from prototorch.data.frames import FrameReader, is_frame, match_columns, read_frames
from prototorch.data.pipeline.column_match import Feeding
from prototorch.data.pipeline.columns import Columns
from prototorch.data.pipeline.signature import ModelSignature, TargetSpec
from prototorch.data.read_limits import ReadLimits
from prototorch.data.safe_io import printable_path
from prototorch.data.sources import find_source, is_array_file, is_dataset_source, is_table
from prototorch.data.stream import BatchStream
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.table_files import read_header
from prototorch.data.text_source import TextInput
from prototorch.errors import UsageError
from prototorch.layers.tokenizer import as_texts
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located
from prototorch.text.source import Span

__all__ = ["DataSource", "FitSources", "encode_texts", "open_fit_data"]


@dataclass(frozen=True)
class DataSource:
    """Samples as they were given, with their targets and weights.

    x: arrays, or lists or dicts of them by input; a table of pandas or polars, which is read by names, also in a list,
    a dict or a batch; a `Data` block, the name or path of a data source; a `Dataset`; or batches.
    steps: the batches of an epoch of a stream, None where it ends by itself.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    steps: int | None = None

    @staticmethod
    def of_validation(data: Any, steps: int | None = None) -> DataSource:
        """``validation_data`` as `Model.fit` accepts it: also (x, y) and (x, y, sample_weight)."""
        if isinstance(data, str | PathLike):
            return DataSource(Data(source=fspath(data), part="test"), steps=steps)
        if not isinstance(data, tuple):
            return DataSource(data, steps=steps)
        if not 1 <= len(data) <= 3:
            raise UsageError(f"validation_data is (x, y) or (x, y, sample_weight), not a tuple of {len(data)}")
        x, y, sample_weight = (*data, None, None)[:3]
        return DataSource(x, y, sample_weight, steps)

    def columns(self, signature: ModelSignature, learn: bool = False) -> Columns:
        """The columns of the samples. learn: whether a tokenizer without a vocabulary learns that of x.

        Raises DataError, UsageError.
        """
        x = Data(source=fspath(self.x)) if isinstance(self.x, str | PathLike) else self.x
        if isinstance(x, Data | Dataset) or _is_stream(x):
            for name, value in (("y", self.y), ("sample_weight", self.sample_weight)):
                if value is not None:
                    raise UsageError(f"{name} is given together with data that contain their own targets")
        if isinstance(x, Data):
            columns = _open_data(x, signature, learn=learn)
            return columns if learn or not columns.dataset.needs_encoding else pipeline.encode_table(columns)
        if isinstance(x, Dataset):
            return Columns(signature, x)
        if _gives_samples(x):
            raise UsageError(
                f"a {type(x).__name__} gives single samples; give DataLoader(dataset, batch_size=32, shuffle=True), "
                "which makes batches of them"
            )
        if _is_stream(x):
            targets = _stream_targets(signature)
            frames = FrameReader(replace(signature, outputs=tuple(targets)))
            stream = BatchStream(x, signature.inputs, targets, steps=self.steps, seed=signature.seed, frames=frames)
            return Columns(signature, stream.peek(), Feeding(stream=stream))
        table = pipeline.open_frame(x, self.y, self.sample_weight, signature, learn)
        if table is not None:
            columns = Columns(signature, table)
            return columns if learn else pipeline.encode_table(columns)
        return Columns(signature, self.arrays(signature, learn))

    def arrays(self, signature: ModelSignature, learn: bool = False) -> ArrayDataset:
        """Arrays in memory as a data set with the model's names. A target has the name of the column that its loss
        names, else of its output; an output whose target is an input has none. learn: as for `columns`."""
        rows = pipeline.open_frame(self.x, self.y, self.sample_weight, signature)
        if rows is not None:
            return pipeline.encode_rows(rows, signature)
        names = tuple(signature.inputs)
        x, y, table = read_frames(self.x, self.y, signature)
        if signature.text_names:
            x = encode_texts(signature.texts, names, x, learn)
        dataset = as_dataset(x, y, self.sample_weight, inputs=names, outputs=signature.outputs)
        dataset.mark_sequences([name for name in signature.text_names if name in dataset.columns])
        dataset.table_columns = table
        return dataset


def _open_data(data: Data, signature: ModelSignature, limits: ReadLimits | None = None, learn: bool = False) -> Columns:
    """The columns of a data block, with its own validation data. limits: on the files that it names; learn: as for
    `DataSource.columns`. Raises DataError, ResourceError, UsageError, with the place of the source in the text."""
    shape, cover, block = signature.image_shape, signature.cover_size, data
    with located(find_span(block, "source")):
        data, groups = _by_names(data, signature, limits)
    is_typed = not signature.text_names or pipeline.reads_types(data, signature)
    table = pipeline.table_options(data, signature, learn) if is_typed else None
    if cover is not None and data.size is None and shape is not None and data.resize == "stretch":
        shape, data = (*shape[:1], *cover), data.replace(resize="crop")
    with located(find_span(block, "source")):
        train, validation = data.open_train_and_validation(
            shape,
            signature.seed,
            limits,
            () if is_typed else signature.texts(),
            learn,
            None if is_typed else signature.text_kind(),
            groups,
            table,
        )
    return Columns(signature, train, Feeding(data.loader_options()), validation, block)


def _by_names(data: Data, signature: ModelSignature, limits: ReadLimits | None) -> tuple[Data, TableColumns | None]:
    """The block of a table with a header, with the columns that the model was trained on where it names no others; and
    the columns of each of several inputs and outputs, None where there are not several.

    Raises as `find_source` and `match_columns`.
    """
    table = signature.table
    if pipeline.reads_types(data, signature):
        return data if data.label or not table.labels else data.replace(label=list(table.labels)), None
    are_several = max(len(signature.inputs), len(signature.outputs)) > 1 and not (data.pairs or signature.text_names)
    if data.features or not (are_several or (table.features and not data.label)):
        return data, None
    path = find_source(data.source, limits, data.text_folder)
    if path is None or not path.is_file() or is_dataset_source(path) or not is_table(path) or is_array_file(path):
        return data, None
    cells, is_header = read_header(path, data.table)
    recorded = (*table.features, *(column for columns in table.inputs.values() for column in columns))
    if not (is_header or (recorded and set(recorded) <= set(cells))):
        return data, None
    groups = match_columns(cells, signature, printable_path(path)) if are_several else TableColumns()
    if table.features and not data.label:
        data = data.replace(features=list(table.features), label=list(table.labels))
    elif groups.inputs and not data.label and table.labels:
        data = data.replace(label=list(table.labels))
    return data, groups if groups.inputs or groups.outputs else None


@dataclass(frozen=True)
class FitSources:
    """The data that a ``fit`` block names: for training, for validation, and the share of the samples that validate;
    split_span: the place of the share in the text."""

    data: Data | None = None
    validation: Data | None = None
    validation_split: float = 0.0
    split_span: Span | None = None


def open_fit_data(
    source: DataSource,
    validation: DataSource | None,
    declared: FitSources,
    signature: ModelSignature,
    trains: bool = True,
) -> tuple[Columns, Columns | None]:
    """Training and validation data of a `Model.fit`; without x those of the fit block.

    Without validation data they are a share of the training data, else those that the source itself has.
    trains: whether a training follows, for which ``refit: true`` learns the columns of a table anew. Raises UsageError
    where there are no data.
    """
    x, encoding = source.x, signature.table.encoding
    if x is None:
        if declared.data is None:
            raise UsageError("there are no data: give x and y, or a fit { data { ... } } block in the model's text")
        data = declared.data if trains or encoding is None else declared.data.replace(refit=False)
        training = _open_data(data, signature, signature.limits, learn=True)
    else:
        training = source.columns(signature, learn=True)
    declared_validation = declared.validation if x is None else None
    if validation is None and declared_validation is None and declared.validation_split:
        is_declared = x is None or isinstance(x, Data | str | PathLike)
        seed = signature.seed if is_declared else None  # arrays: the last samples, as in Keras
        with located(declared.split_span):
            training = training.split(declared.validation_split, seed)
    if training.dataset.needs_encoding:
        training = pipeline.learn_table(training)
    signature = replace(signature, table=signature.table.updated(training.dataset.table_columns))
    if validation is not None:
        return training, validation.columns(signature)
    if declared_validation is not None:
        other = _open_data(declared_validation, signature, signature.limits)
        return training, pipeline.encode_table(other) if other.dataset.needs_encoding else other
    return training, training.of_validation()


def encode_texts(
    texts_of_model: Callable[[], tuple[TextInput, ...]], names: Sequence[str], x: Any, learn: bool = False
) -> Any:
    """x of `Model.fit` with ids in the place of texts; other values as they are.

    texts_of_model: gives the inputs that are texts, as `ModelSignature.texts`; names: of all inputs. learn: whether a
    tokenizer without a vocabulary learns that of these texts. Raises UsageError for texts at a model that reads none,
    and for a tokenizer without a vocabulary.
    """
    if isinstance(x, Mapping):
        values = dict(x)
    elif isinstance(x, list | tuple) and len(names) > 1 and len(x) == len(names):
        values = dict(zip(names, x, strict=True))
    else:
        values = dict(zip(names, [x], strict=False))
    texts = {name: strings for name, value in values.items() if (strings := as_texts(value)) is not None}
    if not texts:
        return x
    inputs = texts_of_model()
    for one in inputs:
        if one.name in texts and learn and not one.tokenizer.is_adapted():
            same = [text for other in inputs if other.tokenizer is one.tokenizer for text in texts.get(other.name, ())]
            one.tokenizer.adapt(same)
    by_name = {one.name: one for one in inputs}
    for name, strings in texts.items():
        if name not in by_name:
            return x  # `as_dataset` refuses it
        values[name] = by_name[name].encode(strings)
    return values if len(names) > 1 or isinstance(x, Mapping) else values[names[0]]


def _stream_targets(signature: ModelSignature) -> dict[str, TargetSpec]:
    """The outputs whose targets a stream gives."""
    return {one.output: TargetSpec(()) for one in signature.learned if one.column not in signature.inputs}


def _is_stream(x: Any) -> bool:
    """Whether x gives batches: also an object that only has ``__iter__``, such as other libraries' loaders."""
    if isinstance(x, Dataset | Data) or is_frame(x):
        return False
    is_array_like = hasattr(x, "__array__") or isinstance(
        x, list | tuple | Mapping | str | bytes | bytearray | memoryview
    )
    return is_stream(x) or (hasattr(x, "__iter__") and not is_array_like)


def _gives_samples(x: Any) -> bool:
    """Whether x is a data set by PyTorch's names, of prototorch or PyTorch."""
    owners = ("prototorch.utils.data", "torch.utils.data")
    return any(c.__name__ == "Dataset" and c.__module__.startswith(owners) for c in type(x).__mro__)
