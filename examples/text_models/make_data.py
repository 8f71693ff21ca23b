"""Makes the data of the text models out of the Python installation that runs it, and of random dates.

    python examples/text_models/make_data.py FOLDER

docstrings.txt   docstrings of the standard library, one long text
topics.tsv       the first sentence of docstrings, and the package that it is of: email, asyncio, tkinter, unittest
topics_test.tsv  other ones
dates.tsv        dates as people write them, and as ISO 8601 does; dates_test.tsv: other ones
"""

from __future__ import annotations

import ast
import datetime
import random
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

TOPICS = ("asyncio", "email", "tkinter", "unittest")
MAX_CHARACTERS = 600_000
DATES = 6000


def docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a source file, read without importing it; those that are not ASCII are left out."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and text.isascii():
                yield text


def library_files(folder: Path, package: str = "") -> list[Path]:
    """The source files of the standard library, or of one package of it, without tests."""
    skipped = {"site-packages", "test", "tests", "lib2to3", "idlelib"}
    paths = sorted((folder / package).rglob("*.py"))
    return [p for p in paths if not skipped & set(p.relative_to(folder).parts)]


def write_table(path: Path, rows: list[tuple[str, str]], header: str = "") -> None:
    """A table of two columns, which a tab delimits."""
    path.write_text(header + "".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")


def topics(folder: Path, rng: random.Random) -> list[tuple[str, str]]:
    """The first sentences of docstrings, without copies, with their packages."""
    rows = {}
    for topic in TOPICS:
        for path in library_files(folder, topic):
            for text in docstrings(path):
                first = " ".join(text.replace('"', "").split("\n\n")[0].split())
                if len(first.split()) >= 3:
                    rows.setdefault(first, topic)
    table = list(rows.items())
    rng.shuffle(table)
    return table


def written_date(date: datetime.date, rng: random.Random) -> str:
    """A date as people write it, in one of six ways."""
    months = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
              "November", "December")  # fmt: skip
    month, day, year = months[date.month - 1], date.day, date.year
    ordinal = f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    return rng.choice((f"{day} {month} {year}", f"{month} {day}, {year}", f"{day} {month[:3]} {year}",
                       f"{month[:3]} {ordinal}, {year}", f"the {ordinal} of {month} {year}",
                       f"{day}.{date.month}.{year}"))  # fmt: skip


def main(folder: Path) -> None:
    """Write all files into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    library, rng = Path(sysconfig.get_paths()["stdlib"]), random.Random(0)
    texts = [text for path in library_files(library) for text in docstrings(path)]
    rng.shuffle(texts)
    (folder / "docstrings.txt").write_text("\n\n".join(texts)[:MAX_CHARACTERS], encoding="utf-8")
    rows = topics(library, rng)
    at = len(rows) * 4 // 5
    write_table(folder / "topics.tsv", rows[:at], "text\ttopic\n")
    write_table(folder / "topics_test.tsv", rows[at:], "text\ttopic\n")
    days = rng.sample(range(datetime.date(1900, 1, 1).toordinal(), datetime.date(2030, 1, 1).toordinal()), DATES + 500)
    dates = [(written_date(d := datetime.date.fromordinal(day), rng), d.isoformat()) for day in days]
    write_table(folder / "dates.tsv", dates[:DATES])
    write_table(folder / "dates_test.tsv", dates[DATES:])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
