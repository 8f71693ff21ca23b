"""`prototorch summary`: layers, shapes, parameters, and the memory a step needs."""

from __future__ import annotations

import click

from prototorch.checking import summary
from prototorch.cli.options import json_option, model_argument, open_model, print_json, set_option


@click.command()
@model_argument
@set_option
@click.option("--batch", type=click.IntRange(min=1), default=None, help="Also the memory for this batch size.")
@json_option
def command(file: str, overrides: tuple[str, ...], batch: int | None, as_json: bool) -> None:
    """Print the layers of FILE with output shapes and parameters; with --batch also the memory a training step needs.

    \b
    Examples:
      prototorch summary alexnet --batch 64
      prototorch summary my.proto --json
    """
    result = summary(open_model(file, overrides), batch)
    if as_json:
        print_json(result.as_dict())
    else:
        click.echo(str(result))
