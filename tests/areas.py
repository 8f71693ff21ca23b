"""``python -m tests.areas``: write the table "I changed this, I run that" of CONTRIBUTING.md from the folders.

Tests lie in folders named like the packages that they test.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- areas -->\n", "<!-- end of areas -->\n"
#: the tests of packages that have no folder of their name, and what looks at one as a whole besides its folder
MORE = {
    "base": "tests/schema tests/test_public_names.py tests/test_architecture.py",
    "cli": "tests/messages",
    "errors": "tests/messages",
    "func": "tests/autograd",
    "graph": "tests/plans",
    "layers": "tests/test_every_layer.py",
    "linalg": "tests/eager",
    "measure": "tests/cli/test_time.py tests/cli/test_time_caffe.py",
    "spec": "tests/ops",
    "special": "tests/eager",
    "backends": "tests/cuda/fake/test_compute_modes.py",
    "testing": "tests/test_every_layer.py",
}


def areas() -> dict[str, str]:
    """The arguments of pytest by what was changed."""
    package = ROOT / "prototorch"
    paths = sorted(path for path in package.iterdir() if (path / "__init__.py").is_file() or path.suffix == ".py")
    rows = {f"prototorch/{path.name}": _tests_of(path.stem) for path in paths if not path.name.startswith("_")}
    return {**rows, "models": "tests/test_models.py", "docs": "tests/test_docs.py tests/test_docs_files.py"}


def _tests_of(name: str) -> str:
    folder = ROOT / "tests" / name
    return " ".join([*([f"tests/{name}"] if folder.is_dir() else []), *([MORE[name]] if name in MORE else [])])


def format_table() -> str:
    """The table as it stands in the page."""
    rows = "".join(f"| `{name}` | `pytest {tests}` |\n" for name, tests in areas().items())
    return f"{BEGIN}| changed | run |\n| --- | --- |\n{rows}{END}"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + format_table() + rest.partition(END)[2], encoding="utf-8")
