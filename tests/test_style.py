"""The style of the whole tree: lint, format, types, a docstring at the top of every file, small files."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("prototorch", "tests", "benchmarks", "examples")
MAX_LINES = 400  # of a file
#: longer files, each with its reason
LARGE = {
    "prototorch/schema/block.py": "all that follows from a declared class: parsing, checks, defaults, text",
    "prototorch/model/model.py": "every public method of a model, with its whole docstring",
    "tests/engine/storage/hostile_hdf5.py": "a catalogue, read entry by entry",
}


def _files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("ruff", ("check", ".")), ("ruff", ("format", "--check", ".")), ("mypy", ())],
    ids=["lint", "format", "types"],
)
def test_tool_has_nothing_to_say(tool, arguments):
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed (it is in the extra test)")
    done = subprocess.run([sys.executable, "-m", tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_has_a_docstring():
    silent = [str(p.relative_to(ROOT)) for p in _files() if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert silent == []


def test_files_are_small():
    lines = {str(p.relative_to(ROOT)): len(p.read_text("utf-8").splitlines()) for p in _files()}
    assert {name: n for name, n in lines.items() if n > MAX_LINES and name not in LARGE} == {}


def test_large_files_need_their_reason():
    assert [name for name in LARGE if len((ROOT / name).read_text("utf-8").splitlines()) <= MAX_LINES] == []
