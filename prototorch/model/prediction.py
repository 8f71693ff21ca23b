"""Predictions for image files, folders of images and array files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prototorch.base.terminal import escape_line
from prototorch.data.image_folder import folder_labels
from prototorch.data.pipeline.samples import open_paths
from prototorch.model.model import Model
from prototorch.model.structure import class_names

__all__ = ["Predictions", "output_kinds", "predict_files"]


@dataclass
class Predictions:
    """Outputs for named samples.

    classes: the names of the classes, if known. kinds: the kind of each output's elements by its loss: "softmax" or
    "sigmoid" for logits of probabilities, "scores" for probabilities of classes, else "values". read_errors: an error
    message for each image that could not be read. targets: what the source says of the samples, by column;
    target_classes: the names of their classes, those of the folders; splits: the split of each sample, as "train".
    """

    names: list[str]
    outputs: dict[str, np.ndarray]
    classes: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    read_errors: Sequence[str] = ()
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    target_classes: Sequence[str] = ()
    splits: Sequence[str] = ()

    def format_lines(self, top: int) -> list[str]:
        """One line per sample: the most probable classes of an output that ranks classes, else its values."""
        lines = []
        for i, name in enumerate(self.names):
            parts = []
            for output in self.outputs:
                best = self.top_classes(output, i, top)
                text = (
                    "  ".join(f"{escape_line(label)} {score:.3f}" for label, score in best)
                    if best
                    else self._format_values(output, i)
                )
                parts.append(text if len(self.outputs) == 1 else f"{output}: {text}")
            lines.append(f"{escape_line(name)}: " + "  ".join(parts))
        return lines

    def top_classes(self, output: str, sample: int, top: int) -> list[tuple[str, float]]:
        """The most probable classes of a sample with their probabilities; empty for an output that ranks no classes."""
        row = np.asarray(self.outputs[output][sample], np.float64)
        kind = self.kinds.get(output, "scores")
        if row.ndim != 1 or row.size < 2 or kind not in ("scores", "softmax"):
            return []
        if kind == "softmax":
            e = np.exp(row - row.max())
            row = e / e.sum()
        labels = self.classes if len(self.classes) == row.size else [str(k) for k in range(row.size)]
        return [(labels[k], float(row[k])) for k in np.argsort(-row, kind="stable")[:top]]

    def as_dicts(self, top: int) -> list[dict[str, Any]]:
        """For JSON: the name of each sample, its outputs, and the most probable classes."""
        results: list[dict[str, Any]] = []
        for i, name in enumerate(self.names):
            one: dict[str, Any] = {"name": name, "outputs": {k: v[i] for k, v in self.outputs.items()}}
            top_by_output = {k: best for k in self.outputs if (best := self.top_classes(k, i, top))}
            if top_by_output:
                one["classes"] = {k: [{"class": c, "score": s} for c, s in best] for k, best in top_by_output.items()}
            results.append(one)
        return results

    def arrays(self) -> dict[str, np.ndarray]:
        """The outputs by name, with the targets, as a data source of named arrays: ``pool5``, ``y``; where the samples
        belong to splits ``pool5_train``, ``y_train``, ..."""
        columns = {**self.outputs, **self.targets}
        if not self.splits:
            return columns
        at = np.array(self.splits)
        return {f"{k}_{split}": v[at == split] for split in dict.fromkeys(self.splits) for k, v in columns.items()}

    def _format_values(self, output: str, sample: int) -> str:
        row = np.asarray(self.outputs[output][sample], np.float64)
        if self.kinds.get(output) == "sigmoid":
            row = 1 / (1 + np.exp(-np.clip(row, -500, 500)))
        return np.array2string(row, precision=4, threshold=20, suppress_small=True).replace("\n", "")


def predict_files(model: Model, what: Sequence[str], batch_size: int = 32, outputs: Sequence[str] = ()) -> Predictions:
    """Predictions for image files, folders of images, one array file (npy, npz, HDF5), or one CSV table; of a model
    that reads texts for texts, files of a text per line, tables, and folders of text files.

    outputs: names or patterns of layers whose outputs are given in the place of the model's, see `Model.submodel`.
    An image that cannot be read is skipped and reported in ``read_errors``. Raises DataError if no image could be read,
    for a missing path, and for an array of another shape; UsageError for a mixture of kinds.
    """
    part = model.submodel(outputs) if outputs else model
    whole = model.signature()
    signature = replace(part.signature(), data=whole.data, table=whole.table).without_targets
    samples = open_paths(what, signature, batch_size)
    arrays = _name_outputs(part, part.predict(samples, batch_size=batch_size))
    names = samples.names or [str(i) for i in range(len(next(iter(arrays.values()))))]
    predictions = Predictions(names, arrays, read_errors=samples.read_errors, targets=samples.targets)
    if samples.folder is not None:
        labels, predictions.target_classes, predictions.splits = folder_labels(samples.folder, names)
        predictions.targets = {"y": np.array(labels, np.int64)} if labels else {}
    return _with_classes(model, predictions, outputs)


def _with_classes(model: Model, predictions: Predictions, outputs: Sequence[str]) -> Predictions:
    """The predictions with the names of the classes and the kinds of the outputs."""
    predictions.classes = class_names(model.net, model.fit_block, model.table_columns)
    kinds = output_kinds(model)
    predictions.kinds = {name: kinds.get(name, "values" if outputs else "scores") for name in predictions.outputs}
    return predictions


def _name_outputs(model: Model, outputs: Any) -> dict[str, np.ndarray]:
    return outputs if isinstance(outputs, dict) else {model.net.outputs[0]: outputs}


def output_kinds(model: Model) -> dict[str, str]:
    """The kind of each output's elements, by its loss: see `Predictions`."""
    kinds = {}
    for term in model.trainer.plan_cache.loss_terms:
        if term.output not in model.net.outputs or not term.loss.needs_target:
            continue
        logits = bool(getattr(term.loss, "from_logits", False))
        if term.loss.target_kind in ("classes", "one_hot"):
            kinds[term.output] = "softmax" if logits else "scores"
        else:
            kinds[term.output] = "sigmoid" if logits and term.loss.target_kind == "binary" else "values"
    return kinds
