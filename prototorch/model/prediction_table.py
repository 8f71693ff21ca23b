"""Predictions as a table: a row for each sample, with class names and probabilities, in CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.data.csv_writer import escape_cell
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import UsageError
from prototorch.model.prediction import Predictions

__all__ = ["TABLE_SUFFIXES", "prediction_rows", "write_prediction_table"]

TABLE_SUFFIXES = (".csv", ".jsonl")


def prediction_rows(predictions: Predictions) -> tuple[list[str], list[list[Any]]]:
    """The names of the columns, and the rows in the order of the samples.

    ``name`` is the sample's. An output that ranks classes gives ``prediction``, the most probable class, and the
    probability of each: ``p(cat)``. One of logits of yes and no gives ``prediction``, the class (or 0 and 1), and
    ``probability``, that of the second class. Values are ``prediction``, or ``prediction[0]``, ... Where there are
    several outputs, all begin with the output's name. Raises UsageError for outputs that are no rows of values.
    """
    header, columns = ["name"], [list(predictions.names)]
    for output, array in predictions.outputs.items():
        prefix = f"{output} " if len(predictions.outputs) > 1 else ""
        if array.ndim > 2:
            raise UsageError(
                f"the output {output!r} has the shape {list(array.shape[1:])}, and a row of a table has one axis: "
                "write a .npz or .h5 file"
            )
        values = np.asarray(array, np.float64).reshape(len(array), -1)
        kind = predictions.kinds.get(output, "scores")
        if values.shape[1] > 1 and kind in ("scores", "softmax"):
            names, parts = _class_columns(values, kind, predictions.classes)
        elif kind == "sigmoid" and values.shape[1] == 1:
            names, parts = _binary_columns(values[:, 0], predictions.classes)
        else:
            values = 1 / (1 + np.exp(-values)) if kind == "sigmoid" else values
            count = values.shape[1]
            names = ["prediction"] if count == 1 else [f"prediction[{i}]" for i in range(count)]
            parts = [list(map(float, column)) for column in values.T]
        header += [prefix + name for name in names]
        columns += parts
    return header, [list(row) for row in zip(*columns, strict=True)]


def write_prediction_table(path: str | os.PathLike[str], predictions: Predictions) -> None:
    """Write predictions whole or not at all; the ending says the format. See `prediction_rows`."""
    header, rows = prediction_rows(predictions)
    if Path(path).suffix == ".jsonl":
        lines = [json.dumps(dict(zip(header, map(_short, row), strict=True)), ensure_ascii=False) for row in rows]
        text = "".join(f"{line}\n" for line in lines)
    else:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        for row in (header, *rows):
            writer.writerow([escape_cell(_short(cell)) for cell in row])
        text = buffer.getvalue()
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def _class_columns(values: np.ndarray, kind: str, classes: Any) -> tuple[list[str], list[list[Any]]]:
    if kind == "softmax":
        exponentials = np.exp(values - values.max(1, keepdims=True))
        values = exponentials / exponentials.sum(1, keepdims=True)
    count = values.shape[1]
    labels = list(classes) if len(classes) == count else [str(k) for k in range(count)]
    best = [labels[k] for k in values.argmax(1)]
    return ["prediction", *(f"p({label})" for label in labels)], [best, *(list(map(float, c)) for c in values.T)]


def _binary_columns(logits: np.ndarray, classes: Any) -> tuple[list[str], list[list[Any]]]:
    probabilities = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
    labels = list(classes) if len(classes) == 2 else ["0", "1"]
    best = [labels[int(p > 0.5)] for p in probabilities]
    return ["prediction", "probability"], [best, list(map(float, probabilities))]


def _short(cell: Any) -> Any:
    """A number with the digits that float32 has."""
    return float(f"{cell:.7g}") if isinstance(cell, float) else cell
