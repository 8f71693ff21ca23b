"""`prototorch summary`: layers, shapes, parameters, and the memory a step needs."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import json_option, model_argument, set_option


@deferred_command("prototorch.cli.actions.summary")
@model_argument
@set_option
@click.option("--batch", type=click.IntRange(min=1), default=None, help="Also the memory for this batch size.")
@json_option
def command() -> None:
    """Print the layers of FILE with output shapes and parameters; with --batch also the memory a training step needs.

    Of a net of Caffe also its blobs, with all axes; of a solver those of the net that it names.

    \b
    Examples:
      prototorch summary alexnet --batch 64
      prototorch summary my.proto --json
      prototorch summary deploy.prototxt
    """
