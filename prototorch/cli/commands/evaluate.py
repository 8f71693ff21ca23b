"""`prototorch evaluate`: loss and metrics of a saved model."""

from __future__ import annotations

import click

from prototorch.cli.options import (
    add_device_overrides,
    data_option,
    device_option,
    json_option,
    model_argument,
    open_model,
    print_json,
    set_option,
    threads_option,
    warn_untrained,
)
from prototorch.train.progress import format_logs


@click.command()
@model_argument
@data_option
@set_option
@click.option("--weights", metavar="FILE", help="Weights to load first, where FILE is a text.")
@device_option
@threads_option
@json_option
def command(file: str, data: str | None, overrides: tuple[str, ...], weights: str | None, device: str | None,
            threads: int | None, as_json: bool) -> None:  # fmt: skip
    """Evaluate a model on the validation part of its data (or of --data).

    \b
    Examples:
      prototorch evaluate runs/lenet/model.h5
      prototorch evaluate models/lenet.proto --weights runs/lenet/model.h5 --data fashion-mnist
    """
    model = open_model(file, add_device_overrides(overrides, threads, device), data)
    if weights is not None:
        model.load_weights(weights)
    results = model.evaluate()
    if weights is None:
        warn_untrained(file, "was evaluated")
    if as_json:
        print_json(results)
    else:
        click.echo(format_logs(results))
