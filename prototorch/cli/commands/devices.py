"""`prototorch devices`: what this machine can run on."""

from __future__ import annotations

from pathlib import Path

import click

import prototorch
from prototorch.cli.installation import DISTRIBUTION
from prototorch.cli.options import json_option, print_json
from prototorch.engine.backends.devices import describe_devices


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show the devices, the libraries in use, and why something is not in use."""
    package = Path(prototorch.__file__).resolve().parent.parent
    installation = {"installed": f"{DISTRIBUTION} {prototorch.__version__} in {package}"}
    facts_by_device = {"prototorch": installation, **describe_devices()}
    if as_json:
        print_json(facts_by_device)
        return
    for name, facts in facts_by_device.items():
        click.echo(f"{name}:")
        for key, value in facts.items():
            click.echo(f"  {key}: {value}")
