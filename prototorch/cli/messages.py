"""Error messages on standard error."""

from __future__ import annotations

import click

from prototorch.errors import ModelError, PrototorchError


def echo_error(error: PrototorchError) -> None:
    """Print an error: the mistakes of a model as they are, any other with the program's name before it."""
    click.echo(str(error) if error.exit_code == ModelError.exit_code else f"prototorch: {error}", err=True)
