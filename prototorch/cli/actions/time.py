"""What `prototorch time` does."""

from __future__ import annotations

from functools import partial

import click

from prototorch.cli.caffe_files import is_caffe_net
from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model
from prototorch.errors import UsageError
from prototorch.measure.caffe_profile import profile_caffe_net
from prototorch.measure.compare import compare_with_torch
from prototorch.measure.device_comparison import Contender, DeviceComparison, compare_devices, without_cudnn_context
from prototorch.measure.profile import profile_step
from prototorch.measure.table import format_table
from prototorch.model.load import find_model_file


def run(
    file: str,
    overrides: tuple[str, ...],
    batch: int | None,
    phase: str | None,
    steps: int | None,
    detail: bool,
    against: str | None,
    devices: tuple[str, ...] | None,
    without_cudnn: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """See `prototorch.cli.commands.time`."""
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
