"""`prototorch warmup`: compile the kernels of models before they are needed."""

from __future__ import annotations

import click

from prototorch.cli.completion import complete_models
from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    allow_python_option,
    allow_read_option,
    json_option,
    set_option,
    threads_option,
)
from prototorch.measure.warmup import PREDICT, TEST, TRAIN


@deferred_command("prototorch.cli.actions.warmup")
@click.argument("files", metavar="[FILE]...", nargs=-1, shell_complete=complete_models)
@set_option
@allow_read_option
@allow_python_option
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(min=1),
    multiple=True,
    help="The batch size. Default: the fit block's, else 32. May be repeated.",
)
@click.option(
    "--phase", "phases", type=click.Choice((TRAIN, TEST, PREDICT)), multiple=True, help="Default: all. May be repeated."
)
@click.option("--clear", is_flag=True, help="First remove all kernels that are kept.")
@threads_option
@json_option
def command() -> None:
    """Compile the CPU's kernels for the steps of each FILE and keep them, so that a first step begins at once.

    Kernels are made for the sizes of a step: name the batch sizes that will be used; an epoch's last batch may be a
    smaller one. Without a FILE it says what is kept, and where.

    \b
    Examples:
      prototorch warmup lenet resnet50
      prototorch warmup my.proto --batch 1 --batch 16 --phase predict
      prototorch warmup --clear
    """
