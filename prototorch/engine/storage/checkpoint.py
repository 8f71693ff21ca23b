"""Checkpoints: a model in one file, with its expanded text, its weights and, to resume training, all of its state.

weights/<layer>/<weight>            the weights, float32, channels-first
optimizer/<layer>/<weight>/<slot>   the optimiser's slots
metrics/<phase>/<metric>/<total>    metric accumulators of the current epoch
state/<n>                           arrays in the state of callbacks
meta                                format version, model text, training state, history and ranges of the inputs as JSON
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from prototorch.data.table_columns import TableColumns
from prototorch.data.value_ranges import ValueRange
from prototorch.engine.storage import container
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import ModelFileError, UsageError
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX

__all__ = [
    "Checkpoint",
    "LoadReport",
    "check_ending",
    "check_model_meta",
    "compare_weights",
    "load",
    "save",
]

#: 2: the text has the channels of tables and sequences last, see `graph.text_upgrade`; 1: at axis 1
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Checkpoint:
    """The content of a file: ``arrays`` by variable name; ``training``, the training state or None; ``input_ranges``,
    the ranges of the training data by input; table_columns: the names of the columns of the training data; version: of
    the text, see `graph.text_upgrade.current_text`; history: the logs of the epochs, see `History.to_json`, or None."""

    text: str
    arrays: dict[str, np.ndarray]
    training: dict[str, Any] | None
    input_ranges: dict[str, ValueRange]
    table_columns: TableColumns
    version: int
    history: dict[str, Any] | None = None


def save(
    path: str | PathLike[str],
    text: str,
    variables: Mapping[str, Any],
    training: dict[str, Any] | None,
    input_ranges: Mapping[str, ValueRange] | None = None,
    table_columns: TableColumns | None = None,
    history: Mapping[str, Any] | None = None,
) -> None:
    """Write a model atomically: an existing file is replaced only by a complete new one.

    Without ``training`` only the weights are written. ``history``: of the epochs in which they were trained, see
    `History.to_json`. What processes that were killed while they wrote into this folder have left there is removed.
    Raises SnapshotError if the file cannot be written, UsageError for an ending that stands for another format.
    """
    check_ending(path)
    arrays: dict[str, np.ndarray] = {}
    for name, array in variables.items():
        if training is not None or not name.startswith((SLOT_PREFIX, METRIC_PREFIX)):
            arrays[_path_of_variable(name)] = np.asarray(array, order="C")
    meta: dict[str, str | int | float] = {"format": FORMAT_VERSION, "kind": "model", "model_text": text}
    if training is not None:
        try:
            meta["training"] = json.dumps(_extract_arrays(training, arrays))
        except TypeError as exc:
            raise UsageError(
                f"a callback's state must consist of numbers, strings, lists, dicts and arrays: {exc}"
            ) from None
    if history is not None:
        meta["history"] = json.dumps(_extract_arrays(history, arrays))
    if input_ranges:
        meta["input_ranges"] = json.dumps({name: one.to_json() for name, one in input_ranges.items()})
    if table_columns is not None and not table_columns.is_empty:
        meta["table_columns"] = json.dumps(table_columns.to_json())
    container.write(path, arrays, meta)


#: endings of files that other formats have, which are not written
_OTHER_FORMATS = {
    ".keras": "Keras' zip archive", ".pt": "a PyTorch file", ".pth": "a PyTorch file", ".ckpt": "a checkpoint of "
    "TensorFlow or PyTorch", ".onnx": "an ONNX model", ".safetensors": "a safetensors file",
    ".caffemodel": "a Caffe model",
    ".prototxt": "a Caffe text", ".proto": "a model text", ".npz": "a NumPy archive", ".npy": "a NumPy array",
    ".tflite": "a TensorFlow Lite model", ".pb": "a TensorFlow graph", ".pkl": "a Python pickle", ".pickle": "a Python "
    "pickle", ".json": "a JSON text", ".zip": "a zip archive", ".mlmodel": "a Core ML model", ".gguf": "a GGUF file",
}  # fmt: skip


def check_ending(path: str | PathLike[str]) -> None:
    """Raise UsageError for a path whose ending stands for another format than HDF5, which a model is saved as."""
    name = os.fspath(path)
    stem, ending = os.path.splitext(name)
    other = _OTHER_FORMATS.get(ending.lower())
    if other is not None:
        text = "; model.to_text() is the text" if ending in (".proto", ".prototxt") else ""
        raise UsageError(
            f"{name!r}: a model is saved as HDF5, but {ending} is the ending of {other}: take {stem + '.h5'!r}{text}"
        )


def load(path: str | PathLike[str], mapped: bool = False) -> Checkpoint:
    """Read a file written by `save`. mapped: the arrays are read-only views of the file, which take no memory.

    Raises ModelFileError for a damaged file, or one of another kind or version.
    """
    contents = container.map_contents(path) if mapped else container.read(path)
    meta = contents.meta
    check_model_meta(path, meta)
    variables = {n: a for p, a in contents.arrays.items() if (n := _variable_of_path(p)) is not None}
    training = None
    if "training" in meta:
        try:
            training = _insert_arrays(json.loads(str(meta["training"])), contents.arrays)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ModelFileError(f"{path}: its training state cannot be read: {error!r:.200}") from error
        if not isinstance(training, dict):
            raise ModelFileError(f"{path}: its training state must be a mapping, got {type(training).__name__}")
    try:
        ranges = json.loads(str(meta.get("input_ranges", "{}")))
        if not isinstance(ranges, dict):
            raise ValueError("expected a mapping")
        input_ranges = {name: ValueRange.from_json(value) for name, value in ranges.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path}: its input ranges cannot be read: {error!s:.200}") from error
    try:
        table = TableColumns()
        if "table_columns" in meta:
            table = TableColumns.from_json(json.loads(str(meta["table_columns"])))
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path}: its names of columns cannot be read: {error!s:.200}") from error
    try:
        history = json.loads(str(meta["history"])) if "history" in meta else None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: its history cannot be read: {error!s:.200}") from error
    return Checkpoint(str(meta["model_text"]), variables, training, input_ranges, table, int(meta["format"]), history)


def check_model_meta(path: str | PathLike[str], meta: Mapping[str, Any]) -> None:
    """Raise ModelFileError unless the scalars of a container are those of a saved model of a version that is read."""
    if meta.get("kind") != "model" or "model_text" not in meta:
        readers = {"compiled function": "load_compiled", "static graph": "Graph.load"}
        reader = readers.get(str(meta.get("kind")))
        hint = f": it is a {meta.get('kind')}, which prototorch.{reader} reads" if reader else ""
        raise ModelFileError(f"{path}: a prototorch file, but not a saved model{hint}")
    version = meta.get("format")
    if not isinstance(version, int) or not isinstance(meta["model_text"], str):
        raise ModelFileError(f"{path}: a saved model with an invalid format version or text")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: written by a newer prototorch (format {version}, this one reads {FORMAT_VERSION})"
        )


def compare_weights(weights: Mapping[str, Any], new: Mapping[str, np.ndarray]) -> LoadReport:
    """Which of the new weights match the names and shapes of ``weights``."""
    common = [n for n in weights if n in new]
    mismatched = tuple(
        (n, tuple(new[n].shape), tuple(weights[n].shape)) for n in common if new[n].shape != weights[n].shape
    )
    excluded = {n for n, _, _ in mismatched}
    return LoadReport(
        tuple(n for n in common if n not in excluded),
        tuple(n for n in weights if n not in new),
        tuple(n for n in new if n not in weights),
        mismatched,
    )


def _path_of_variable(name: str) -> str:
    if name.startswith(SLOT_PREFIX):
        weight, slot = name[len(SLOT_PREFIX) :].rsplit(":", 1)
        return f"optimizer/{weight}/{slot}"
    if name.startswith(METRIC_PREFIX):
        return "metrics/" + name[len(METRIC_PREFIX) :].replace("/", "|").replace(":", "/")
    return f"weights/{name}"


def _variable_of_path(path: str) -> str | None:
    kind, _, rest = path.partition("/")
    if kind == "weights":
        return rest
    if kind == "optimizer":
        return SLOT_PREFIX + ":".join(rest.rsplit("/", 1))
    if kind == "metrics":
        return METRIC_PREFIX + rest.replace("/", ":").replace("|", "/")
    return None


def _extract_arrays(value: object, arrays: dict[str, np.ndarray]) -> object:
    """The value as JSON; arrays are added to ``arrays`` and replaced by their paths."""
    if isinstance(value, np.ndarray):
        path = f"state/{sum(p.startswith('state/') for p in arrays)}"
        arrays[path] = value
        return {"$array": path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): _extract_arrays(v, arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_extract_arrays(v, arrays) for v in value]
    return value


def _insert_arrays(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The inverse of `_extract_arrays`."""
    if isinstance(value, dict):
        if set(value) == {"$array"}:
            return arrays[value["$array"]]
        return {k: _insert_arrays(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [_insert_arrays(v, arrays) for v in value]
    return value
