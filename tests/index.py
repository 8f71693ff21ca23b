"""``python -m tests.index``: write the index of the package's names (`prototorch.base.index`) anew from its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from prototorch.base.index import PACKAGE, Table
from prototorch.base.index_reader import read_package

FILE = Path(PACKAGE, "base", "index_table.py")


HEAD = "The index of the package's names: see `prototorch.base.index`. Written by ``python -m tests.index``."


def format_table(table: Table) -> str:
    """The module with a table, a line for each file."""
    lines = [f'"""{HEAD}"""', "", "ENTRIES = {"]
    for kind, folders in table.entries.items():
        lines.append(f"    {kind!r}: {{")
        for folder, files in folders.items():
            lines.append(f"        {folder!r}: {{")
            lines += [f"            {stem!r}: {declared!r}," for stem, declared in files.items()]
            lines.append("        },")
        lines.append("    },")
    lines += ["}", "BASES = {", *_lines(table.bases), "}", "FILES = {", *_lines(table.files), "}"]
    return "\n".join(lines) + "\n"


def _lines(mapping: Mapping[str, object]) -> list[str]:
    return [f"    {key!r}: {value!r}," for key, value in mapping.items()]


if __name__ == "__main__":
    text = format_table(read_package())
    temporary = FILE.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, FILE)
