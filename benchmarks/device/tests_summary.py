"""What the summary shows of a step that runs tests: counts, failures, reasons of skips, and what did not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.device.results_file import read_records
from benchmarks.device.step import output_of

MAX_FAILURES, MAX_NAMES = 60, 20


def describe_tests(folder: Path) -> list[str]:
    """The lines of the summary."""
    return list(_lines(folder))


def _lines(folder: Path) -> Iterator[str]:
    outcomes: dict[str, dict[str, Any]] = {}
    collected: dict[str, None] = {}
    started: dict[str, None] = {}
    for record in read_records(folder / "results.jsonl"):
        collected.update(dict.fromkeys(record.get("collected", ())))
        if "started" in record:
            started[record["started"]] = None
        if "outcome" in record and outcomes.get(record["test"], {}).get("outcome") != "failed":
            outcomes[record["test"]] = record  # an error after a test that passed counts, and a failure stays
    counts = Counter(record["outcome"] for record in outcomes.values())
    yield f"{len(collected)} tests: " + (", ".join(f"{n} {kind}" for kind, n in counts.most_common()) or "none has run")
    failures = [r for r in outcomes.values() if r["outcome"] not in ("passed", "skipped")]
    for record in failures[:MAX_FAILURES]:
        yield f"{record['outcome'].upper()} {record['test']}"
        yield from (f"    {line}" for line in record["reason"].splitlines())
    if len(failures) > MAX_FAILURES:
        yield f"... and {len(failures) - MAX_FAILURES} more"
    skips = Counter(r["reason"] for r in outcomes.values() if r["outcome"] == "skipped")
    yield from (f"skipped, {count}: {reason}" for reason, count in skips.most_common())
    unfinished = [name for name in started if name not in outcomes]
    yield from _names("begun and not ended", unfinished)
    yield from _names("not run", [name for name in collected if name not in outcomes and name not in started])
    slowest = sorted(outcomes.values(), key=lambda r: -r.get("seconds", 0))[:5]
    if slowest:
        yield "slowest: " + ", ".join(f"{r['test'].rpartition('::')[2]} {r.get('seconds', 0):.1f} s" for r in slowest)
    if not collected:
        yield from output_of(folder)[-20:]


def _names(title: str, names: list[str]) -> Iterator[str]:
    if names:
        more = f", and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        yield f"{title}, {len(names)}: {', '.join(n.rpartition('::')[2] for n in names[:MAX_NAMES])}{more}"
