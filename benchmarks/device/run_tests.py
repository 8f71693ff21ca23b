"""Tests on the GPU, with results as they come: python -m benchmarks.device.run_tests FOLDER ARGUMENTS OF PYTEST...

What has ended in an earlier attempt (``results.jsonl`` in the folder) is not run again. Warnings are printed, none is
an error: what newer versions of the libraries announce is no fault of what is tested.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.device.results_file import give_up, read_records
from benchmarks.device.state import STAND_IN
from benchmarks.isolated_process import ROOT

#: a test that takes longer hangs: its process is ended, where there are several; a slow test takes some seconds, the
#: first of a process compiles kernels, too
HUNG_SECONDS = 90


def pytest_arguments(folder: Path) -> list[str]:
    """The arguments that all of these runs share. The earlier results are copied first: workers read them while new
    ones come."""
    results, earlier = folder / "results.jsonl", folder / "earlier.jsonl"
    earlier.write_text("", encoding="utf-8")
    if results.exists():
        give_up(results)
        shutil.copyfile(results, earlier)
    return [
        "-p", "benchmarks.device.pytest_results", "--results", str(results), "--skip-finished", str(earlier),
        "-p", "no:cacheprovider", "-W", "default", "--tb=short", "-q", "-rs", "-m", "gpu", "--rootdir", str(ROOT),
        "--test-seconds", str(HUNG_SECONDS * (10 if os.environ.get(STAND_IN) else 1)),
    ]  # fmt: skip


def exit_code(folder: Path, code: int) -> int:
    """That of all attempts together: 1 where a test has failed in any of them, pytest's own where none was collected or
    pytest itself failed."""
    outcomes = {r["test"]: r["outcome"] for r in read_records(folder / "results.jsonl") if "outcome" in r}
    if any(outcome not in ("passed", "skipped", "file skipped") for outcome in outcomes.values()):
        return 1
    nothing_left = code == pytest.ExitCode.NO_TESTS_COLLECTED and any(o != "file skipped" for o in outcomes.values())
    return 0 if nothing_left else code


def main(arguments: list[str]) -> int:
    """Run pytest; see `exit_code`."""
    folder = Path(arguments[0])
    return exit_code(folder, int(pytest.main([*arguments[1:], *pytest_arguments(folder)])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
