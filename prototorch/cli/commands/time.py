"""`prototorch time`: where the time of a step goes."""

from __future__ import annotations

from functools import partial

import click

from prototorch.cli.image_options import is_caffe_net
from prototorch.cli.options import (
    add_device_overrides,
    devices_option,
    json_option,
    model_argument,
    open_model,
    print_json,
    set_option,
    threads_option,
)
from prototorch.errors import UsageError
from prototorch.measure.caffe_profile import profile_caffe_net
from prototorch.measure.compare import PEERS, compare_with_torch
from prototorch.measure.device_comparison import Contender, DeviceComparison, compare_devices, without_cudnn_context
from prototorch.measure.profile import profile_step
from prototorch.measure.table import format_table
from prototorch.model.load import find_model_file


@click.command()
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
def command(file: str, overrides: tuple[str, ...], batch: int | None, phase: str | None, steps: int | None,
            detail: bool, against: str | None, devices: tuple[str, ...] | None, without_cudnn: bool,
            threads: int | None, as_json: bool) -> None:  # fmt: skip
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
    if without_cudnn and not any(name.startswith("cuda") for name in devices or ()):
        raise UsageError("--without-cudnn is about a GPU: give --device cuda, or --device cpu,cuda")
    if devices is not None and (len(devices) > 1 or without_cudnn):
        if against is not None:
            raise UsageError("--against compares on one device: give one --device, and not --without-cudnn")
        if phase in (None, "train") and is_caffe_net(file):
            raise UsageError("a net of Caffe is trained on one device: give one --device, or --phase predict")
        contenders = []
        for name in devices:
            open_one = partial(open_model, file, add_device_overrides(overrides, threads, name))
            contenders.append(Contender(name, open_one))
            if without_cudnn and name.startswith("cuda"):
                contenders.append(Contender(f"{name}, without cuDNN", open_one, without_cudnn_context))
        _print_comparison(compare_devices(contenders, phase, batch, steps), detail, as_json)
        return
    device = None if devices is None else devices[0]
    profile = None
    if phase in (None, "train") and against is None and is_caffe_net(file):
        profile = profile_caffe_net(find_model_file(file), batch, steps, overrides)
    if profile is not None:
        print_json(profile.as_dict()) if as_json else click.echo("\n".join(format_table(profile, detail)))
        return
    model = open_model(file, add_device_overrides(overrides, threads, device))
    profile = profile_step(model, phase, batch, steps)
    if not as_json:
        click.echo("\n".join(format_table(profile, detail)))
    rival = compare_with_torch(model, phase, batch, steps) if against is not None else None
    if as_json:
        print_json({**profile.as_dict(), **({} if rival is None else {"against": rival.as_dict()})})
    elif rival is not None:
        click.echo("\n".join(["", *rival.lines()]))


def _print_comparison(comparison: DeviceComparison, detail: bool, as_json: bool) -> None:
    """Print the times of several devices; raise the error of the first that cannot be used, after the others."""
    if as_json:
        print_json(comparison.as_dict())
    else:
        click.echo("\n".join(comparison.lines()))
        for _, profile in comparison.profiles if detail else ():
            click.echo("\n".join(["", *format_table(profile, detail)]))
    if comparison.errors:
        raise comparison.errors[0]
