"""Inspection of a model without training it: errors, warnings, the summary, the plan of a step."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.errors import UsageError, did_you_mean
from prototorch.graph import plan_printer
from prototorch.graph.plan_printer import PlanDescription
from prototorch.graph.probe import trace_net
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.affine_norm import AffineNormLayer
from prototorch.layers.channels import COLOR_CHANNELS, MapLayer
from prototorch.layers.dense import Dense
from prototorch.layers.merge import MergeLayer
from prototorch.layers.pooling import PoolingLayer
from prototorch.layers.random_layer import RandomLayer
from prototorch.layers.weighted_layer import BiasedLayer
from prototorch.model.fit_preconditions import (
    describe_table,
    find_data_notes,
    find_missing_blocks,
    find_preprocessing_errors,
    find_source_errors,
    find_training_errors,
)
from prototorch.model.load import find_model_file, is_saved, load_saved, make_model, open_document, read_blocks
from prototorch.model.model import Model
from prototorch.text.diagnostics import Diagnostic, Report
from prototorch.text.gc_pause import pause_gc
from prototorch.train.model_notes import find_model_notes
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN, kind_of, step_of
from prototorch.train.summary import Summary, step_specs
from prototorch.train.summary import summarize as summarize_net

__all__ = [
    "check_model",
    "default_batch_size",
    "describe_plan",
    "describe_table",
    "find_missing_blocks",
    "find_warnings",
    "plan_phases",
    "resolve_phase",
    "summary",
]


@pause_gc()
def check_model(source: str, overrides: Sequence[str] = (), allow_read: Sequence[str] = ()) -> Model:
    """A model in which all that `run` would refuse before its first step has been checked: its text, shapes, compile
    and fit blocks, preprocessing, data and callbacks.

    Data are opened as far as their files have at most `MAX_READ_BYTES`; of larger ones only the existence is checked.
    Raises TextError with all errors.
    """
    report = Report()
    model = _load(source, overrides, allow_read, report)
    shapes = Report()
    trace_net(model.net, 1, shapes)
    report.diagnostics.extend(shapes.diagnostics)
    if len(shapes):
        report.diagnostics.extend(_find_layout_errors(model))
        errors = [*find_preprocessing_errors(model), *find_source_errors(model.fit_block, model.read_limits)]
    else:
        errors = find_training_errors(model)
    report.diagnostics.extend(error for error in errors if not report.has_within(error.span))
    report.raise_if_any()
    return model


def _load(source: str, overrides: Sequence[str], allow_read: Sequence[str], report: Report) -> Model:
    """As `load_model`; with the mistakes of a text also data sources that do not exist."""
    path = find_model_file(source)
    if is_saved(path):
        return load_saved(path, overrides, allow_read)
    net, blocks = read_blocks(open_document(path, {}, overrides, report), report)
    if net is None:
        missing = find_source_errors(blocks.get("fit"))
        report.diagnostics.extend(error for error in missing if not report.has_within(error.span))
        report.raise_if_any()
    assert net is not None
    return make_model(net, blocks)  # without the blocks that have mistakes, which are in the report


def find_warnings(model: Model) -> list[str]:
    """Valid but unlikely: the notes of `train.model_notes`, which `Model.compile` and `Model.fit` issue as warnings,
    dense layers on images, and outputs for more classes than the data have."""
    return [*find_model_notes(model.trainer.plan_cache.step_graphs), *_dense_notes(model), *find_data_notes(model)]


def _dense_notes(model: Model) -> list[str]:
    """Dense layers that read images [channels, rows, columns], and so mix the pixels of a row."""
    images = {node.name for node in model.net.inputs if len(node.shape) == 3}
    notes = []
    for node in model.net.nodes:
        reads_image = bool(images.intersection(node.bottoms))
        if isinstance(node.layer, Dense) and reads_image:
            notes.append(
                f"{node.span}: the layer {node.name!r} (Dense) reads an image and works on its last axis, the columns; "
                "Flatten { } or GlobalAveragePooling2D { } before it makes one vector of a sample, Conv2D with "
                "kernel_size: 1 works on the channels"
            )
        has_channels_last = isinstance(node.layer, MapLayer) and node.layer.has_channels_last(3)
        if reads_image and isinstance(node.layer, _KEEP_IMAGES) and not has_channels_last:
            images.update(node.tops)
    return notes


_KEEP_IMAGES = (
    ActivationLayer,
    AffineNormLayer,
    BiasedLayer,
    Dense,
    MergeLayer,
    PoolingLayer,
    RandomLayer,
)


def _find_layout_errors(model: Model) -> list[Diagnostic]:
    """Inputs with the layout of another library (channels last, a batch dimension); reported with shape errors only."""
    errors = []
    for node in model.net.inputs:
        shape = node.shape
        prefix = f"the input {node.name!r} has the shape {_format_shape(shape)}; "
        if len(shape) == 3 and shape[2] in COLOR_CHANNELS and shape[0] not in COLOR_CHANNELS:
            readers = [n.layer for n in model.net.nodes if node.name in n.bottoms]
            if any(isinstance(layer, MapLayer) and layer.has_channels_last(3) for layer in readers):
                continue
            channels_first = _format_shape((shape[2], *shape[:2]))
            text = f"{prefix}images are channels-first here: {channels_first}; or say data_format: channels_last"
            errors.append(Diagnostic(text, node.span))
        elif len(shape) == 4 and shape[0] is None:
            errors.append(
                Diagnostic(f"{prefix}the batch dimension is left out here: {_format_shape(shape[1:])}", node.span)
            )
    return errors


def summary(model: Model, batch: int | None = None) -> Summary:
    """What `Model.summary` prints, as data: for a batch size also the memory of a step."""
    return summarize_net(model.net, model.trainer.plan_cache, batch)


_PHASES = {TRAIN: "training step", TEST: "evaluation step", PREDICT: "prediction"}


def describe_plan(model: Model, phase: str | None = None, batch: int | None = None) -> PlanDescription:
    """The plan of a step, as data: "train" (where there is a loss), "test" or "predict", for a batch size (else the fit
    block's, else 32); "train:critic" is one of the steps that alternate. Nothing is run, no weight is made. Raises
    UsageError for another phase, or without a loss."""
    phase = resolve_phase(model, phase)
    batch = batch or default_batch_size(model)
    program = model.trainer.plan_cache
    plan = program.plan(phase, step_specs(model.net, batch), create=False)
    what = _PHASES[kind_of(phase)] + (f" {step_of(phase)!r}" if step_of(phase) else "")
    title = f"{model.net.name}: {what}, batch {batch}, {program.backend.name}"
    return plan_printer.describe_plan(plan, program.backend, title)


def resolve_phase(model: Model, phase: str | None) -> str:
    """The phase of that name; None is "train" for a model with a loss, and the first of its steps where they alternate,
    else "predict"."""
    if phase is None:
        return plan_phases(model, None)[0]
    if kind_of(phase) == TRAIN and step_of(phase):
        model.trainer.plan_cache.update_rules.step(step_of(phase))
    elif phase not in _PHASES:
        phases = ", ".join(_PHASES)
        raise UsageError(f"there is no phase {phase!r}; there are {phases}.{did_you_mean(phase, _PHASES)}")
    return phase


def plan_phases(model: Model, phase: str | None) -> tuple[str, ...]:
    """The phases that a name means: one, or for "train" (or None, for a model with a loss) those of all steps that
    alternate."""
    plan_cache = model.trainer.plan_cache
    if phase not in (None, TRAIN):
        return (phase,)
    return plan_cache.training_phases if plan_cache.loss_terms or phase == TRAIN else (PREDICT,)


def default_batch_size(model: Model) -> int:
    """The batch size of the model's fit block; 32 without one."""
    return model.fit_block.batch_size if model.fit_block is not None else 32


def _format_shape(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
