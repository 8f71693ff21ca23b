"""Error messages on standard error."""

from __future__ import annotations

import click

from prototorch.errors import ModelError, PrototorchError


def echo_error(error: PrototorchError) -> None:
    """Print an error: one with its place in a text as it is, any other with the program's name before it."""
    has_place = error.exit_code == ModelError.exit_code or error.diagnostic is not None
    click.echo(str(error) if has_place else f"prototorch: {error}", err=True)
