"""Looking at a model without training it: checking, summarising, predicting from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.data.image_folder import find_image_files
from prototorch.data.image_io import ImageReader
from prototorch.data.npz import is_npy, is_zip, read_npy, read_npz
from prototorch.data.safe_io import read_head
from prototorch.errors import DataError, ModelError, TextError, UsageError, did_you_mean
from prototorch.graph import plan_printer
from prototorch.graph.plan_printer import PlanDescription
from prototorch.load import load_model
from prototorch.model import Model
from prototorch.text.diagnostics import Diagnostic, Report
from prototorch.train.dataset_binding import make_target
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import Summary, probe_specs, step_specs, trace_net
from prototorch.train.summary import summarize as summarised


def check_model(source: str, overrides: Sequence[str] = ()) -> Model:
    """A model whose text, shapes, compile and fit blocks have all been checked. Raises TextError with every mistake."""
    model = load_model(source, overrides=overrides)
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
    """What is no mistake, but hardly meant: probabilities where the loss takes logits, and the other way round."""
    found = []
    made = {top: node for node in model.net.nodes for top in node.tops}
    for term in model.trainer.plan_cache.loss_terms:
        node, logits = made.get(term.output), getattr(term.loss, "from_logits", None)
        if node is None or logits is None:
            continue
        last = getattr(node.layer, "activation", node.layer)
        name, loss = type(last).__name__, type(term.loss).__name__
        if logits and name in ("Softmax", "LogSoftmax", "Sigmoid"):
            found.append(
                f"{loss} {{ from_logits: true }} takes scores before any softmax, but {node.name!r} ends with {name}: "
                "leave out one of the two"
            )
        elif not logits and name in ("Linear", "ReLU", "Tanh"):
            wanted = "sigmoid" if term.loss.target_kind == "binary" else "softmax"
            found.append(
                f"{loss} takes probabilities, but {node.name!r} has the activation {name}: write "
                f"{{ from_logits: true }} at the loss, or activation: {wanted}"
            )
    return found


def _find_layout_errors(model: Model) -> list[Diagnostic]:
    """Inputs that look as if they were written for another library; only told where shapes went wrong."""
    found = []
    for node in model.net.inputs:
        shape = node.shape
        said = f"the input {node.name!r} has the shape {_format_shape(shape)}; "
        if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4):
            turned = _format_shape((shape[2], *shape[:2]))
            found.append(Diagnostic(f"{said}pictures are channels-first here: {turned}", node.span))
        elif len(shape) == 4 and shape[0] is None:
            found.append(
                Diagnostic(f"{said}the batch dimension is left out here: {_format_shape(shape[1:])}", node.span)
            )
    return found


def summary(model: Model, batch: int | None = None) -> Summary:
    """What `Model.summary` prints, as data: for a batch size also the memory of a step."""
    return summarised(model.net, model.trainer.plan_cache, batch)


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
    """The phase asked for; else "train" for a model with a loss, "predict" for one without."""
    if phase is None:
        return TRAIN if model.trainer.plan_cache.loss_terms else PREDICT
    if phase not in _PHASES:
        known = ", ".join(_PHASES)
        raise UsageError(f"there is no phase {phase!r}; there are {known}.{did_you_mean(phase, _PHASES)}")
    return phase


def default_batch_size(model: Model) -> int:
    """The batch size of the model's fit block; 32 where it has none."""
    return model.fit_block.batch_size if model.fit_block is not None else 32


@dataclass
class Predictions:
    """Outputs for named samples.

    classes: the names of an output's classes, where they are known. kinds: what an output's numbers are by its loss:
    "softmax" or "sigmoid" where they become probabilities by it, "scores" where they are ranked as they are, else
    "values". broken: what was wrong with each picture that could not be read.
    """

    names: list[str]
    outputs: dict[str, np.ndarray]
    classes: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    read_errors: Sequence[str] = ()

    def format_lines(self, top: int) -> list[str]:
        """A line for each sample: the likeliest classes of an output of scores, else the numbers."""
        made = []
        for i, name in enumerate(self.names):
            shown = []
            for output in self.outputs:
                best = self.top_classes(output, i, top)
                text = "  ".join(f"{label} {score:.3f}" for label, score in best) if best else self._numbers(output, i)
                shown.append(text if len(self.outputs) == 1 else f"{output}: {text}")
            made.append(f"{name}: " + "  ".join(shown))
        return made

    def top_classes(self, output: str, sample: int, top: int) -> list[tuple[str, float]]:
        """The likeliest classes of a sample with their probabilities; empty for an output that ranks no classes."""
        row = np.asarray(self.outputs[output][sample], np.float64)
        kind = self.kinds.get(output, "scores")
        if row.ndim != 1 or row.size < 2 or kind not in ("scores", "softmax"):
            return []
        if kind == "softmax":
            e = np.exp(row - row.max())
            row = e / e.sum()
        named = self.classes if len(self.classes) == row.size else [str(k) for k in range(row.size)]
        return [(named[k], float(row[k])) for k in np.argsort(-row, kind="stable")[:top]]

    def as_dicts(self, top: int) -> list[dict[str, Any]]:
        """For JSON: the name of each sample, its outputs, and with known classes the likeliest ones."""
        made: list[dict[str, Any]] = []
        for i, name in enumerate(self.names):
            one: dict[str, Any] = {"name": name, "outputs": {k: v[i] for k, v in self.outputs.items()}}
            ranked = {k: best for k in self.outputs if (best := self.top_classes(k, i, top))}
            if ranked:
                one["classes"] = {k: [{"class": c, "score": s} for c, s in best] for k, best in ranked.items()}
            made.append(one)
        return made

    def _numbers(self, output: str, sample: int) -> str:
        row = np.asarray(self.outputs[output][sample], np.float64)
        if self.kinds.get(output) == "sigmoid":
            row = 1 / (1 + np.exp(-np.clip(row, -500, 500)))
        return np.array2string(row, precision=4, threshold=20, suppress_small=True).replace("\n", "")


def predict_files(model: Model, what: Sequence[str], batch_size: int = 32) -> Predictions:
    """Predictions for picture files, folders of them, or one array file.

    A picture that cannot be read is left out and told in ``broken``. Raises DataError where nothing is left, for a path
    that is not there, and for an array that does not fit; UsageError for a mixture of pictures and arrays.
    """
    paths: list[str] = []
    array_files: list[Path] = []
    for item in what:
        path = Path(item)
        if path.is_dir():
            found = find_image_files(path)
            if not found:
                raise DataError(f"{item}: holds no pictures")
            paths += found
        elif not path.exists():
            raise DataError(f"{item}: no such file or folder")
        else:
            head = read_head(path, 16)
            (array_files if is_npy(head) or is_zip(head) else paths).append(path)  # type: ignore[arg-type]
    if array_files:
        if paths or len(array_files) > 1:
            raise UsageError("predict takes pictures and folders of them, or one array file, not several of these")
        return _predict_array(model, array_files[0], batch_size)
    return _predict_images(model, [str(p) for p in paths], batch_size)


def _predict_array(model: Model, path: Path, batch_size: int) -> Predictions:
    held: Any = read_npy(path) if is_npy(read_head(path, 16)) else read_npz(path)
    if isinstance(held, Mapping):
        wanted = [i.name for i in model.net.inputs]
        if all(name in held for name in wanted):
            held = {name: held[name] for name in wanted}
        elif "x" in held or len(held) == 1:
            held = held["x"] if "x" in held else next(iter(held.values()))
        else:
            raise DataError(f"{path}: holds {', '.join(held)}; the model reads {', '.join(wanted)} (or one array 'x')")
    try:
        outputs = _name_outputs(model, model.predict(held, batch_size=batch_size))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    names = [str(i) for i in range(len(next(iter(outputs.values()))))]
    return Predictions(names, outputs, _class_names(model), output_kinds(model))


def _predict_images(model: Model, paths: Sequence[str], batch_size: int) -> Predictions:
    inputs = model.net.inputs
    if len(inputs) != 1 or len(inputs[0].shape) != 3 or inputs[0].shape[0] not in (1, 3, None):
        shown = ", ".join(f"{i.name} {_format_shape(i.shape)}" for i in inputs)
        raise DataError(f"{paths[0]}: the model does not read single pictures but {shown}; give a .npy or .npz file")
    reader = _image_reader(model)
    names: list[str] = []
    broken: list[str] = []
    made: list[dict[str, np.ndarray]] = []
    waiting: list[np.ndarray] = []

    def flush() -> None:
        if waiting:
            made.append(_name_outputs(model, model.predict(np.stack(waiting), batch_size=batch_size)))
            waiting.clear()

    for path in paths:
        try:
            picture = reader.read(path)
        except DataError as error:
            broken.append(str(error))
            continue
        if waiting and (picture.shape != waiting[0].shape or len(waiting) == 8 * batch_size):
            flush()
        names.append(path)
        waiting.append(picture)
    flush()
    if not made:
        raise DataError("\n".join(broken))
    joined: dict[str, np.ndarray] = {k: np.concatenate([e[k] for e in made]) for k in made[0]}
    return Predictions(names, joined, _class_names(model), output_kinds(model), broken)


def _image_reader(model: Model) -> ImageReader:
    """Pictures as training read them: what the data block says, else what the model's input wants."""
    shape = model.net.inputs[0].shape
    block = model.fit_block.data if model.fit_block is not None else None
    color = block.color if block is not None else None
    size: Any = block.size if block is not None else None
    recolored = any(type(layer).__name__ == "ColorChannels" for layer in model.net.preprocess)
    sized = any(type(layer).__name__ in ("Resizing", "CenterCrop") for layer in model.net.preprocess)
    if size is None and not sized and None not in shape[1:]:
        size = (shape[1], shape[2])
    color = color or ("gray" if shape[0] == 1 and not recolored else "rgb")
    return ImageReader(size, color, block.resize if block is not None else "stretch")


def _name_outputs(model: Model, outputs: Any) -> dict[str, np.ndarray]:
    return outputs if isinstance(outputs, dict) else {model.net.outputs[0]: outputs}


def _format_shape(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"


def _class_names(model: Model) -> Sequence[str]:
    block = model.fit_block
    return () if block is None or block.data is None else tuple(block.data.classes)


def output_kinds(model: Model) -> dict[str, str]:
    """What the numbers of each output are, by its loss: see `Predictions`."""
    kinds = {}
    for term in model.trainer.plan_cache.loss_terms:
        logits = bool(getattr(term.loss, "from_logits", False))
        if term.loss.target_kind in ("classes", "one_hot"):
            kinds[term.output] = "softmax" if logits else "scores"
        else:
            kinds[term.output] = "sigmoid" if logits and term.loss.target_kind == "binary" else "values"
    return kinds


__all__ = [
    "PlanDescription",
    "Predictions",
    "Summary",
    "check_model",
    "describe_plan",
    "find_warnings",
    "predict_files",
    "summary",
]
