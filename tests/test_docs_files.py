"""The files and modules that the pages name are there: `benchmarks/run.py`, `python -m benchmarks.run`."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from prototorch.interop.weight_sets.registry import list_sets
from tests import areas

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("prototorch", "tests", "benchmarks", "examples", "docs", "grammars", "models")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name != "extending.md"),  # its files are its reader's
    *sorted(
        page for page in (ROOT / "benchmarks").rglob("*.md") if not re.search(r"-20\d\d-", page.name)
    ),  # no records
    *sorted((ROOT / "examples").rglob("*.md")),
]
SOURCE = re.compile(r"(?<![\w./*-])[\w./-]+\.(?:py|cu|cuh|cpp|sh)\b")
IN_A_FOLDER = re.compile(rf"(?<![\w./*-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w(?![\w*/])")
MODULE = re.compile(r"(?<![\w./-])(?:prototorch|tests|benchmarks)(?:\.[A-Za-z_]\w*)+")
READERS_OWN = re.compile(
    r"(^|/)my_|/[A-Z]+/|^models/(net|vgg)|^prototorch\.package\."
)  # what a page lets its reader make


def _files() -> set[str]:
    """The files, as texts include them too, and the names of weight sets, which look like paths."""
    paths = (path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file())
    shipped = {f"prototorch/blocks/{path.name}" for path in (ROOT / "models" / "blocks").iterdir()}  # to includes
    return {path.relative_to(ROOT).as_posix() for path in paths} | shipped | {one.weights.name for one in list_sets()}


def _find_wrong_names(text: str, folder: Path, files: set[str], *, near: bool) -> list[str]:
    """The names that lead nowhere; `near`: one without a folder is of a file beside the page or above it."""
    wrong = []
    above = [folder, *(parent for parent in folder.parents if ROOT in (parent, *parent.parents))]
    for name in [*SOURCE.findall(text), *IN_A_FOLDER.findall(text)]:
        here = any((parent / name).exists() for parent in above)
        anywhere = not (near and "/" not in name) and any(f"/{file}".endswith(f"/{name}") for file in files)
        if not here and not anywhere and not READERS_OWN.search(name):
            wrong.append(name)
    return wrong + [m for m in MODULE.findall(text) if not READERS_OWN.search(m) and not _is_there(m.split("."))]


def _is_there(parts: list[str]) -> bool:
    """Whether a dotted name is a module's, or leads from a module to something that it has."""
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:end])
        if path.with_suffix(".py").is_file() or path.is_dir():
            break
    else:
        return False
    found: object = import_module(".".join(parts[:end])) if end < len(parts) else None
    for name in parts[end:]:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_files_and_modules_that_a_page_names_are_there(page):
    near = "benchmarks" in page.relative_to(ROOT).parts
    assert _find_wrong_names(page.read_text(), page.parent, _files(), near=near) == []


def test_names_that_lead_nowhere_are_found():
    text = "`rows.py`, `gone/rows.py`, tests/test_gone.py, `python -m benchmarks.gone`, benchmarks.run.gone, `table.py`"
    wrong = _find_wrong_names(text, ROOT / "benchmarks", _files(), near=True)
    assert sorted(set(wrong)) == [
        "benchmarks.gone",
        "benchmarks.run.gone",
        "gone/rows.py",
        "rows.py",
        "tests/test_gone.py",
    ]


def test_the_table_of_areas_is_that_of_the_folders():
    """CONTRIBUTING.md: for each package the tests that answer first."""
    assert areas.format_table() in areas.PAGE.read_text("utf-8"), "python -m tests.areas writes it anew"
    for changed, tests in areas.areas().items():
        assert tests, f"{changed} has no tests: name them in tests/areas.py"
        assert all((ROOT / path).exists() for path in tests.split()), tests
