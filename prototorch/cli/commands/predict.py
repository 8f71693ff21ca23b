"""`prototorch predict`: a saved model on images or arrays."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np

from prototorch.cli.options import (
    add_device_overrides,
    device_option,
    json_option,
    model_argument,
    open_model,
    print_json,
    threads_option,
    warn_untrained,
)
from prototorch.errors import DataError, UsageError
from prototorch.prediction import predict_files
from prototorch.storage.atomic_write import write_bytes


@click.command()
@model_argument
@click.argument("what", nargs=-1, required=True, metavar="WHAT...")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many classes are shown.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the outputs to a .npy or .npz file instead.")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True, help="Samples in one step.")
@device_option
@threads_option
@json_option
def command(file: str, what: tuple[str, ...], top: int, output: str | None, batch_size: int, device: str | None,
            threads: int | None, as_json: bool) -> int:  # fmt: skip
    """Use the saved model FILE on WHAT: image files, a folder of images, or an array (.npy, .npz).

    The model's own preprocess layers prepare the images; nothing else is needed.

    \b
    Examples:
      prototorch predict runs/alexnet/model.h5 cat.png dog.jpg
      prototorch predict runs/lenet/model.h5 digits.npy --output scores.npy
    """
    if output is not None and Path(output).suffix not in (".npy", ".npz"):
        raise UsageError(f"--output {output}: its name must end in .npy or .npz")
    model = open_model(file, add_device_overrides((), threads, device))
    if output is not None and output.endswith(".npy") and len(model.net.outputs) > 1:
        raise UsageError(f"--output {output}: the model has several outputs, which go into a .npz file")
    predictions = predict_files(model, what, batch_size)
    warn_untrained(file, "predicts")
    if output is not None:
        _write(output, predictions.outputs)
        click.echo(f"{len(predictions.names)} predictions in {output}", err=True)
    elif as_json:
        print_json(predictions.as_dicts(top))
    else:
        for line in predictions.format_lines(top):
            click.echo(line)
    for error in predictions.read_errors:
        click.echo(f"prototorch: {error}", err=True)
    return DataError.exit_code if predictions.read_errors else 0


def _write(path: str, outputs: Mapping[str, np.ndarray]) -> None:
    """The outputs as one file, whole or not at all."""
    buffer = io.BytesIO()
    if path.endswith(".npz"):
        np.savez(buffer, **outputs)  # type: ignore[arg-type]
    else:
        np.save(buffer, next(iter(outputs.values())))
    write_bytes(Path(path), buffer.getvalue())
