"""ONNX's own node tests: those that pass stay so (node_tests.txt), and a new one that passes is entered there."""

from __future__ import annotations

import pytest

from tests.interop.onnx.node_cases import node_cases, read_table, run_case

pytest.importorskip("onnx")
TABLE = read_table()
PASSING = [name for name, row in TABLE.items() if not row.startswith("- ")]
LEAST = 1000  # of the 1,884 cases; about 780 are of ops that trained nets use


def test_enough_cases_pass():
    assert len(PASSING) >= LEAST


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PASSING[::25])
def test_some_cases_pass(tmp_path, name):
    outcome = run_case(node_cases()[name], tmp_path)
    assert outcome.way, outcome.reason


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_cases_are_as_in_the_table(tmp_path):
    """A case that is new in the installed version of onnx may be missing in the table."""
    changed = {}
    for name, row in TABLE.items():
        case = node_cases().get(name)
        if case is not None:
            way = run_case(case, tmp_path).way
            if bool(way) == row.startswith("- "):
                changed[name] = way or "does not pass any more"
    assert changed == {}
