"""`prototorch show`: the model as text, as it was written or after all expansion."""

from __future__ import annotations

import click

from prototorch.cli.options import model_argument, opened, set_option
from prototorch.load import find, is_saved, text_file
from prototorch.text.reader import read_file


@click.command()
@model_argument
@set_option
@click.option("--expanded", is_flag=True, help="After all blocks, repeats and parameters: again a valid file.")
def command(file: str, overrides: tuple[str, ...], expanded: bool) -> None:
    """Print the text of a model: of a file, a shipped model, or the one inside a saved model.

    \b
    Examples:
      prototorch show resnet101
      prototorch show models/resnet101.proto --expanded --set classes=10
      prototorch show runs/lenet/model.h5
    """
    path = find(file)
    if expanded or overrides or is_saved(path):
        click.echo(opened(file, overrides).to_text(), nl=False)
    else:
        click.echo(read_file(text_file(path)), nl=False)
