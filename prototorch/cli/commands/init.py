"""`prototorch init`: a first model text for one's own data."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command


@deferred_command("prototorch.cli.actions.init")
@click.argument("source", type=click.Path())
@click.option("--target", metavar="COLUMN", help="The column to learn. Default: the last one.")
@click.option("--ignore", "ignored", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated.")
@click.option("--table", metavar="NAME", help="The sheet of a workbook, or the table of a database.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="The text to write. Default: SOURCE.proto.")
def command() -> None:
    """Look at SOURCE, a table or a folder of images or texts, and write a model text that learns from it.

    Of a table it finds types, gaps, identifiers, columns that tell the answer and whether the target is a class or a
    value, and says what it left out and why; of a folder classes and sizes. The text is yours to change.

    \b
    Examples:
      prototorch init houses.csv --target price -o houses.proto
      prototorch init photos/ -o photos.proto
      prototorch run houses.proto
    """
