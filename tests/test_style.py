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
    "prototorch/base/index_table.py": "generated",
    "prototorch/eager/interpreter.py": "the way of an op on tensors at once, which is read from top to bottom",
    "prototorch/engine/backends/cpu/native/kernels/gemm/attention.py": "one kernel, forward and backward",
    "prototorch/graph/ir.py": "values, nodes and graphs, which refer to each other",
    "prototorch/graph/trace.py": "recording a net: layers, masks, losses and states share the recorder",
    "prototorch/interop/torch/op_table.py": "a table, an op an entry",
    "prototorch/model/model.py": "every public method of a model, with its whole docstring",
    "prototorch/schema/block.py": "all that follows from a declared class: parsing, checks, defaults, text",
    "prototorch/train/step_graph.py": "the graph of a step, phase by phase",
    "tests/data/test_data_checks.py": "a catalogue of data that do not fit, with their messages",
    "tests/engine/storage/hostile_hdf5.py": "a catalogue, read entry by entry",
    "tests/test_architecture.py": "the ranks of all modules, one table",
    "tests/test_guards.py": "one table of guards and faces, and the faces",
}
#: the least number of constants in a table that may stand in columns, which the formatter would break up
TABLE_CONSTANTS = 6


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


def test_the_formatter_is_skipped_behind_tables_alone():
    skipped = []
    for path in _files():
        source = path.read_text("utf-8")
        lines = {i for i, line in enumerate(source.split("\n"), 1) if line.rstrip().endswith("# fmt: skip")}
        tables = {node.end_lineno for node in _statements(ast.parse(source)) if _has_table(node)} if lines else set()
        skipped += [f"{path.relative_to(ROOT)}:{line}" for line in sorted(lines - tables)]
    assert skipped == []


def _statements(tree):
    """Statements without a body, and decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node
        yield from getattr(node, "decorator_list", ())


def _has_table(statement):
    tables = [n for n in ast.walk(statement) if isinstance(n, ast.List | ast.Tuple | ast.Set | ast.Dict)]
    return any(sum(isinstance(n, ast.Constant) for n in ast.walk(t)) >= TABLE_CONSTANTS for t in tables)
