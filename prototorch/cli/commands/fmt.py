"""`prototorch fmt`: one canonical layout."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from prototorch.load import check_text_file
from prototorch.storage.atomic_write import write_bytes
from prototorch.text.reader import parse, read_file
from prototorch.text.writer import format_document


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 where a file is not in the canonical layout.")
@click.option("--stdout", is_flag=True, help="Print the text and leave the file as it is.")
def command(files: tuple[str, ...], check: bool, stdout: bool) -> int:
    """Bring model texts into the canonical layout; comments stay. FILE may be - for standard input.

    \b
    Examples:
      prototorch fmt models/lenet.proto
      prototorch fmt --check models/*.proto
    """
    changed = []
    for file in files:
        old = sys.stdin.read() if file == "-" else read_file(check_text_file(file))
        new = format_document(parse(old, None if file == "-" else file, trivia=True))
        if stdout or file == "-":
            click.echo(new, nl=False)
        elif new != old:
            changed.append(file)
            if not check:
                write_bytes(Path(file), new.encode())
    for file in changed:
        click.echo(f"{file}: {'not in the canonical layout' if check else 'written'}", err=True)
    return 1 if check and changed else 0
