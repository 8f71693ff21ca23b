"""The programs of the lecture run, and each finds its own numbers to be those by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "lecture"
SLOW = {"pretrained", "dynamic_stop", "dynamic_tree", "cifar_lenet"}  # tens of seconds, or much memory
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "by_hand")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PROGRAMS])
def test_a_program_of_the_lecture(name, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    if name.startswith(("net_", "graph_")):
        assert "as by hand" in done.stdout


def test_the_page_names_every_program():
    page = (ROOT / "docs" / "lecture.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+)\.py`", page)) == {*PROGRAMS, "by_hand"}
