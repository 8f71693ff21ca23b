"""Tests on a GPU under the script: results as they come, continuing within a run, and what the summary shows."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.device.pytest_results import STICKY_ERROR
from benchmarks.device.results_file import finished_tests, read_records
from benchmarks.device.tests_summary import describe_tests
from benchmarks.isolated_process import run_isolated
from tests.spread import choose_spread

TESTS = """
import os, warnings
import pytest

pytestmark = pytest.mark.gpu


def test_passes():
    warnings.warn("newer versions change this", DeprecationWarning)


def test_fails():
    assert 1 == 2, "one is not two"


@pytest.mark.skip(reason="no second GPU")
def test_skipped():
    pass


@pytest.mark.parametrize("n", range(3))
def test_cuda(n):
    if os.environ.get("STICKY") and n == 0:
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
"""


@pytest.fixture
def run(tmp_path):
    """Runs the file above as part 2 would; its records."""
    (tmp_path / "test_some.py").write_text(TESTS)

    def run_file(*arguments, environment=None):
        command = [sys.executable, "-m", "benchmarks.device.run_tests", str(tmp_path), *arguments]
        done = run_isolated([*command, str(tmp_path / "test_some.py")], 120, environment)
        return done, list(read_records(tmp_path / "results.jsonl"))

    return run_file


def test_results_come_one_by_one_and_are_not_run_again(run, tmp_path):
    done, records = run("-k", "not cuda")
    outcomes = {r["test"].rpartition("::")[2]: r["outcome"] for r in records if "outcome" in r}
    assert outcomes == {"test_passes": "passed", "test_fails": "failed", "test_skipped": "skipped"}, done.out
    assert done.code == 1
    done, records = run()
    started = [r["started"].rpartition("::")[2] for r in records if "started" in r]
    assert started == ["test_passes", "test_fails", "test_skipped", "test_cuda[0]", "test_cuda[1]", "test_cuda[2]"]
    assert done.code == 1, "the failure of the first attempt counts"
    assert run()[0].code == 1
    text = "\n".join(describe_tests(tmp_path))
    assert "6 tests: 4 passed, 1 failed, 1 skipped" in text
    assert "FAILED" in text
    assert "one is not two" in text
    assert "skipped, 1: no second GPU" in text


def test_an_error_that_stays_ends_its_worker_alone(run, monkeypatch):
    """The process of a test after which CUDA answers nothing ends; the tests after it run in a new one."""
    monkeypatch.setenv("STICKY", "1")
    _, records = run("-n", "1", "-k", "cuda")
    outcomes = {r["test"][-2]: r["outcome"] for r in records if "outcome" in r}
    assert outcomes["0"] == "failed"
    assert outcomes["2"] == "passed"
    assert outcomes["1"] == "crashed", "it is run again when the script continues"
    assert len(records[0]["collected"]) == 3


def test_what_did_not_run_is_listed(tmp_path):
    lines = [
        {"collected": [f"f.py::t[{i}]" for i in range(4)]},
        {"started": "f.py::t[0]"},
        {"test": "f.py::t[0]", "outcome": "passed", "seconds": 2.0, "reason": ""},
        {"started": "f.py::t[1]"},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"test": "f.py::t[2]", "outc'  # the process was killed here
    (tmp_path / "results.jsonl").write_text(text)
    assert describe_tests(tmp_path)[:3] == [
        "4 tests: 1 passed",
        "begun and not ended, 1: t[1]",
        "not run, 2: t[2], t[3]",
    ]
    assert finished_tests(tmp_path / "results.jsonl") == {"f.py::t[0]"}


def test_no_test_at_all_is_a_failure(run):
    assert run("-k", "nothing_has_this_name")[0].code == 5


def test_a_spread_has_all_kinds():
    names = [f"f.py::test[{kind}-{i}]" for kind in ("conv", "pool", "dense") for i in range(50)]
    chosen = choose_spread(names, 6)
    assert sorted(n.split("[")[1].split("-")[0] for n in chosen) == ["conv"] * 2 + ["dense"] * 2 + ["pool"] * 2
    assert len(choose_spread(names, 2)) == 2
    assert choose_spread(names[:3], 10) == names[:3]


def test_errors_that_stay():
    assert STICKY_ERROR.search("cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal")
    assert not STICKY_ERROR.search("AssertionError: y: off by 0.1 of its length")
