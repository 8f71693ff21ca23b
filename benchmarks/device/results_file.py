"""The file of test results: lines of JSON, written by `pytest_results`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_ATTEMPTS = 2  # of a test that does not end


def finished_tests(path: Path) -> set[str]:
    """The tests that have an outcome; those that a dying worker took along have none."""
    return {record["test"] for record in read_records(path) if record.get("outcome") not in (None, "crashed")}


def forget_failed(path: Path) -> None:
    """Remove what is kept of tests that have neither passed nor been skipped: they are run again."""
    records = list(read_records(path))
    failed = {r["test"] for r in records if r.get("outcome") not in (None, "passed", "skipped")}
    begun = {r["started"] for r in records if "started" in r}
    failed |= begun - {r["test"] for r in records if "outcome" in r}
    kept = [r for r in records if r.get("test", r.get("started")) not in failed]
    if path.exists():
        path.write_text("".join(json.dumps(r) + "\n" for r in kept), encoding="utf-8")


def give_up(path: Path) -> None:
    """Give an outcome to tests that were begun `MAX_ATTEMPTS` times and have none, or took their process along each
    time: they have hung or crashed, and would do so in every attempt."""
    records = list(read_records(path))
    ended = finished_tests(path)
    begun = Counter(r["started"] for r in records if "started" in r)
    crashed = {r["test"] for r in records if r.get("outcome") == "crashed"}
    with path.open("a", encoding="utf-8") as file:
        if records and not path.read_text(encoding="utf-8").endswith("\n"):
            file.write("\n")  # the process was killed while it wrote
        for test, attempts in begun.items():
            if test not in ended and attempts >= MAX_ATTEMPTS:
                outcome = "crashed each time" if test in crashed else "not ended"
                reason = f"begun {attempts} times and never ended; not run again"
                file.write(json.dumps({"test": test, "outcome": outcome, "reason": reason}) + "\n")


def begun_tests(path: Path) -> set[str]:
    """The tests that were begun."""
    return {record["started"] for record in read_records(path) if "started" in record}


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of results; a last line that is not whole is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
