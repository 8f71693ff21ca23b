"""`prototorch time`: where the time of a step goes."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    devices_option,
    json_option,
    model_argument,
    set_option,
    threads_option,
)
from prototorch.measure.peers import PEERS


@deferred_command("prototorch.cli.actions.time")
@model_argument
@set_option
@click.option("--batch", type=click.IntRange(min=1), help="The batch size. Default: the fit block's, else 32.")
@click.option("--phase", metavar="NAME", help="train, test or predict. Default: train, where there is a loss.")
@click.option("--steps", type=click.IntRange(min=1), help="How often. Default: as often as fits in two seconds.")
@click.option("--detail", is_flag=True, help="Also each step of the plan, with its kernel.")
@click.option("--against", type=click.Choice(PEERS), help="Also the same net in PyTorch, measured alternately.")
@devices_option
@click.option("--without-cudnn", is_flag=True, help="Also each GPU by the package's own kernels alone, side by side.")
@threads_option
@json_option
def command() -> None:
    """Measure a step of FILE on random inputs: layer by layer forward, backward and update, in milliseconds.

    GFLOP/s and GB/s are what a layer needs divided by its time; "of peak" is the least time that this machine would
    need for it, by a large matrix product and a large copy measured in the same minute, divided by its time.

    A net of Caffe is measured as it is trained, with losses, layers by its own names; what its data files do not tell
    is given: --set data.shape=[3,227,227].

    --against torch then builds the same net in PyTorch, where that is installed, with the same weights, checks that
    outputs and losses agree, and times prediction and training step of both, alternately (SGD with momentum).

    --device cpu,cuda measures the same step on each device and prints the times side by side, with the settings they
    hold for. A device that cannot be used has a line that says why, and the command ends with its exit code.
    --without-cudnn adds a column for the GPU by the package's own kernels alone (PROTOTORCH_CUDNN=0 in other commands).

    \b
    Examples:
      prototorch time lenet
      prototorch time alexnet --batch 16 --phase predict --detail
      prototorch time resnet18 --batch 16 --against torch
      prototorch time resnet18 --batch 64 --device cpu,cuda
      prototorch time alexnet --batch 64 --device cpu,cuda --without-cudnn
      prototorch time train_val.prototxt --batch 16 --set data.shape=[3,227,227]
    """
