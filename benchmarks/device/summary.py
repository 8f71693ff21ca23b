"""summary.md: how each step ended, and what it found."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.device.archive import discard
from benchmarks.device.rows import read_predictions, table_lines
from benchmarks.device.state import INTERRUPTED, PASSED, RUNNING, RunState, StepState
from benchmarks.device.step import Step, describe_step
from benchmarks.isolated_process import ROOT

PART_TITLES = {1: "Libraries, devices and first checks", 2: "Tests", 3: "Rates beside PyTorch", 4: "Profiles",
               5: "compute-sanitizer"}  # fmt: skip
RESULTS = ROOT / "benchmarks" / "results"
MAX_BYTES = 512 << 10


def write_summary(state: RunState, steps: Sequence[Step], path: Path) -> None:
    """Write the page."""
    text = "\n".join(summary_lines(state, steps)) + "\n"
    content = text.encode()
    if len(content) > MAX_BYTES:
        content = content[:MAX_BYTES] + b"\n\n... the rest is in the archive.\n"
    aside = path.with_suffix(".tmp")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    except OSError:
        discard(aside)
        raise


def summary_lines(state: RunState, steps: Sequence[Step]) -> Iterator[str]:
    """The lines of the page."""
    machine = json.loads((state.folder / "machine.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield f"# On {machine['device']}, {datetime.date.today()}"
    yield f"\nSources {machine['sources']}{', commit ' + machine['commit'] if machine['commit'] else ''}; {versions}.\n"
    yield "| part | step | status | seconds |"
    yield "| --- | --- | --- | --- |"
    states = {step.name: state.read(step.name) for step in steps}
    for step in steps:
        yield f"| {step.part} | {step.name} | {_status(states[step.name], state.sources)} |"
    if any(found is not None and found.status not in (PASSED, RUNNING) for found in states.values()):
        yield "\n`--again STEP` runs a step again, `--again failed` all that have been run and have not passed."
    predictions = read_predictions(RESULTS, machine["device"])
    for part in sorted({step.part for step in steps}):
        yield f"\n## Part {part}: {PART_TITLES[part]}"
        table = table_lines([s for s in steps if s.part == part], state.step_folder, predictions)
        yield from ["", *table] if table else []
        for step in (s for s in steps if s.part == part and states[s.name] is not None):
            yield f"\n### {step.name}: {step.title}\n"
            yield from (
                line if line.startswith("|") else f"    {line}"
                for line in describe_step(step, state.step_folder(step.name))
            )


def _status(state: StepState | None, sources: str) -> str:
    if state is None:
        return "not run | "
    older = "" if state.sources == sources else f" (sources {state.sources})"
    times = f" {state.attempts} times" if state.status == INTERRUPTED and state.attempts > 1 else ""
    text = state.status if state.status == PASSED else f"**{state.status}{times}**"
    code = f", exit code {state.code}" if state.code else ""
    return f"{text}{code}{older} | {state.seconds}"
