"""The kernel of docs/kernels.md is registered, compiled and run as the page shows it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from prototorch.engine.backends.cpu import cpu, native
from prototorch.engine.backends.registry import kernels_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernels.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")


def test_the_python_blocks_of_the_page_run_as_one_file(tmp_path, monkeypatch):
    cpu("native")  # registers the kernels
    path = tmp_path / "docs_scale_rows.py"
    path.write_text("\n\n".join(FENCE.findall(PAGE.read_text())), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    assert kernels_of("native", "scale_rows")
    assert module.result.tolist() == [[row] * 10 for row in range(4)]


def test_the_families_of_the_page_are_the_folders():
    kernels = PAGE.parents[1] / "prototorch" / "engine" / "backends" / "cpu" / "native" / "kernels"
    folders = {path.parent.name for path in kernels.glob("*/__init__.py")}
    table = PAGE.read_text().partition("| family |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == folders
