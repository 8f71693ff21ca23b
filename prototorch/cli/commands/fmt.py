"""`prototorch fmt`: one canonical layout."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command


@deferred_command("prototorch.cli.actions.fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 where a file is not in the canonical layout.")
@click.option(
    "--upgrade",
    is_flag=True,
    help="Write out what a text of a version before data_format meant: the channels of 1D layers, normalizations and "
    "Concatenate were axis 1.",
)
@click.option("--stdout", is_flag=True, help="Print the text and leave the file as it is.")
@click.option(
    "--style",
    type=click.Choice(["call", "brace", "keep"]),
    default="call",
    show_default=True,
    help="call: layers and other blocks of plain fields become calls, where these are shorter and fit in 100 columns. "
    "brace: every call becomes a body in braces. keep: each stays as it is.",
)
def command() -> None:
    """Bring model texts into the canonical layout; comments and single empty lines stay. FILE may be - for standard
    input. A file with mistakes is reported and left as it is; the others are formatted.

    \b
    Examples:
      prototorch fmt models/lenet.proto
      prototorch fmt --check models/*.proto
      prototorch fmt --style brace --stdout models/lenet.proto
    """
