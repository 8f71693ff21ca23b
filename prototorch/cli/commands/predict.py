"""`prototorch predict`: a saved model on pictures or arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from prototorch.cli.options import json_option, model_argument, opened, plain, print_json
from prototorch.inspect import predictions


@click.command()
@model_argument
@click.argument("what", nargs=-1, required=True, metavar="WHAT...")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many classes are shown.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the outputs to a .npy or .npz file instead.")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@json_option
def command(file: str, what: tuple[str, ...], top: int, output: str | None, batch_size: int, as_json: bool) -> None:
    """Use the saved model FILE on WHAT: picture files, a folder of pictures, or an array (.npy, .npz).

    The model's own preprocess layers prepare the pictures; nothing else is needed.

    \b
    Examples:
      prototorch predict runs/alexnet/model.h5 cat.png dog.jpg
      prototorch predict runs/lenet/model.h5 digits.npy --output scores.npy
    """
    model = opened(file, ())
    found = predictions(model, what, batch_size)
    if output is not None:
        if Path(output).suffix == ".npz":
            arrays: dict[str, Any] = {**found.outputs}
            np.savez(output, **arrays)
        else:
            np.save(output, next(iter(found.outputs.values())))
        click.echo(f"{len(found.names)} predictions in {output}", err=True)
    elif as_json:
        print_json(
            [{"name": n, **{k: plain(v[i]) for k, v in found.outputs.items()}} for i, n in enumerate(found.names)]
        )
    else:
        for line in found.lines(top):
            click.echo(line)
