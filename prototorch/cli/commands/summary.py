"""`prototorch summary`: layers, shapes, parameters, and the memory a step needs."""

from __future__ import annotations

from dataclasses import asdict

import click

from prototorch.caffe.interop.blob_table import blob_rows, format_blobs
from prototorch.caffe.interop.net_text import caffe_document
from prototorch.cli.caffe_options import caffe_kind_of
from prototorch.cli.options import json_option, model_argument, open_model, print_json, set_option
from prototorch.model.diagnose import summary
from prototorch.model.load import find_model_file, model_from_document
from prototorch.text.diagnostics import Report


@click.command()
@model_argument
@set_option
@click.option("--batch", type=click.IntRange(min=1), default=None, help="Also the memory for this batch size.")
@json_option
def command(file: str, overrides: tuple[str, ...], batch: int | None, as_json: bool) -> None:
    """Print the layers of FILE with output shapes and parameters; with --batch also the memory a training step needs.

    Of a net of Caffe also its blobs, with all axes; of a solver those of the net that it names.

    \b
    Examples:
      prototorch summary alexnet --batch 64
      prototorch summary my.proto --json
      prototorch summary deploy.prototxt
    """
    report = Report()
    path, caffe = find_model_file(file), None
    if caffe_kind_of(file) is not None:
        caffe = caffe_document(path, None, overrides, report, allow_solver=True)
    model = open_model(file, overrides) if caffe is None else model_from_document(caffe[0], report)
    result = summary(model, batch)
    blobs = [] if caffe is None else blob_rows(caffe[1])
    if as_json:
        print_json(result.as_dict() | ({"blobs": [asdict(row) for row in blobs]} if blobs else {}))
        return
    click.echo(str(result))
    if blobs:
        click.echo(f"\n{format_blobs(blobs)}")
