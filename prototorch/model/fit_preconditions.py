"""What `run` would refuse before its first step, found without training.

Each check calls what the training itself calls, so that the messages and their places in the text are the same.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from prototorch.data.binding import BoundDataset
from prototorch.data.data_block import Data
from prototorch.data.dataset_notes import find_extra_classes
from prototorch.data.pipeline.columns import Columns
from prototorch.data.pipeline.source import DataSource, open_fit_data
from prototorch.data.read_limits import ReadLimits
from prototorch.data.safe_io import expand_path
from prototorch.data.sources import find_source
from prototorch.errors import DataWarning, PrototorchError, ShapeError, TextError
from prototorch.graph.probe import probe_specs
from prototorch.model.model import Model
from prototorch.schema.block_source import find_span
from prototorch.spec import Spec
from prototorch.text.diagnostics import Diagnostic, located
from prototorch.train.callback_list import check_callbacks, check_output_names
from prototorch.train.callbacks import bind_output_dirs
from prototorch.train.config import Fit, fit_sources
from prototorch.train.data_signature import make_target
from prototorch.train.log_names import LogNames
from prototorch.train.plan_cache import PlanCache
from prototorch.train.preprocessing import Preprocessor
from prototorch.train.step_inputs import TEST

__all__ = [
    "MAX_READ_BYTES",
    "describe_table",
    "find_data_notes",
    "find_missing_blocks",
    "find_preprocessing_errors",
    "find_source_errors",
    "find_training_errors",
]

MAX_READ_BYTES = 32 << 20  # of files of a data source; what is larger is not opened by a check


def find_training_errors(model: Model) -> list[Diagnostic]:
    """The mistakes of the compile, fit, preprocess and augment blocks of a model whose net is right."""
    errors: list[Diagnostic] = []
    with _collected(errors):
        trainer = model.trainer
        has_losses = _check_losses(trainer.plan_cache, errors)
        is_opened, data = _check_data(model, errors)
        if data or not is_opened:
            _check_preprocessing(trainer.preprocessor, data, errors)
        if has_losses:
            _check_callbacks(model, data, errors)
        return errors
    return errors + find_source_errors(model.fit_block, model.read_limits)


def find_source_errors(block: Fit | None, limits: ReadLimits | None = None) -> list[Diagnostic]:
    """Data sources of a fit block that do not exist."""
    errors: list[Diagnostic] = []
    for data in (block.data, block.validation) if block is not None else ():
        if data is not None:
            with _collected(errors), located(find_span(data, "source")):
                find_source(data.source, limits, data.text_folder)
    return errors


def find_preprocessing_errors(model: Model) -> list[Diagnostic]:
    """The mistakes in the preprocess and augment blocks of a model whose data are not known."""
    errors: list[Diagnostic] = []
    with _collected(errors):
        _check_preprocessing(model.trainer.preprocessor, (), errors)
    return errors


def find_missing_blocks(model: Model) -> list[str]:
    """What a model text lacks for `run`, which a net alone does not need."""
    notes = []
    if model.compile_block is None or not model.compile_block.loss:
        notes.append("it names no loss: `run` and `evaluate` need compile { loss: ... }")
    if model.fit_block is None or model.fit_block.data is None:
        notes.append("it names no data: `run` needs fit { data { source: ... } }, or --data")
    return notes


@contextmanager
def _collected(errors: list[Diagnostic]) -> Iterator[None]:
    """An error inside becomes a diagnostic; the same one is collected once."""
    try:
        yield
    except TextError as error:
        errors.extend(error.mistakes)
    except PrototorchError as error:
        new = error.diagnostic or Diagnostic(str(error))
        if new not in errors:
            errors.append(new)


def _check_losses(cache: PlanCache, errors: list[Diagnostic]) -> bool:
    """Whether there are losses, and they and the metrics take the outputs of the net."""
    if not cache.loss_terms:
        return False
    diagnostics: list[Diagnostic] = []
    specs = probe_specs(cache.net, 1)
    outputs = cache.output_specs(specs)
    for term in cache.loss_terms:
        with _collected(diagnostics):
            if term.loss.needs_target:
                make_target(term, outputs[term.output])
    if not diagnostics:
        with _collected(diagnostics):
            cache.step_graphs.build(TEST, specs)
    errors.extend(diagnostics)
    return not diagnostics


def _check_data(model: Model, errors: list[Diagnostic]) -> tuple[bool, list[BoundDataset]]:
    """Whether the data sets of the fit block were opened, and those that were bound to the model: the training data,
    and the validation data. Their values are checked as far as they are in memory; large sources are not opened."""
    block = model.fit_block
    if block is None or block.data is None:
        return False, []
    if _source_bytes(block.data) + _source_bytes(block.validation) > MAX_READ_BYTES:
        errors.extend(find_source_errors(block, model.read_limits))
        return False, []
    datasets, is_opened = list[BoundDataset](), False
    with _collected(errors):
        sources: tuple[Columns | None, ...] = open_fit_data(
            DataSource(None), None, fit_sources(block), model.signature()
        )
        is_opened = True
        for columns in sources:
            if columns is not None:
                datasets.append(columns.bind().dataset)
    return is_opened, datasets


def describe_table(model: Model) -> list[str]:
    """A line for each column of the table of the fit block that is read by type: what the training rows show of it, and
    what it becomes. Tables with mistakes, and large ones, give none."""
    columns = _open_training_data(model)
    encoding = None if columns is None else columns.dataset.table_columns.encoding
    return [] if encoding is None else encoding.report()


def _open_training_data(model: Model) -> Columns | None:
    """The training data of the fit block, without their warnings; None for data with mistakes, and large ones."""
    block = model.fit_block
    if block is None or block.data is None or _source_bytes(block.data) > MAX_READ_BYTES:
        return None
    with _collected([]), warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return open_fit_data(DataSource(None), None, fit_sources(block), model.signature())[0]
    return None


def find_data_notes(model: Model) -> list[str]:
    """Outputs for more classes than the data of the fit block have; data with mistakes, and large ones, give none."""
    columns = _open_training_data(model)
    if columns is None:
        return []
    with _collected([]):
        bound = columns.bind()
        columns_of_outputs = bound.dataset.target_columns
        notes = [find_extra_classes(bound.dataset, columns_of_outputs[o], t) for o, t in bound.targets.items()]
        return [note for notes_of_output in notes for note in notes_of_output]
    return []


def _source_bytes(data: Data | None) -> int:
    """The bytes of the file of a source, or of the files in its folder; 0 for a set of the package."""
    if data is None:
        return 0
    try:
        path = expand_path(data.source)
        if not path.is_dir():
            return path.stat().st_size
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.is_file())
    except (OSError, PrototorchError):
        return 0


def _check_preprocessing(preprocessor: Preprocessor, data: Sequence[BoundDataset], errors: list[Diagnostic]) -> None:
    """Check preprocess and augment; where preprocess is wrong, augment alone on samples of the input's shape."""
    count = len(errors)
    with _collected(errors):
        _apply_preprocessing(preprocessor, data)
    net = preprocessor.net
    if len(errors) > count and net.preprocess and net.augment:
        with _collected(errors):
            _apply_preprocessing(Preprocessor(replace(net, preprocess=()), preprocessor.backend), ())


def _apply_preprocessing(preprocessor: Preprocessor, data: Sequence[BoundDataset]) -> None:
    """Apply preprocess and augment to samples of the data, or else to samples from which the input could be made."""
    if not preprocessor.has_layers:
        return
    node = preprocessor.net.inputs[0]
    if data:
        column = data[0].columns[data[0].input_columns[node.name]]
        preprocessor.bytes_moved(Spec((2, *column.shape), column.dtype), True)
        return
    shape = tuple(64 if n is None else n for n in node.shape)
    first: ShapeError | None = None
    for raw in _raw_shapes(shape):
        try:
            with located(find_span((*preprocessor.net.preprocess, *preprocessor.net.augment)[-1])):
                sample_shape = preprocessor.output_spec(Spec((2, *raw))).shape[1:]
                if len(sample_shape) != len(shape) or any(
                    n not in (None, m) for n, m in zip(node.shape, sample_shape, strict=True)
                ):
                    expected = ", ".join("none" if n is None else str(n) for n in node.shape)
                    raise ShapeError(
                        f"preprocess makes samples of shape {list(sample_shape)}, expected [{expected}] for the input "
                        f"{node.name!r}; add a Resizing or Reshape layer to preprocess"
                    )
        except ShapeError as error:
            first = first or error
        else:
            preprocessor.bytes_moved(Spec((2, *raw)), True)
            return
    assert first is not None
    raise first


def _raw_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes of samples that preprocessing may turn into one of this shape, the shape itself first."""
    yield shape
    if len(shape) == 3:
        channels, height, width = shape
        sizes = ((height, width), (2 * height, 2 * width), (height + 8, width + 8), (256, 256))
        yield from ((c, h, w) for c, (h, w) in itertools.product((channels, 1, 3, 4), sizes))
        yield from sizes
    yield (math.prod(shape),)
    yield (1, *shape)


def _check_callbacks(model: Model, data: Sequence[BoundDataset], errors: list[Diagnostic]) -> None:
    """The callbacks of the fit block against the names that its training will log."""
    block, metrics = model.fit_block, model.trainer.plan_cache.metrics
    if block is None:
        return
    declared = block.validation is not None or bool(block.validation_split)
    has_validation = len(data) > 1 or declared or not data  # without data nobody knows
    rules = model.trainer.plan_cache.step_graphs.rules
    rates = ("learning_rate",) if rules is None else tuple(rules.rate_names.values())
    names = LogNames.of_fit(metrics.names(), metrics.directions(), has_validation, rates)
    bind_output_dirs(block.callbacks, block.callbacks, model.name, None)
    for callback in block.callbacks:
        with _collected(errors):
            callback.set_model(model)
            callback.set_params({"epochs": block.epochs})
            check_callbacks([callback], names)
    with _collected(errors):
        check_output_names(block.callbacks)
