"""What `prototorch evaluate` does."""

from __future__ import annotations

from typing import Any

import click

from prototorch.cli.caffe_files import caffe_kind_of, refuse_caffe_options, test_caffe
from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model, print_data_paths, warn_untrained
from prototorch.model.evaluation_report import evaluation_report
from prototorch.train.config import Fit
from prototorch.train.progress import format_logs


def run(
    file: str,
    data: str | None,
    overrides: tuple[str, ...],
    weights: str | None,
    allow_download: bool,
    device: str | None,
    threads: int | None,
    report: bool | None,
    as_json: bool,
    **caffe: Any,
) -> None:
    """See `prototorch.cli.commands.evaluate`."""
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
    results = model.evaluate(return_dict=True)
    warn_untrained(file, "was evaluated", model)
    reports = evaluation_report(model) if report or (report is None and not as_json) else {}
    if as_json:
        details = {"report": {output: one.as_dict() for output, one in reports.items()}} if reports else {}
        print_json({**results, **details})
        return
    click.echo(format_logs(results))
    for output, one in reports.items():
        click.echo("\n" + (f"{output}:\n" if len(model.net.outputs) > 1 else "") + "\n".join(one.lines()))


def _without_split(block: Fit | None, overrides: tuple[str, ...]) -> Fit | None:
    """The fit block without what selects a part of its data, for a source from the command line."""
    if block is None or block.data is None:
        return block
    has_limit = any(override.startswith("fit.data.limit") for override in overrides)
    data = block.data if has_limit else block.data.replace(limit=None)
    return block.replace(data=data, validation=None, validation_split=Fit().validation_split)
