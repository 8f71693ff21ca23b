"""Whole trainings declared at random, by `fit` and by ``prototorch run``: they succeed, or end in an error of this
package; nothing is written, started or connected to outside of the working folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(("first", "count"), [(0, 500), pytest.param(500, 20_000, marks=pytest.mark.slow)])
def test_random_trainings_end_in_success_or_a_clear_error(tmp_path, first, count):
    environment = os.environ | {
        "PYTHONPATH": str(REPOSITORY), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PROTOTORCH_DEVICE": "cpu",
        "PROTOTORCH_CPU": "numpy",  # no time goes into compiling kernels that are used once
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.security.fuzz_training", str(first), str(count)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    outcomes = reports.pop()["outcomes"]
    assert not reports, f"{len(reports)} of {count} texts, the first of them: {json.dumps(reports[0], indent=1)}"
    assert outcomes["trained"] + outcomes["exit status 0"] > count // 10  # enough of them are valid
