"""`prototorch devices`: what this machine can run on."""

from __future__ import annotations

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import json_option


@deferred_command("prototorch.cli.actions.devices")
@json_option
def command() -> None:
    """Show the devices, the libraries in use, and why something is not in use."""
