"""A step of the first half hour: a command with a time limit, and what the summary shows of its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MAX_LINES = 40

#: the lines of the summary, from the step's folder
Describe = Callable[[Path], list[str]]


def output_of(folder: Path) -> list[str]:
    """The lines that the step has printed so far."""
    try:
        return (folder / "output.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def describe_output(folder: Path, most: int = MAX_LINES) -> list[str]:
    """What the step printed, its last lines where it is long."""
    lines = output_of(folder)
    return [f"... {len(lines) - most} lines before", *lines[-most:]] if len(lines) > most else lines


def describe_step(step: Step, folder: Path) -> list[str]:
    """The step's own lines; where its results cannot be read, a line that says so."""
    try:
        return step.describe(folder)
    except Exception as error:  # a file that is cut off must not end the part
        return [f"the results cannot be shown: {type(error).__name__}: {str(error)[:300]}", *describe_output(folder)]


def describe_tables(folder: Path) -> list[str]:
    """What a step printed that prints tables."""
    return describe_output(folder, 5 * MAX_LINES)


@dataclass(frozen=True)
class Step:
    """One command of a part.

    Attributes:
        name: of letters, digits and "-".
        part: 1 to 5.
        title: what it shows.
        limit: seconds after which it is ended.
        command: the arguments after the interpreter; ``{folder}`` stands for the step's own folder, ``{seconds}`` for
            its limit, ``{cores}`` for the number of processors.
        least: seconds that must be left in the part for it to begin.
        required: without it the rest of the part tells nothing, and is not begun.
        resumes: it continues by itself where an earlier attempt ended, so that one that was too long is run again.
        stand_in: the arguments on a machine without a GPU, where a fake device takes its place; None: the same.
        environment: variables in addition.
    """

    name: str
    part: int
    title: str
    limit: float
    command: tuple[str, ...]
    least: float = 5.0
    required: bool = False
    resumes: bool = False
    stand_in: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    describe: Describe = describe_output

    def arguments(self, folder: Path, seconds: float, cores: int, is_stand_in: bool) -> list[str]:
        """The command with its values."""
        chosen = self.stand_in if is_stand_in and self.stand_in is not None else self.command
        values = {"{folder}": str(folder), "{seconds}": f"{seconds:.0f}", "{cores}": str(cores)}
        return [_replace(argument, values) for argument in chosen]


def _replace(argument: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        argument = argument.replace(name, value)
    return argument
