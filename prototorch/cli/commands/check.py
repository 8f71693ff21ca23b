"""`prototorch check`: find every mistake in a model text."""

from __future__ import annotations

import click

from prototorch.cli.completion import complete_models
from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    allow_python_option,
    allow_read_option,
    json_option,
    set_option,
)


@deferred_command("prototorch.cli.actions.check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_models)
@set_option
@allow_read_option
@allow_python_option
@json_option
def command() -> None:
    """Check the model in each FILE: syntax, fields, wiring, shapes, compile and fit. Prints every mistake with its
    line.

    \b
    Examples:
      prototorch check models/alexnet.proto
      prototorch check my.proto --set classes=10
      prototorch check *.proto
    """
