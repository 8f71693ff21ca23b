"""Inspection of a model without training it: errors, warnings, the summary, the plan of a step."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.errors import ModelError, TextError, UsageError, did_you_mean
from prototorch.graph import plan_printer
from prototorch.graph.plan_printer import PlanDescription
from prototorch.load import load_model
from prototorch.model import Model
from prototorch.text.diagnostics import Diagnostic, Report
from prototorch.train.dataset_binding import make_target
from prototorch.train.model_notes import find_model_notes
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import Summary, probe_specs, step_specs, trace_net
from prototorch.train.summary import summarize as summarize_net

__all__ = [
    "check_model",
    "default_batch_size",
    "describe_plan",
    "find_warnings",
    "resolve_phase",
    "summary",
]


def check_model(source: str, overrides: Sequence[str] = (), allow_read: Sequence[str] = ()) -> Model:
    """A model whose text, shapes, compile and fit blocks have been checked. Raises TextError with all errors."""
    model = load_model(source, overrides=overrides, allow_read=allow_read)
    report = Report()
    trace_net(model.net, 1, report)
    if len(report):
        report.diagnostics.extend(_find_layout_errors(model))
    report.raise_if_any()
    if model.compile_block is not None and model.compile_block.loss:
        try:
            specs = probe_specs(model.net, 1)
            outputs = model.trainer.plan_cache.output_specs(specs)
            for term in model.trainer.plan_cache.loss_terms:
                make_target(term, outputs[term.output])
        except (UsageError, ModelError) as exc:
            raise TextError([Diagnostic(f"compile: {exc}")]) from exc
    return model


def find_warnings(model: Model) -> list[str]:
    """Valid but unlikely: the notes of `train.model_notes`, which `Model.compile` and `Model.fit` issue as warnings."""
    return find_model_notes(model.net, model.trainer.plan_cache.loss_terms)


def _find_layout_errors(model: Model) -> list[Diagnostic]:
    """Inputs with the layout of another library (channels last, a batch dimension); reported with shape errors only."""
    errors = []
    for node in model.net.inputs:
        shape = node.shape
        prefix = f"the input {node.name!r} has the shape {_format_shape(shape)}; "
        if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4):
            channels_first = _format_shape((shape[2], *shape[:2]))
            errors.append(Diagnostic(f"{prefix}images are channels-first here: {channels_first}", node.span))
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
    block's, else 32). Nothing is run, no weight is made. Raises UsageError for another phase, or without a loss."""
    phase = resolve_phase(model, phase)
    batch = batch or default_batch_size(model)
    program = model.trainer.plan_cache
    plan = program.plan(phase, step_specs(model.net, batch), create=False)
    title = f"{model.net.name}: {_PHASES[phase]}, batch {batch}, {program.backend.name}"
    return plan_printer.describe_plan(plan, program.backend, title)


def resolve_phase(model: Model, phase: str | None) -> str:
    """The phase of that name; None is "train" for a model with a loss, else "predict"."""
    if phase is None:
        return TRAIN if model.trainer.plan_cache.loss_terms else PREDICT
    if phase not in _PHASES:
        phases = ", ".join(_PHASES)
        raise UsageError(f"there is no phase {phase!r}; there are {phases}.{did_you_mean(phase, _PHASES)}")
    return phase


def default_batch_size(model: Model) -> int:
    """The batch size of the model's fit block; 32 without one."""
    return model.fit_block.batch_size if model.fit_block is not None else 32


def _format_shape(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
