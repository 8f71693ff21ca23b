"""What `prototorch predict` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np

from prototorch.cli.image_preparation import find_blobs, prepare_images
from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model, warn_untrained
from prototorch.engine.storage.array_writer import ARRAY_SUFFIXES, write_arrays
from prototorch.errors import DataError, UsageError
from prototorch.model.prediction import Predictions, predict_files
from prototorch.model.prediction_table import TABLE_SUFFIXES, write_prediction_table
from prototorch.schema.patterns import matches


def run(
    file: str,
    what: tuple[str, ...],
    top: int,
    outputs: tuple[str, ...],
    to: str | None,
    batch_size: int,
    weights: str | None,
    allow_download: bool,
    mean: str | None,
    scale: float | None,
    labels: str | None,
    device: str | None,
    threads: int | None,
    as_json: bool,
) -> int:
    """See `prototorch.cli.commands.predict`."""
    files = [name for name in outputs if Path(name).suffix in ARRAY_SUFFIXES]
    if files and to is None:  # as --output was before it named layers
        to, outputs = files[-1], tuple(name for name in outputs if name not in files)
        click.echo(f"note: --output names a layer; a file is written by --to {to}", err=True)
    suffixes = (*ARRAY_SUFFIXES, *TABLE_SUFFIXES)
    if to is not None and Path(to).suffix not in suffixes:
        raise UsageError(f"--to {to}: its name must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    model = open_model(file, add_device_overrides((), threads, device), None, weights, allow_download)
    prepare_images(model, file, what, mean, scale, labels)
    blobs = find_blobs(file, outputs)
    rest = [name for name in outputs if not any(matches(name, blob) for blob in blobs)]
    predictions = predict_files(model, what, batch_size, (*blobs.values(), *rest))
    by_value = {value: blob for blob, value in blobs.items()}
    predictions.outputs = {by_value.get(name, name): array for name, array in predictions.outputs.items()}
    warn_untrained(file, "predicts", model)
    if to is not None:
        _write(to, predictions)
    elif as_json:
        print_json(predictions.as_dicts(top))
    else:
        for line in predictions.format_lines(top):
            click.echo(line)
    for error in predictions.read_errors:
        click.echo(f"prototorch: {error}", err=True)
    return DataError.exit_code if predictions.read_errors else 0


def _write(path: str, predictions: Predictions) -> None:
    if Path(path).suffix in TABLE_SUFFIXES:
        write_prediction_table(path, predictions)
        click.echo(f"{len(predictions.names)} predictions in {path}", err=True)
        return
    arrays = predictions.arrays()
    if path.endswith(".npy"):
        if len(predictions.outputs) > 1:
            raise UsageError(f"--to {path}: several outputs go into a .npz or .h5 file")
        arrays = predictions.outputs
    write_arrays(path, arrays)
    click.echo(f"{len(predictions.names)} predictions in {path}: {_list_shapes(arrays)}", err=True)
    if predictions.target_classes and "y" in predictions.targets and not path.endswith(".npy"):
        names = json.dumps(list(predictions.target_classes), ensure_ascii=False)
        click.echo(f"the labels are the numbers of these: data {{ classes: {names} }}", err=True)


def _list_shapes(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
