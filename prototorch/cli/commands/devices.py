"""`prototorch devices`: what this machine can run on."""

from __future__ import annotations

import click

from prototorch.backends.devices import describe_devices
from prototorch.cli.options import json_option, print_json


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show the devices, the libraries in use, and why something is not in use."""
    facts_by_device = describe_devices()
    if as_json:
        print_json(facts_by_device)
        return
    for name, facts in facts_by_device.items():
        click.echo(f"{name}:")
        for key, value in facts.items():
            click.echo(f"  {key}: {value}")
