"""Measure one row: the contenders in turn, each in its own process; a contender that fails leaves a note."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import check
from benchmarks.contender import UnsupportedError
from benchmarks.machine import cpu_load
from benchmarks.peers import ENTRIES, OURS, PeerEntry
from benchmarks.table import ResultLine
from benchmarks.worker_process import ROOT, WorkerProcess, environment
from benchmarks.workloads import EPOCH_BATCH, EPOCH_WORKLOAD, IMAGE_COUNT, Workload, make_images

CHECK_BATCH, CHECK_STEPS = 4, 3  #: the batch and the number of steps of the check
MIN_ROUNDS = 3  #: turns of long steps, where no fewer are asked for
MAX_CPU_LOAD = (
    0.25  #: the share of the processors above which figures are not fair: threads that wait by spinning lose most
)
PAUSE = 0.05  #: seconds before a turn: the threads of the turn before stop waiting for work


@dataclass
class WorkloadRunner:
    """The measuring of rows: who takes part, how often, and what there was to say."""

    entries: list[PeerEntry]
    threads: int
    rounds: int
    least: float = 0.2
    most: float = 120.0
    checked: bool = True
    image_count: int = IMAGE_COUNT
    notes: list[str] = field(default_factory=list)

    def row(self, row: Workload, what: list[str], batches: list[int] | None) -> list[ResultLine]:
        """The lines of a row."""
        lines: list[ResultLine | None] = []
        others = cpu_load()
        if others > MAX_CPU_LOAD:
            self._add_note(
                f"{row.name}: other processes used {others:.0%} of the processors at the start: not comparable"
            )
        with tempfile.TemporaryDirectory(prefix="prototorch-bench-") as folder:
            place = Path(folder)
            weights = place / "weights.npz"
            if set(what) - {"memory", "first-step"}:
                with WorkerProcess(ENTRIES[OURS], row, self.threads) as child:
                    child.ask("weights", path=str(weights))
            if "train" in what:
                fit = self._check_training(row, weights) if self.checked else ""
                lines += [self._train(row, n, weights, fit) for n in batches or row.train]
            if "infer" in what:
                lines += [self._infer(row, n, weights, place) for n in batches or row.infer]
            if "memory" in what:
                lines += [self._memory(row, n) for n in batches or row.train]
            if "infer-memory" in what:
                lines += [self._memory(row, n, (weights, place)) for n in batches or row.infer]
            if "first-step" in what:
                lines += self._first_step(row, (batches or row.train)[0])
            if "epoch" in what and row.name == EPOCH_WORKLOAD:
                lines += self._epoch(row, weights, place)
        return [line for line in lines if line is not None]

    # ------------------------------------------------------------------ steps, measured alternately

    def _train(self, row: Workload, batch: int, weights: Path, fit: str) -> ResultLine | None:
        with ExitStack() as stack:
            workers = self._open_workers(stack, row, "train", batch, weights, {})
            figures = self._turns(row, "train", workers)
        return self._add_line(row, f"{batch}", "train", "ms", {k: 1e3 * v for k, v in figures.items()}, row.goal, fit)

    def _infer(self, row: Workload, batch: int, weights: Path, place: Path) -> ResultLine | None:
        export: dict[str, str] = {}
        for entry in self._participants(row, training=False):
            if entry.needs_export and not export:
                export = self._export(row, batch, weights, place)
        with ExitStack() as stack:
            workers = self._open_workers(stack, row, "infer", batch, weights, export)
            fit = self._check_outputs(row, batch, workers, place) if self.checked else ""
            figures = self._turns(row, "infer", workers)
        return self._add_line(row, f"{batch}", "infer", "ms", {k: 1e3 * v for k, v in figures.items()}, 1.0, fit)

    def _open_workers(
        self, stack: ExitStack, row: Workload, what: str, batch: int, weights: Path, export: dict[str, str]
    ) -> dict[str, WorkerProcess]:
        """The contenders that are ready, each warmed up."""
        workers = {}
        for entry in self._participants(row, training=what == "train"):
            if entry.needs_export and "onnx" not in export:
                continue  # the export has left its note
            child = WorkerProcess(entry, row, self.threads)
            try:
                child.ask("open", batch=batch, weights=str(weights), **(export if entry.needs_export else {}))
                child.ask("turn", what=what)
            except UnsupportedError as reason:
                self._note_failure(entry, row, what, reason)
                child.close()
            else:
                stack.callback(child.close)
                workers[entry.name] = child
        return workers

    def _turns(self, row: Workload, what: str, workers: dict[str, WorkerProcess]) -> dict[str, float]:
        """The median seconds of a step; short ones are repeated within a turn."""
        times: dict[str, list[float]] = {name: [] for name in workers}
        repeats: dict[str, int] = {}
        round_seconds, turn = 0.0, -1  # the first turn tells how many steps a turn has, and how many turns there are
        while turn < min(self.rounds, max(MIN_ROUNDS, int(self.most / max(round_seconds, 1e-9)))):
            for name, child in list(workers.items()):
                time.sleep(PAUSE)
                try:
                    spent = child.ask("turn", what=what, times=repeats.get(name, 1))
                except UnsupportedError as reason:
                    self._note_failure(child.entry, row, what, reason)
                    del workers[name]
                    times.pop(name)
                    continue
                if turn < 0:
                    repeats[name] = max(1, round(self.least / max(spent, 1e-6)))
                    round_seconds += spent * repeats[name]
                else:
                    times[name].append(spent / repeats[name])
            turn += 1
        return {name: statistics.median(figures) for name, figures in times.items()}

    # ------------------------------------------------------------------ that they compute the same

    def _check_training(self, row: Workload, weights: Path) -> str:
        """Compare parameter counts and the losses of the first steps, without dropout; says how it went."""
        mine: tuple[int, list[float]] | None = None
        wrong = False
        for entry in self._participants(row, training=True):
            try:
                with WorkerProcess(entry, row, self.threads) as child:
                    child.ask("open", batch=CHECK_BATCH, weights=str(weights), dropout=False)
                    count, figures = child.ask("parameters"), child.ask("losses", steps=CHECK_STEPS)
            except UnsupportedError as reason:
                self._note_failure(entry, row, "check", reason)
                wrong = True
                continue
            if entry.name == OURS:
                mine = count, figures
            elif mine is not None:
                for complaint in (check.compare_parameters(mine[0], count), check.compare_losses(mine[1], figures)):
                    if complaint is not None:
                        self._note_failure(entry, row, "check", complaint)
                        wrong = True
        return "see notes" if wrong else "same"

    def _check_outputs(self, row: Workload, batch: int, workers: dict[str, WorkerProcess], place: Path) -> str:
        if OURS not in workers:
            return ""
        wrong = False
        for name, child in workers.items():
            try:
                child.ask("outputs", path=str(place / f"{name}.npy"))
            except UnsupportedError as reason:
                self._note_failure(child.entry, row, "check", reason)
                wrong = True
                continue
            if name != OURS and (place / f"{OURS}.npy").exists():
                complaint = check.compare_outputs(place / f"{OURS}.npy", place / f"{name}.npy")
                if complaint is not None:
                    self._note_failure(child.entry, row, f"check of inference at {batch}", complaint)
                    wrong = True
        return "see notes" if wrong else "same"

    def _export(self, row: Workload, batch: int, weights: Path, place: Path) -> dict[str, str]:
        path = place / "model.onnx"
        command = [sys.executable, "-m", "benchmarks.peers.onnx_model", row.name, str(batch), str(weights), str(path)]
        completed = subprocess.run(command, cwd=ROOT, env=environment(self.threads), capture_output=True, text=True)
        if completed.returncode:
            error_line = (completed.stderr.strip() or "no word").splitlines()[-1]
            self._add_note(f"{row.name}, inference at {batch}: the net cannot be exported: {error_line[:300]}")
            return {}
        return {"onnx": str(path)}

    # ------------------------------------------------------------------ processes as a whole

    def _memory(self, row: Workload, batch: int, infer: tuple[Path, Path] | None = None) -> ResultLine | None:
        """The peaks of processes that train; or that predict, with weights from a file, and a folder for more. Ours is
        measured the second time, when its kernels are on disk, as they are from then on."""
        export = {} if infer is None else self._export(row, batch, *infer)

        def peak(entry: PeerEntry, warm: bool = True) -> float:
            if entry.needs_export and not export:
                raise UnsupportedError("the net cannot be exported")
            if entry.name == OURS and warm:
                peak(entry, False)
            with WorkerProcess(entry, row, self.threads) as child:
                child.ask("open", batch=batch, **(export if entry.needs_export else {}))
                child.ask("turn", what="train" if infer is None else "infer", times=CHECK_STEPS)
                return child.ask("memory") / 2**20

        what = "memory" if infer is None else "memory, infer"
        return self._add_line(row, f"{batch}", what, "MiB", self._measure_each(row, what, peak, infer is None), 1.0)

    def _first_step(self, row: Workload, batch: int) -> list[ResultLine | None]:
        """Seconds from the command to the end of the first step: with no compiled code kept, and with it."""
        cold: dict[str, list[float]] = {}
        warm: dict[str, list[float]] = {}

        def both(entry: PeerEntry) -> float:
            cache = Path(tempfile.mkdtemp(prefix="prototorch-bench-cache-"))
            try:
                for figures in (cold, warm):
                    with WorkerProcess(entry, row, self.threads, cache) as child:
                        child.ask("open", batch=batch)
                        child.ask("turn", what="train")
                        figures.setdefault(entry.name, []).append(time.perf_counter() - child.began)
            finally:
                shutil.rmtree(cache, ignore_errors=True)
            return 0.0

        for _ in range(min(self.rounds, 3)):
            self._measure_each(row, "first step", both)
        limits = {"cold": row.first, "warm": 1.5}
        return [
            self._add_line(
                row,
                f"{batch}",
                f"first step, {name}",
                "s",
                {k: statistics.median(v) for k, v in figures.items()},
                None,
                limit=limits[name],
            )
            for name, figures in (("cold", cold), ("warm", warm))
        ]

    def _epoch(self, row: Workload, weights: Path, place: Path) -> list[ResultLine | None]:
        """Wall seconds of whole processes that train one epoch, their memory, and the loss they end with."""
        paths = {name: str(place / f"{name}.npy") for name in ("x", "y")}
        for path, array in zip(paths.values(), make_images(self.image_count), strict=True):
            np.save(path, array)
        seconds: dict[str, list[float]] = {}
        memory: dict[str, float] = {}
        losses: dict[str, float] = {}

        def time_process(entry: PeerEntry) -> float:
            with WorkerProcess(entry, row, self.threads) as child:
                losses[entry.name] = child.ask("epoch", weights=str(weights), **paths)
                memory[entry.name] = child.ask("memory") / 2**20
            seconds.setdefault(entry.name, []).append(time.perf_counter() - child.began)
            return 0.0

        for _ in range(min(self.rounds, 3)):
            self._measure_each(row, "epoch", time_process)
        loss_text = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())
        self._add_note(f"{row.name}, epoch over {self.image_count} images: mean losses {loss_text}")
        medians = {k: statistics.median(v) for k, v in seconds.items()}
        return [
            self._add_line(row, f"{EPOCH_BATCH}", "epoch, whole process", "s", medians, 2.0),
            self._add_line(row, f"{EPOCH_BATCH}", "epoch, memory", "MiB", memory, 1.0),
        ]

    def _measure_each(
        self, row: Workload, what: str, measure: Callable[[PeerEntry], float], training: bool = True
    ) -> dict[str, float]:
        figures = {}
        for entry in self._participants(row, training):
            try:
                figures[entry.name] = measure(entry)
            except UnsupportedError as reason:
                self._note_failure(entry, row, what, reason)
        return figures

    # ------------------------------------------------------------------ words

    def _participants(self, row: Workload, training: bool) -> list[PeerEntry]:
        return [entry for entry in self.entries if entry.takes(row, training)]

    def _add_line(
        self,
        row: Workload,
        batch: str,
        what: str,
        unit: str,
        figures: dict[str, float],
        goal: float | None,
        fit: str = "",
        limit: float | None = None,
    ) -> ResultLine | None:
        if not figures:
            return None
        line = ResultLine(row.name, batch, what, unit, figures, goal, limit, fit)
        print(line.text(), flush=True)
        return line

    def _note_failure(self, entry: PeerEntry, row: Workload, what: str, reason: object) -> None:
        self._add_note(f"{row.name}, {what}: {entry.name}: {reason}")

    def _add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            print(f"  ({text})", file=sys.stderr, flush=True)
