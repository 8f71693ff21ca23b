"""Error messages on standard error."""

from __future__ import annotations

import click

from prototorch.errors import ModelError, PrototorchError

_SHELL_OPTIONS = (
    ("by_name=True", "--by-name"),
    ("skip_mismatch=True", "--skip-mismatch"),
    ("by_order=True", "--by-order"),
    ('data_format="channels_first"', "--data-format channels_first"),
)


def echo_error(error: PrototorchError) -> None:
    """Print an error: one with its place in a text as it is, any other with the program's name before it."""
    has_place = error.exit_code == ModelError.exit_code or error.diagnostic is not None
    click.echo(str(error) if has_place else f"prototorch: {error}", err=True)


def with_shell_options(text: str) -> str:
    """A message of `Model.load_weights` with the options of the command in place of its arguments."""
    for argument, option in _SHELL_OPTIONS:
        text = text.replace(f"{argument} ({option})", option).replace(argument, option)
    return text
