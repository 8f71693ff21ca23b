"""The differences from Keras that are on purpose: the rows of the table in docs/from-keras.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-keras.md"
TITLE = "## What differs on purpose"


@dataclass(frozen=True)
class Difference:
    """A row: what differs, how it is in Keras and here, and why."""

    what: str
    keras: str
    here: str
    reason: str


def read_differences(text: str) -> dict[str, Difference]:
    """The rows of the table below the title, by their first column. Raises ValueError for a malformed table."""
    _, found, rest = text.partition(TITLE)
    if not found:
        raise ValueError(f"{PAGE.name} has no section {TITLE!r}")
    lines = [line for line in rest.split("\n## ")[0].splitlines() if line.startswith("|")]
    rows = {}
    for line in lines[2:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or not all(cells):
            raise ValueError(f"expected four cells: {line}")
        if cells[0] in rows:
            raise ValueError(f"the row {cells[0]!r} is there twice")
        rows[cells[0]] = Difference(*cells)
    return rows


DIFFERENCES = read_differences(PAGE.read_text(encoding="utf-8"))


def differs(what: str) -> bool:
    """True: a random case avoids what this row of the table is about. Raises KeyError where the table has no such row:
    an exclusion without a row is no exclusion, and its case must then equal Keras."""
    return bool(DIFFERENCES[what])
