"""`prototorch weights`: published weights, what of them is on this machine, and what is in a weight file."""

from __future__ import annotations

import click

from prototorch.cli.completion import complete_models
from prototorch.cli.deferred import deferred_to
from prototorch.cli.options import json_option

_NAMES = click.argument("names", nargs=-1, metavar="NAME...")


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Published weights: list, fetch, verify and remove them; show what is in a weight file.

    NAME is a set (torchvision/resnet18), the address of a file, or the path or name of a downloaded one.

    \b
    Examples:
      prototorch weights list resnet50
      prototorch weights fetch torchvision/resnet18
      prototorch weights show resnet18-f37072fd.pth
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@command.command("list")
@click.argument("model", required=False, shell_complete=complete_models)
@json_option
@deferred_to("prototorch.cli.actions.weights", "list_weight_sets")
def list_command() -> None:
    """List the published sets of all models, or of MODEL, and what of them is on this machine."""


@command.command("path")
@_NAMES
@deferred_to("prototorch.cli.actions.weights", "print_paths")
def path_command() -> None:
    """Print where the files are, or would be after a download; without NAME the folder of all."""


@command.command("fetch")
@_NAMES
@deferred_to("prototorch.cli.actions.weights", "fetch")
def fetch_command() -> None:
    """Download files that are not there yet, and print their paths."""


@command.command("verify")
@_NAMES
@deferred_to("prototorch.cli.actions.weights", "verify")
def verify_command() -> None:
    """Read the files again and compare their digests; without NAME all downloaded files. Exit code 5 if one differs."""


@command.command("remove")
@_NAMES
@click.option("--all", "is_all", is_flag=True, help="Remove all downloaded files.")
@click.option("--forget", is_flag=True, help="Remove also their recorded digests, with which downloads are compared.")
@deferred_to("prototorch.cli.actions.weights", "remove")
def remove_command() -> None:
    """Remove downloaded files, and what is left of unfinished downloads."""


@command.command("show")
@click.argument("file")
@json_option
@deferred_to("prototorch.cli.actions.weights", "show")
def show_command() -> None:
    """Show the arrays of a weight file of any system: names, shapes, dtypes, statistics, a digest each.

    Minimum, maximum, mean and standard deviation are those of the finite elements; the digest is the SHA-256 of the
    elements (little-endian, in C order), of which the table has the first 8 digits.
    """
