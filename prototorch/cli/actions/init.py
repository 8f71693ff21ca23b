"""What `prototorch init` does."""

from __future__ import annotations

import os
from pathlib import Path

import click

from prototorch.base.terminal import escape_line
from prototorch.data.image_folder import find_image_files
from prototorch.data.safe_io import expand_path, printable_path
from prototorch.data.tables.table_files import read_table_file
from prototorch.data.tables.table_survey import survey_table
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import DataError, FileError, UsageError, did_you_mean
from prototorch.model.load import load_model
from prototorch.model.starter.folder_text import image_folder_text, text_folder_text
from prototorch.model.starter.table_text import table_text
from prototorch.text.call_style import to_calls
from prototorch.text.reader import parse
from prototorch.text.writer import format_document


def run(source: str, target: str | None, ignored: tuple[str, ...], table: str | None, output: str | None) -> None:
    """See `prototorch.cli.commands.init`."""
    path = Path(expand_path(source))
    if not path.exists():
        raise DataError(f"{printable_path(path)}: there is no such file or folder")
    stem = path.name.split(".")[0] if path.is_file() else path.name
    file = Path(expand_path(output)) if output is not None else Path(f"{stem}.proto")
    if file.suffix != ".proto":
        raise UsageError(f"-o {printable_path(file)}: the name of a model text ends in .proto")
    if file.exists():
        raise FileError(f"{printable_path(file)}: exists already; name another file with -o")
    relative_path = os.path.relpath(path.resolve(), file.parent.resolve()).replace(os.sep, "/")
    if path.is_dir():
        for option, value in (("--target", target), ("--ignore", ignored), ("--table", table)):
            if value:
                raise UsageError(f"{option} is for tables, and {printable_path(path)} is a folder")
        make = image_folder_text if any(True for _ in find_image_files(path)) else text_folder_text
        text, notes = make(path, stem, relative_path)
    else:
        text, notes = _table(path, stem, relative_path, target, ignored, table)
    write_bytes(file, format_document(to_calls(parse(text, trivia=True), None)).encode())
    for note in notes:
        click.echo(escape_line(note))
    try:
        load_model(str(file))
    except Exception:
        file.unlink()
        raise
    click.echo(f"wrote {printable_path(file)}; next: prototorch check {printable_path(file)}, then run it")


def _table(
    path: Path, name: str, source: str, target: str | None, ignored: tuple[str, ...], table: str | None
) -> tuple[str, list[str]]:
    raw = read_table_file(path, True, table)
    names = list(raw.columns)
    for column in (*((target,) if target is not None else ()), *ignored):
        if column not in raw.columns:
            raise DataError(f"{raw.name}: has no column {column!r}.{did_you_mean(column, names)}")
    if len(names) < 2:
        raise DataError(f"{raw.name}: has {len(names)} columns; a table to learn from has at least two")
    survey = survey_table(raw, names[-1] if target is None else target, ignored)
    text, notes = table_text(survey, name, source, table)
    goal = f"the target is {survey.target.name}" + (
        "" if target is not None else ", the last column (--target names another)"
    )
    return text, [goal, *notes]
