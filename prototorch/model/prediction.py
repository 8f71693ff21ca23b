"""Predictions for image files, folders of images and array files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.base.terminal import escape_line
from prototorch.data.array_conversion import TARGET_NAMES
from prototorch.data.csv_reader import read_csv
from prototorch.data.image_folder import IMAGE_SUFFIXES, find_image_files, folder_labels
from prototorch.data.image_io import ImageReader
from prototorch.data.npz import is_npy, is_zip, read_npy, read_npz
from prototorch.data.safe_io import is_text, read_head
from prototorch.data.text_files import read_texts
from prototorch.engine.storage.hdf5_source import is_hdf5, read_hdf5
from prototorch.errors import DataError, UsageError
from prototorch.model.model import Model
from prototorch.model.structure import class_names

__all__ = ["Predictions", "is_table", "output_kinds", "predict_files"]


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
    if model.net.tokenizers() and not _are_arrays(what):
        return _with_classes(model, _predict_texts(model, part, what, batch_size), outputs)
    paths: list[str] = []
    tables: list[Path] = []
    for item in what:
        path = Path(item)
        if path.is_dir():
            images = find_image_files(path)
            if not images:
                raise DataError(f"{item}: holds no images")
            paths += images
        elif not path.exists():
            raise DataError(f"{item}: no such file or folder")
        else:
            (tables if is_table(path) else paths).append(path)  # type: ignore[arg-type]
    if tables:
        if paths or len(tables) > 1:
            raise UsageError("predict takes images and folders of images, or one array file or table, not both")
        columns, targets = _read_table(model, tables[0])
        predictions = _predict_arrays(part, tables[0], columns, batch_size)
        predictions.targets = targets
    else:
        predictions = _predict_images(model, part, [str(p) for p in paths], batch_size)
        if len(what) == 1 and Path(what[0]).is_dir():
            labels, predictions.target_classes, predictions.splits = folder_labels(Path(what[0]), predictions.names)
            predictions.targets = {"y": np.array(labels, np.int64)} if labels else {}
    return _with_classes(model, predictions, outputs)


def _with_classes(model: Model, predictions: Predictions, outputs: Sequence[str]) -> Predictions:
    """The predictions with the names of the classes and the kinds of the outputs."""
    predictions.classes = class_names(model.net, model.fit_block)
    kinds = output_kinds(model)
    predictions.kinds = {name: kinds.get(name, "values" if outputs else "scores") for name in predictions.outputs}
    return predictions


def _are_arrays(what: Sequence[str]) -> bool:
    """Whether the first of these is a file of arrays: of ids, where the model reads texts."""
    path = Path(what[0])
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a long text is no path
        return False
    head = read_head(path, 16) if is_file else b""
    return is_npy(head) or is_zip(head) or is_hdf5(head)


def _predict_texts(model: Model, part: Model, what: Sequence[str], batch_size: int) -> Predictions:
    """Predictions for texts; each of ``what`` is a text file of lines, a table, a folder of text files, or a text."""
    if len(part.net.inputs) != 1:
        raise UsageError(f"the model reads {len(part.net.inputs)} inputs; `prototorch generate` makes a text of a text")
    block = model.fit_block.data if model.fit_block is not None else None
    names, texts = read_texts(what, block.features if block is not None else ())
    return Predictions(names, _name_outputs(part, part.predict(texts, batch_size=batch_size)))


def is_table(path: Path) -> bool:
    """Whether a file holds arrays or a table, not an image."""
    head = read_head(path, 4096)
    is_table_text = is_text(head) and path.suffix.lower() not in IMAGE_SUFFIXES
    return is_npy(head) or is_zip(head) or is_hdf5(head) or is_table_text


def _read_table(model: Model, path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """The arrays of a file that the model reads, and those that are targets."""
    head = read_head(path, 16)
    if is_npy(head):
        return read_npy(path), {}
    if not (is_zip(head) or is_hdf5(head)):
        return _read_csv(model, path)
    arrays = read_npz(path) if is_zip(head) else read_hdf5(path)
    input_names = [i.name for i in model.net.inputs]
    targets = {name: arrays[name] for name in TARGET_NAMES if name in arrays and name not in input_names}
    rest = [name for name in arrays if name not in targets]
    if all(name in arrays for name in input_names):
        return {name: arrays[name] for name in input_names}, targets
    if "x" in arrays or len(arrays) == 1 or (len(rest) == 1 and len(input_names) == 1):
        return arrays["x"] if "x" in arrays else arrays[(rest or list(arrays))[0]], targets
    wanted = ", ".join(input_names)
    raise DataError(f"{path}: holds {', '.join(arrays)}; the model reads {wanted} (or one array 'x')")


def _read_csv(model: Model, path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """The columns of a table that the model was trained on; without their names all, or all but the target's."""
    block = model.fit_block.data if model.fit_block is not None else None
    features, label = ([*block.features], [*block.label]) if block is not None else ([], [])
    if features:
        table = read_csv(path, label=[], features=features)
    else:
        table = read_csv(path, label=[])
        size = model.net.inputs[0].shape[-1:] if len(model.net.inputs) == 1 else ()
        if size and size[0] is not None and table.columns["x"].shape[0] == size[0] + 1:
            table = read_csv(path, label=label or -1)
    target = table.column_array(table.targets[0]) if table.targets else None
    return table.column_array("x"), {} if target is None else {"y": target}


def _predict_arrays(model: Model, path: Path, arrays: Any, batch_size: int) -> Predictions:
    try:
        outputs = _name_outputs(model, model.predict(arrays, batch_size=batch_size))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return Predictions([str(i) for i in range(len(next(iter(outputs.values()))))], outputs)


def _predict_images(model: Model, part: Model, paths: Sequence[str], batch_size: int) -> Predictions:
    inputs = part.net.inputs
    if len(inputs) != 1 or len(inputs[0].shape) != 3 or inputs[0].shape[0] not in (1, 3, None):
        inputs_text = ", ".join(f"{i.name} {_format_shape(i.shape)}" for i in inputs)
        raise DataError(
            f"{paths[0]}: the model's input is not an image but {inputs_text}; give a .npy, .npz, .h5 or .csv file"
        )
    reader = _image_reader(model)
    names: list[str] = []
    read_errors: list[str] = []
    batches: list[dict[str, np.ndarray]] = []
    pending: list[np.ndarray] = []

    def flush() -> None:
        if pending:
            batches.append(_name_outputs(part, part.predict(np.stack(pending), batch_size=batch_size)))
            pending.clear()

    for path in paths:
        try:
            image = reader.read(path)
        except DataError as error:
            read_errors.append(str(error))
            continue
        if pending and (image.shape != pending[0].shape or len(pending) == 8 * batch_size):
            flush()
        names.append(path)
        pending.append(image)
    flush()
    if not batches:
        raise DataError("\n".join(read_errors))
    outputs: dict[str, np.ndarray] = {k: np.concatenate([e[k] for e in batches]) for k in batches[0]}
    return Predictions(names, outputs, read_errors=read_errors)


def _image_reader(model: Model) -> ImageReader:
    """The reader of images that training used: by the data block, else by the model's input shape."""
    shape = model.net.inputs[0].shape
    block = model.fit_block.data if model.fit_block is not None else None
    color = block.color if block is not None else None
    size: Any = block.size if block is not None else None
    converts_color = any(layer.type_name() == "ColorChannels" for layer in model.net.preprocess)
    resizes = any(layer.type_name() in ("Resizing", "CenterCrop") for layer in model.net.preprocess)
    if size is None and not resizes and None not in shape[1:]:
        size = (shape[1], shape[2])
    color = color or ("gray" if shape[0] == 1 and not converts_color else "rgb")
    return ImageReader(size, color, block.resize if block is not None else "stretch")


def _name_outputs(model: Model, outputs: Any) -> dict[str, np.ndarray]:
    return outputs if isinstance(outputs, dict) else {model.net.outputs[0]: outputs}


def _format_shape(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"


def output_kinds(model: Model) -> dict[str, str]:
    """The kind of each output's elements, by its loss: see `Predictions`."""
    kinds = {}
    for term in model.trainer.plan_cache.loss_terms:
        logits = bool(getattr(term.loss, "from_logits", False))
        if term.loss.target_kind in ("classes", "one_hot"):
            kinds[term.output] = "softmax" if logits else "scores"
        else:
            kinds[term.output] = "sigmoid" if logits and term.loss.target_kind == "binary" else "values"
    return kinds
