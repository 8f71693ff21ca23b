"""A plugin of pytest: results are written as they come, so that a run that is ended loses none and can continue.

    python -m pytest -p benchmarks.device.pytest_results --results FILE [--skip-finished FILE] FOLDER

Lines of JSON: ``collected`` (all names, once), ``started``, and for each test ``outcome`` with its seconds, and the
reason where it did not pass. With pytest-xdist the controlling process writes them.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.device.results_file import begun_tests, finished_tests

#: after one of these nothing more runs in a process: CUDA reports it for every later call
STICKY_ERROR = re.compile(
    r"cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|illegal memory access|misaligned address|MISALIGNED_ADDRESS"
    r"|unspecified launch failure|LAUNCH_FAILED|LaunchFailure|IllegalInstruction|ILLEGAL_INSTRUCTION|HARDWARE_STACK"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("results")
    group.addoption("--results", help="file that the results are appended to")
    group.addoption("--skip-finished", help="results of an earlier run: what has ended there is left out")
    group.addoption(
        "--test-seconds",
        type=float,
        help="with workers: one whose test takes longer is ended, and where "
        "it was is written into hung.txt beside the results",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the writer in the controlling process, and the guard in each worker of xdist."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_WorkerGuard())
        seconds = config.getoption("--test-seconds")
        if seconds and config.getoption("--results"):
            log = Path(config.getoption("--results")).with_name("hung.txt")
            config.pluginmanager.register(_TestLimit(seconds, log))
    elif config.getoption("--results"):
        config.pluginmanager.register(ResultWriter(Path(config.getoption("--results"))))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has ended before; what was begun before and has not ended comes last."""
    path = config.getoption("--skip-finished")
    done = finished_tests(Path(path)) if path else set()
    begun = begun_tests(Path(path)) if path else set()
    items[:] = sorted((item for item in items if item.nodeid not in done), key=lambda item: item.nodeid in begun)


class ResultWriter:
    """Appends results to a file, each line at once."""

    def __init__(self, path: Path):
        self._file = path.open("a", encoding="utf-8")
        self._has_names = False

    def write(self, **record: Any) -> None:
        """Append a line."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def _write_names(self, names: Sequence[str]) -> None:
        if not self._has_names:
            self._has_names = True
            self.write(collected=list(names))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """The names, from the first worker."""
        self._write_names(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The names, where there are no workers."""
        if session.items:
            self._write_names([item.nodeid for item in session.items])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected, or is skipped as a whole."""
        if not report.passed:
            self.write(test=report.nodeid, outcome=f"file {report.outcome}", reason=reason_of(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.write(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test's outcome: of its call, or of what failed around it."""
        if report.when == "call" or not report.passed:
            reason = "" if report.passed else reason_of(report)
            outcome = "crashed" if report.failed and "crashed while running" in reason else report.outcome
            self.write(test=report.nodeid, outcome=outcome, seconds=round(report.duration, 3), reason=reason)


class _WorkerGuard:
    """Ends a worker after an error of CUDA's that stays: xdist starts a new one."""

    def __init__(self) -> None:
        self._is_broken = False

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and STICKY_ERROR.search(report.longreprtext):
            self._is_broken = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._is_broken:
            os._exit(1)


class _TestLimit:
    """Ends a worker whose test takes too long, whatever it waits for: xdist starts a new one."""

    def __init__(self, seconds: float, log: Path):
        self._seconds, self._log = seconds, log.open("a", encoding="utf-8")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._log)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


def reason_of(report: pytest.TestReport | pytest.CollectReport, most: int = 600) -> str:
    """The reason of a skip, or the first lines that say what is wrong."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    lines = report.longreprtext.splitlines()
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return "\n".join((errors or lines[-3:])[:4])[:most]
