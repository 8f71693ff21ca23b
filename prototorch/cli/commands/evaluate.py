"""`prototorch evaluate`: loss and metrics of a saved model."""

from __future__ import annotations

from typing import Any

import click

from prototorch.cli.caffe_options import caffe_kind_of, refuse_caffe_options, state_options, test_caffe
from prototorch.cli.options import (
    add_device_overrides,
    data_option,
    device_option,
    json_option,
    model_argument,
    open_model,
    print_data_paths,
    print_json,
    set_option,
    threads_option,
    warn_untrained,
    weights_option,
)
from prototorch.train.config import Fit
from prototorch.train.progress import format_logs


@click.command()
@model_argument
@data_option
@set_option
@weights_option
@device_option
@threads_option
@click.option("--iterations", type=click.IntRange(min=1), help="Caffe: the number of batches. Default: 50.")
@state_options
@json_option
def command(file: str, data: str | None, overrides: tuple[str, ...], weights: str | None, allow_download: bool,
            device: str | None, threads: int | None, as_json: bool, **caffe: Any) -> None:  # fmt: skip
    """Evaluate a model on the validation part of its data.

    With --data, on the validation or test part of that source if it has one, else on all of it. A net of Caffe is run
    on its own data layers; printed are the means of its outputs.

    \b
    Examples:
      prototorch evaluate runs/lenet/model.h5
      prototorch evaluate models/lenet.proto --weights runs/lenet/model.h5 --data fashion-mnist
      prototorch evaluate resnet50 --weights imagenet --data imagenet/val
      prototorch evaluate train_val.prototxt --weights net_iter_1000.caffemodel --iterations 50
    """
    if caffe_kind_of(file) is not None:
        native = {"--data": data, "--set": overrides, "--threads": threads}
        test_caffe(file, native, device=device, weights=weights, as_json=as_json, **caffe)
        return
    refuse_caffe_options(caffe)
    model = open_model(file, add_device_overrides(overrides, threads, device), data, weights, allow_download)
    if data is not None:
        model.fit_block = _without_split(model.fit_block, overrides)
    if model.fit_block is not None:
        print_data_paths(model.fit_block.validation or model.fit_block.data)
    results = model.evaluate()
    warn_untrained(file, "was evaluated", model)
    if as_json:
        print_json(results)
    else:
        click.echo(format_logs(results))


def _without_split(block: Fit | None, overrides: tuple[str, ...]) -> Fit | None:
    """The fit block without what selects a part of its data, for a source from the command line."""
    if block is None or block.data is None:
        return block
    has_limit = any(override.startswith("fit.data.limit") for override in overrides)
    data = block.data if has_limit else block.data.replace(limit=None)
    return block.replace(data=data, validation=None, validation_split=Fit().validation_split)
