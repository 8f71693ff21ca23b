"""`prototorch layers`: the manual, from the declarations."""

from __future__ import annotations

import click

from prototorch.cli.completion import complete_members
from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import allow_python_option, json_option


@deferred_command("prototorch.cli.actions.layers")
@click.argument("name", required=False, shell_complete=complete_members)
@click.option("--file", metavar="FILE", help="Also what the Python modules define that this model text imports.")
@click.option(
    "--editor",
    type=click.Choice(("schema", "textmate")),
    help="What editors need, as JSON: the keywords, classes and fields of the language, or a grammar for colours.",
)
@allow_python_option
@json_option
def command() -> None:
    """List all layers, losses, metrics, optimisers and so on; with NAME, the manual page of one.

    \b
    Examples:
      prototorch layers
      prototorch layers Conv2D
      prototorch layers adam
      prototorch layers Bent --file my.proto --allow-python
      prototorch layers --editor schema > prototorch.schema.json
    """
