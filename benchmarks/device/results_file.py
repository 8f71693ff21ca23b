"""The file of test results: lines of JSON, written by `pytest_results`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def finished_tests(path: Path) -> set[str]:
    """The tests that have an outcome; those that a dying worker took along have none."""
    return {record["test"] for record in read_records(path) if record.get("outcome") not in (None, "crashed")}


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of results; a last line that is not whole is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
