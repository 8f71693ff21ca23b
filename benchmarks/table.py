"""The table: its lines, its head, its file."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import load_average, processor_name, versions
from benchmarks.peers import OURS, PeerEntry

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("net", "batch", "what", "unit", "prototorch", "best peer", "ratio", "goal", "check", "the others")


@dataclass(frozen=True)
class ResultLine:
    """A line: what each contender took (less is better). goal: the least ratio; limit: the most that ours may take."""

    net: str
    batch: str
    what: str
    unit: str
    figures: dict[str, float]
    goal: float | None = None
    limit: float | None = None
    check: str = ""

    @property
    def mine(self) -> float | None:
        """Ours; None where it failed."""
        return self.figures.get(OURS)

    @property
    def best(self) -> tuple[str, float] | None:
        """The best peer and its figure; None where there is none."""
        others = {name: value for name, value in self.figures.items() if name != OURS}
        return min(others.items(), key=lambda item: item[1]) if others else None

    @property
    def ratio(self) -> float | None:
        """The best peer's figure over ours: above 1 prototorch is ahead."""
        return self.best[1] / self.mine if self.best is not None and self.mine else None

    @property
    def is_goal_reached(self) -> bool | None:
        """Whether the goal is reached; None where there is no goal, or no figure."""
        if self.limit is not None:
            return None if self.mine is None else self.mine <= self.limit
        return None if self.goal is None or self.ratio is None else self.ratio >= self.goal

    def text(self) -> str:
        """The line in the table."""
        best = "" if self.best is None else f"{self.best[0]} {format_number(self.best[1])}"
        others = sorted((v, k) for k, v in self.figures.items() if k != OURS)[1:]
        goal = f"<= {self.limit:g}" if self.limit is not None else "" if self.goal is None else f">= {self.goal:g}"
        if self.is_goal_reached is not None:
            goal += " yes" if self.is_goal_reached else " **no**"
        cells = (
            self.net,
            self.batch,
            self.what,
            self.unit,
            "failed" if self.mine is None else format_number(self.mine),
            best,
            "" if self.ratio is None else f"{self.ratio:.2f}",
            goal,
            self.check,
            ", ".join(f"{k} {format_number(v)}" for v, k in others),
        )
        return f"| {' | '.join(cells)} |"


def format_number(value: float) -> str:
    """Three digits or more, without an exponent."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.1f}"


def table_head(entries: list[PeerEntry], threads: int, rounds: int) -> list[str]:
    """What the figures are, the versions, the machine."""
    package_versions = dict(versions())
    for entry in entries:
        package_versions |= entry.versions()
    return [
        f"# Measurements on the CPU, {datetime.date.today()}",
        "",
        f"{', '.join(f'{name} {version}' for name, version in package_versions.items())}; "
        f"{threads} threads of {processor_name()}; load at the beginning {load_average():.1f}.",
        "",
        f"Medians of {rounds} turns (long steps, starts and epochs: {min(rounds, 3)} or more), measured alternately, "
        "each contender in a process of its own; float32; SGD with momentum 0.9 and decay 5e-4 on every parameter. The "
        "ratio is the best peer's figure over ours: above 1 prototorch is ahead. Memory is the peak of a process that "
        "trains, or predicts; a first step is counted from the start of the process. Check: equal parameter counts and "
        "losses of the first steps (training), equal outputs (inference).",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{' --- |' * len(COLUMNS)}",
    ]


def write(top: list[str], lines: list[ResultLine], notes: list[str], folder: Path = RESULTS) -> Path:
    """Write the table into a file with the date, beside those of the same day."""
    stem, count = f"cpu-{datetime.date.today()}", 1
    path = folder / f"{stem}.md"
    while path.exists():
        count += 1
        path = folder / f"{stem}-{count}.md"
    text = [*top, *(line.text() for line in lines)]
    if notes:
        text += ["", "Notes:", "", *(f"* {note}" for note in notes)]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path
