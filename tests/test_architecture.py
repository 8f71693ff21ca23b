"""The lines of the house: imports point down, importing is light, every public name is there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "prototorch"

#: a module's rank is that of the longest matching prefix; it imports from lower ranks, and from its own room
RANKS = {
    "": 0, "errors": 0, "spec": 0, "package_files": 0,
    "text": 1, "ops": 1,
    "schema": 2, "backends": 2,
    "initializers": 3, "regularizers": 3, "constraints": 3,
    "layers": 4,
    "graph": 5,
    "runtime": 6, "data": 6, "eager": 6.1,
    "optimizers": 6.5, "losses": 6.5, "metrics": 6.6,
    "train": 7, "storage": 7,
    "model": 8, "load": 8.1, "checking": 8.2, "docs_pages": 8.2, "interop": 8.2, "measure": 8.3, "testing": 8.5,
    "cli": 9,
}  # fmt: skip


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _room(parts: tuple[str, ...]) -> str:
    return parts[0] if parts else ""


def _name(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imports(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    found = []
    package = ("prototorch", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, tuple(a.name.split("."))) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            if module == ("prototorch",):
                found += [(node.lineno, ("prototorch", a.name)) for a in node.names]
            else:
                found.append((node.lineno, module))
    return [(line, name[1:]) for line, name in found if name[:1] == ("prototorch",)]


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path):
    mine = _room(_name(path))
    for line, target in _imports(path):
        theirs = _room(target)
        if theirs == mine or (mine == "cli" and not target):
            continue
        assert theirs in RANKS, f"{path}:{line}: the room {theirs!r} has no rank"
        assert RANKS[theirs] < RANKS[mine], f"{path}:{line}: {mine} (rank {RANKS[mine]}) imports {theirs}"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_import_is_hidden_in_a_function(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                own = isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("prototorch"))
                assert not own, f"{path}:{node.lineno}: an import inside {function.name}"


def test_importing_is_light():
    code = (
        "import sys, numpy; before = set(sys.modules); import prototorch; "
        "heavy = {'lark', 'h5py', 'PIL', 'rich', 'click', 'cupy'} & (set(sys.modules) - before); print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    import prototorch as pt

    for name in pt._PUBLIC:
        assert getattr(pt, name) is not None
