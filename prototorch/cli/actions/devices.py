"""What `prototorch devices` does."""

from __future__ import annotations

from pathlib import Path

import click

import prototorch
from prototorch.cli.installation import DISTRIBUTION
from prototorch.cli.json_output import print_json
from prototorch.engine.backends.devices import describe_devices


def run(as_json: bool) -> None:
    """See `prototorch.cli.commands.devices`."""
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
