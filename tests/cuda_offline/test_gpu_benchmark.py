"""The GPU's table: its lines, and that a cell that fails is said and does not stop the others."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the table compares with PyTorch")

from benchmarks import gpu


def test_a_line():
    found = {
        "seconds": {"prototorch": 0.01, "fed": 0.02, "torch eager": 0.05, "torch graph": 0.02},
        "bytes": {"prototorch": 2**20, "torch graph": 3 * 2**20},
        "remarks": ["a | b"],
    }
    line = gpu.line_of("alexnet", "train", "bf16", 256, found)
    assert line == (
        "| alexnet | train | bf16 | 256 | 25,600 | 12,800 | 12,800 (graph) | 2.00 | 1.2 yes | 1 | 3 "
        "| eager 5,120; a / b |"
    )


def test_a_cell_that_failed():
    line = gpu.line_of("lenet", "train", "bf16", 1, {"remarks": ["the process ended with 1"]})
    assert "| failed |" in line
    assert "the process ended with 1" in line


def test_the_page_has_a_column_for_each_cell():
    page = gpu.table([gpu.line_of("lenet", "train", "bf16", 1, {})], ["a note"], 7)
    rows = [row for row in page.splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert page.rstrip().endswith("* a note")


def test_every_check_says_what_it_is():
    from benchmarks.gpu_checks import CHECKS

    assert [int((c.__doc__ or "0.").split(".", 1)[0]) for c in CHECKS] == list(range(1, 13))
