"""`prototorch check`: find every mistake in a model text."""

from __future__ import annotations

import click

from prototorch.cli.options import json_option, model_argument, print_json, set_option
from prototorch.errors import TextError
from prototorch.inspect import checked, notes
from prototorch.load import find


@click.command()
@model_argument
@set_option
@json_option
def command(file: str, overrides: tuple[str, ...], as_json: bool) -> int:
    """Check the model in FILE: syntax, fields, wiring, shapes, compile and fit. Prints every mistake with its line.

    \b
    Examples:
      prototorch check models/alexnet.proto
      prototorch check my.proto --set classes=10
    """
    try:
        model = checked(file, overrides)
    except TextError as error:
        if not as_json:
            raise
        print_json({"ok": False, "mistakes": [{"place": m.place, "message": m.message} for m in error.mistakes]})
        return error.exit_code
    count = len(model.net.nodes)
    if as_json:
        print_json({"ok": True, "name": model.net.name, "layers": count, "notes": notes(model)})
    else:
        click.echo(f"{find(file)}: {model.net.name}, {count} layer{'s' * (count != 1)}, no mistakes")
        for note in notes(model):
            click.echo(f"note: {note}")
    return 0
