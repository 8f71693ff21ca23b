"""One contender in a process of its own: commands come as lines of JSON on standard input, answers go back likewise.

python -m benchmarks.worker ENTRY ROW --threads N

Each contender has its own process, so that libraries, thread pools and memory do not meet. A command is
``{"do": NAME, ...}``; the answer ``{"ok": VALUE}``, or ``{"failed": REASON}`` for what the contender cannot do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contender import Contender, Setup, UnsupportedError, Weights
from benchmarks.machine import peak_memory
from benchmarks.peers import ENTRIES, PeerEntry
from benchmarks.workloads import EPOCH_BATCH, WORKLOADS, Workload


class Worker:
    """What the commands do; `contender` is the one that is open."""

    def __init__(self, entry: PeerEntry, row: Workload, threads: int):
        self.entry, self.row, self.threads = entry, row, threads
        self.contender: Contender | None = None

    def open(self, batch: int, weights: str | None = None, onnx: str | None = None, dropout: bool = True) -> None:
        """Make the contender, with these weights or its own, and give it the batch."""
        setup = Setup(self.threads, dropout, Path(onnx) if onnx else None)
        self.contender = self.entry.make(self.row, setup)
        if weights is not None:
            self.contender.load(_read(weights))
        self.contender.feed(*self.row.batch(batch))

    def parameters(self) -> int | None:
        """The number of trainable parameters."""
        return self._contender().parameters()

    def turn(self, what: str, times: int = 1) -> float:
        """The seconds that so many steps take."""
        call: Callable[[], Any] = getattr(self._contender(), what)
        begin = time.perf_counter()
        for _ in range(times):
            call()
        return time.perf_counter() - begin

    def losses(self, steps: int) -> list[float]:
        """The losses of the next steps."""
        return [self._contender().train() for _ in range(steps)]

    def outputs(self, path: str) -> None:
        """Write the net's first output for the batch."""
        np.save(path, self._contender().infer())

    def memory(self) -> int:
        """The most bytes of memory this process has held."""
        return peak_memory()

    def epoch(self, x: str, y: str, weights: str) -> float:
        """An epoch over images in files, from these weights; its mean loss."""
        contender = self.entry.make(self.row, Setup(self.threads))
        contender.load(_read(weights))
        return contender.epoch(np.load(x), np.load(y), EPOCH_BATCH)

    def weights(self, path: str) -> None:
        """Write the first weights (of prototorch, whose names and layouts all contenders read)."""
        from benchmarks.prototorch_contender import build_model

        arrays: dict[str, Any] = dict(build_model(self.row).weights)
        np.savez(path, **arrays)

    def _contender(self) -> Contender:
        if self.contender is None:
            raise UnsupportedError("nothing is open")
        return self.contender


def _read(path: str) -> Weights:
    with np.load(path) as given:
        return {name: given[name] for name in given.files}


def serve(worker: Worker, answers: Any) -> None:
    """Do what comes until the input ends."""
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"ok": getattr(worker, command.pop("do"))(**command)}
        except Exception as error:  # whatever a framework raises is the reason why a line of the table is missing
            answer = {"failed": f"{type(error).__name__}: {str(error).strip()}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Begin, and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entry", choices=list(ENTRIES))
    parser.add_argument("row", choices=list(WORKLOADS))
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # some pools count the processors
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    serve(Worker(ENTRIES[args.entry], WORKLOADS[args.row], args.threads), answers)


if __name__ == "__main__":
    main()
