"""What `prototorch summary` does."""

from __future__ import annotations

import importlib
from dataclasses import asdict

import click

from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import open_model
from prototorch.model.diagnose import summary
from prototorch.model.load import check_text_file, find_model_file, is_saved, model_from_document, read_foreign_net
from prototorch.text.diagnostics import Report


def run(file: str, overrides: tuple[str, ...], batch: int | None, as_json: bool) -> None:
    """See `prototorch.cli.commands.summary`."""
    report, path = Report(), find_model_file(file)
    foreign = None
    if not is_saved(path):
        foreign = read_foreign_net(check_text_file(path), {}, overrides, report, allow_solver=True)
    model = open_model(file, overrides) if foreign is None else model_from_document(foreign.document, report)
    result = summary(model, batch)
    blobs = []
    if foreign is not None:
        blob_table = importlib.import_module("prototorch.caffe.interop.blob_table")
        blobs = blob_table.blob_rows(foreign.source)
    if as_json:
        print_json(result.as_dict() | ({"blobs": [asdict(row) for row in blobs]} if blobs else {}))
        return
    click.echo(str(result))
    if blobs:
        click.echo(f"\n{blob_table.format_blobs(blobs)}")
