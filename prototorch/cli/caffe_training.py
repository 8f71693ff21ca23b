"""Training by a solver of Caffe: what ``prototorch run solver.prototxt`` does."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from prototorch.base.early_signals import take_pending
from prototorch.caffe.settings import set_device, set_mode_cpu, set_mode_gpu
from prototorch.caffe.snapshot_prefix import snapshot_prefix
from prototorch.caffe.solver import NONE, SNAPSHOT, STOP, Solver, get_solver
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.reader import read_solver_file
from prototorch.cli.json_output import print_json, to_json_types
from prototorch.engine.backends.device_name import parse_device
from prototorch.engine.storage.run_folder import RunFolder
from prototorch.errors import UsageError
from prototorch.schema.python_imports import is_python_allowed
from prototorch.train.output_paths import default_run_dir
from prototorch.train.progress import format_duration

__all__ = ["EFFECTS", "CaffeRun", "select_mode", "train"]

EFFECTS = (STOP, SNAPSHOT, NONE)


@dataclass
class CaffeRun:
    """The options of a run. snapshot: the state to go on with; caffe_resume: as Caffe does. weights: files with commas
    between them.

    snapshot_prefix: instead of the solver's. sigint_effect, sighup_effect: what the signals ask for, one of `EFFECTS`.
    """

    solver_file: str
    run_dir: str | None = None
    snapshot: str | None = None
    caffe_resume: bool = False
    weights: str | None = None
    snapshot_prefix: str | None = None
    level: int = 0
    stages: tuple[str, ...] = ()
    sigint_effect: str = STOP
    sighup_effect: str = SNAPSHOT
    device: str | None = None
    quiet: bool = False
    as_json: bool = False


class _Signals:
    """What signals have asked for since the last question."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.number: int | None = None  # of the signal that stopped the training

    def next_request(self) -> str:
        """The next request, "none" where there is none."""
        return self.requests.pop(0) if self.requests else NONE

    @contextmanager
    def handle(self, effects: dict[int, str]) -> Iterator[None]:
        """Inside, signals become requests; a second one that stops raises KeyboardInterrupt."""

        def handler(effect: str) -> Callable[[int, Any], None]:
            def receive(number: int, frame: Any) -> None:
                if effect == STOP:
                    if self.number is not None:
                        raise KeyboardInterrupt
                    self.number = number
                if effect != NONE:
                    self.requests.append(effect)

            return receive

        before = {number: signal.signal(number, handler(effect)) for number, effect in effects.items()}
        for number, effect in effects.items():
            if take_pending(before[number]):
                handler(effect)(number, None)
        try:
            yield
        finally:
            for number, old in before.items():
                if old is not None:
                    signal.signal(number, old)


def train(run: CaffeRun) -> int:
    """Train as the solver says; the exit code. Raises UsageError for options that exclude each other."""
    if run.caffe_resume and run.snapshot is None:
        raise UsageError("--caffe-resume goes with --snapshot STATE: it says how that is gone on with")
    if run.snapshot is not None and run.weights is not None:
        raise UsageError("--snapshot goes on with the weights of its state; leave out --weights")
    message = read_solver_file(run.solver_file)
    select_mode(run.device, message)
    effects = {int(signal.SIGINT): run.sigint_effect, int(signal.SIGTERM): STOP}
    if hasattr(signal, "SIGHUP"):
        effects[int(signal.SIGHUP)] = run.sighup_effect
    signals, start = _Signals(), time.perf_counter()
    with signals.handle(effects), _run_folder(run, message) as folder:
        solver = get_solver(
            run.solver_file,
            level=run.level,
            stages=run.stages,
            weights=run.weights if run.snapshot is None else "",
            prefix=run.snapshot_prefix,
            run_dir=folder,
            allow_python=is_python_allowed(),
            write=(lambda line: None) if run.quiet or run.as_json else click.echo,
        )
        try:
            solver.action = signals.next_request
            solver.solve(run.snapshot, run.caffe_resume)
        finally:
            solver.close()
    _report(run, solver, time.perf_counter() - start)
    if signals.number is not None:
        state = solver.snapshots[-1][1] if solver.snapshots else None
        go_on = f"; --snapshot {state} continues" if state else ""
        name = signal.Signals(signals.number).name
        click.echo(f"prototorch: stopped by {name} after iteration {solver.iter}{go_on}", err=True)
        return 128 + signals.number
    return 0


def select_mode(device: str | None, solver: Message | None = None) -> None:
    """The device of nets: that of the command line, else the one that a solver's file states, else the CPU."""
    stated = solver is not None and solver.has("solver_mode") and solver["solver_mode"] == "GPU"
    name = parse_device(device or "auto")
    if name is not None and (name.type == "cuda" or (name.type == "auto" and stated)):
        set_mode_gpu()
        if name.number is not None:
            set_device(name.number)
    else:
        set_mode_cpu()


def _report(run: CaffeRun, solver: Solver, seconds: float) -> None:
    paths = [path for pair in solver.snapshots for path in pair]
    if run.as_json:
        result = {"iteration": solver.iter, "loss": solver.loss, "test": solver.test_results, "snapshots": paths}
        print_json(to_json_types({**result, "seconds": seconds}))
    else:
        saved = f"saved {paths[-2]}" if paths else "no snapshot was asked for"
        click.echo(f"{saved} after {solver.iter} iterations, {format_duration(seconds)}")


@contextmanager
def _run_folder(run: CaffeRun, solver: Message) -> Iterator[Path | None]:
    """The locked folder that snapshots go to; None where --snapshot-prefix says where.

    ``runs/NAME``, or the first of ``runs/NAME-2``, ... that has no snapshots of this prefix; with ``--snapshot`` the
    folder that the state is in.
    """
    if run.snapshot_prefix is not None:
        if run.run_dir is not None:
            raise UsageError("--snapshot-prefix says where snapshots go; leave out --run-dir")
        yield None
        return
    path = Path(run.run_dir) if run.run_dir is not None else _default_folder(run, solver)
    with RunFolder(path):
        yield path


def _default_folder(run: CaffeRun, solver: Message) -> Path:
    text = Path(run.solver_file)
    prefix = snapshot_prefix(solver, text, None, None).path
    if run.snapshot is not None:
        match = re.fullmatch(r"(.*)_iter_\d+\.solverstate(\.h5)?", run.snapshot)
        if match is not None and match[1].endswith(f"/{prefix}"):
            return Path(match[1][: -len(prefix) - 1])
    for number in itertools.count(1):
        folder = default_run_dir(text.stem if number == 1 else f"{text.stem}-{number}")
        stem = folder / prefix
        is_in_use = stem.parent.is_dir() and any(
            name.startswith(f"{stem.name}_iter_") for name in os.listdir(stem.parent)
        )
        if not is_in_use or run.snapshot is not None:
            return folder
    raise AssertionError
