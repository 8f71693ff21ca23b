"""`prototorch run`: train what a model text says."""

from __future__ import annotations

import click

from prototorch.base.early_signals import keeping_hangups
from prototorch.cli.caffe_options import caffe_options
from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    data_option,
    device_option,
    json_option,
    model_argument,
    quiet_option,
    set_option,
    threads_option,
    weights_option,
)


@deferred_command("prototorch.cli.actions.run", context=keeping_hangups)
@model_argument
@data_option
@set_option
@click.option("--epochs", type=click.IntRange(min=1), help="As --set fit.epochs=N; also sets the param that it reads.")
@click.option(
    "--run-dir",
    type=click.Path(file_okay=False),
    help="Where results go. Default: runs/NAME, or runs/NAME-2, ... where a run has ended there.",
)
@click.option("--resume", is_flag=True, help="Go on with an interrupted training, bit for bit.")
@click.option("--overwrite", is_flag=True, help="Replace the run that the run folder holds.")
@weights_option
@device_option
@threads_option
@click.option("--profile", is_flag=True, help="Show where the time went: data, steps, validation, ...")
@caffe_options
@quiet_option
@json_option
def command() -> None:
    """Train the model in FILE on the data it names, evaluate it, and keep the result.

    FILE is a model text, the name of a shipped model, or a solver of Caffe (docs/caffe.md). The run folder gets
    model.h5 (the trained model), result.json (its evaluation, the epoch of its weights, why training ended, numbers of
    samples), history.json, log.jsonl (a line an epoch, with its seconds and the share of them that was spent waiting
    for data) and a snapshot of the training's state after each epoch; of a solver Caffe's own snapshots.

    Ctrl-C and SIGTERM end the training after a step, with a snapshot; SIGHUP asks for a snapshot only.

    \b
    Examples:
      prototorch run alexnet
      prototorch run models/lenet.proto --data fashion-mnist --set fit.epochs=5
      prototorch run my.proto --resume
      prototorch run resnet18 --weights imagenet --except "logits/*" --set classes=5 --data photos
      prototorch run my.proto --epochs 1 --profile
      prototorch run solver.prototxt --weights bvlc_reference_caffenet.caffemodel
    """
