"""`prototorch explain`: how much a model depends on each column of its data."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    device_option,
    json_option,
    model_argument,
    set_option,
    threads_option,
)


@deferred_command("prototorch.cli.actions.explain")
@model_argument
@click.argument("data", required=False)
@set_option
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="How often each column is shuffled."
)
@click.option(
    "--rows", type=click.IntRange(min=2), default=5000, show_default=True, help="At most so many samples are used."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random numbers.")
@device_option
@threads_option
@json_option
def command() -> None:
    """Print how much the loss and the metrics of a model change where one column of DATA is shuffled.

    The column on which the loss depends most comes first; one that changes nothing could be left out. Of columns that
    say the same thing each may look unimportant. Without DATA the validation data of the model's own.

    \b
    Examples:
      prototorch explain runs/houses/model.h5 houses.csv
      prototorch explain runs/houses/model.h5 --rows 1000 --repeats 20
    """
