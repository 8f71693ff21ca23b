"""What `prototorch check` does."""

from __future__ import annotations

from typing import Any

import click

from prototorch.base.terminal import escape_line
from prototorch.cli.json_output import print_json
from prototorch.cli.messages import echo_error
from prototorch.cli.model_input import allowed_folders
from prototorch.errors import PrototorchError, TextError
from prototorch.model.diagnose import check_model, describe_table, find_missing_blocks, find_warnings
from prototorch.model.load import find_model_file
from prototorch.text.diagnostics import Diagnostic


def run(files: tuple[str, ...], overrides: tuple[str, ...], as_json: bool) -> int:
    """See `prototorch.cli.commands.check`."""
    codes, results = [0], []
    for file in files:
        try:
            results.append(_check_file(file, overrides, as_json))
        except PrototorchError as error:
            codes.append(error.exit_code)
            if as_json:
                mistakes = error.mistakes if isinstance(error, TextError) else [Diagnostic(str(error))]
                diagnostics = [{"place": m.location, "message": m.message} for m in mistakes]
                results.append({**({"file": file} if len(files) > 1 else {}), "ok": False, "mistakes": diagnostics})
            else:
                echo_error(error)
    if as_json:
        print_json(results if len(files) > 1 else results[0])
    return max(codes)


def _check_file(file: str, overrides: tuple[str, ...], as_json: bool) -> dict[str, Any]:
    """What is known of a model without mistakes; printed where it is not wanted as JSON. Raises TextError."""
    model = check_model(file, overrides, allowed_folders())
    count, warnings = len(model.net.nodes), find_warnings(model)
    if not as_json:
        path = escape_line(str(find_model_file(file)))
        click.echo(f"{path}: {model.net.name}, {count} layer{'s' * (count != 1)}, no mistakes")
        for note in warnings:
            click.echo(f"warning: {note}")
        for note in model.net.notes:
            click.echo(f"note: {note}")
        for line in describe_table(model):
            click.echo(f"column {line}")
        for note in find_missing_blocks(model):
            click.echo(f"note: {note}")
    return {"file": file, "ok": True, "name": model.net.name, "layers": count, "notes": [*warnings, *model.net.notes]}
