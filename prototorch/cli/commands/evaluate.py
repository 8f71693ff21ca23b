"""`prototorch evaluate`: loss and metrics of a saved model."""

from __future__ import annotations

import click

from prototorch.cli.caffe_options import state_options
from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    data_option,
    device_option,
    json_option,
    model_argument,
    set_option,
    threads_option,
    weights_option,
)


@deferred_command("prototorch.cli.actions.evaluate")
@model_argument
@data_option
@set_option
@weights_option
@device_option
@threads_option
@click.option("--iterations", type=click.IntRange(min=1), help="Caffe: the number of batches. Default: 50.")
@state_options
@click.option(
    "--report/--no-report",
    default=None,
    help="Classes that are confused, errors of values. Default: printed, and not part of --json.",
)
@json_option
def command() -> None:
    """Evaluate a model on the validation part of its data.

    With --data, on the validation or test part of that source if it has one, else on all of it. A net of Caffe is run
    on its own data layers; printed are the means of its outputs. Of classes precision, recall and the confusion matrix
    are printed, of values the errors by quantile (--no-report: loss and metrics alone, in half the time).

    \b
    Examples:
      prototorch evaluate runs/lenet/model.h5
      prototorch evaluate models/lenet.proto --weights runs/lenet/model.h5 --data fashion-mnist
      prototorch evaluate resnet50 --weights imagenet --data imagenet/val
      prototorch evaluate train_val.prototxt --weights net_iter_1000.caffemodel --iterations 50
    """
