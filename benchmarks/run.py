"""Measure training steps and inference against PyTorch, turn by turn, in one process.

    python -m benchmarks.run                               all rows
    python -m benchmarks.run --rows lenet,two_layer --rounds 9
    python -m benchmarks.run --write                       also write the table into benchmarks/results/

Both nets begin with the same weights; parameter counts must be equal, and so must the loss of the first step (to
float32 rounding; dropout is left out of that comparison by comparing inference). Each round runs every contender in
turn; the figure is the median, the ratio a ratio of medians.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import prototorch as pt
from benchmarks.nets import ROWS, Row, TorchTwin
from prototorch.spec import Spec
from prototorch.train.program import PREDICT, TRAIN


class Ours:
    """The same step by prototorch: plan and runner, without the loop around them."""

    def __init__(self, row: Row):
        self.model = pt.load_model(row.model)
        if row.model == "two_layer" or self.model.compile_block is not None:
            sgd = pt.optimizers.SGD(learning_rate=1e-4, momentum=0.9)
            loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
            self.model.compile(optimizer=sgd, loss=loss)
        self.name = self.model.net.inputs[0].name
        self.output = self.model.net.outputs[0]

    def parameters(self) -> int:
        return self.model.count_params()

    def take(self, weights: list[np.ndarray]) -> None:
        """PyTorch's weights: its dense kernels are [units, in], ours [in, units]."""
        here = self.model.weights
        given = {}
        for (name, mine), theirs in zip(here.items(), weights, strict=True):
            given[name] = theirs.T if mine.ndim == 2 else theirs
        self.model.set_weights(given)

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        specs = {self.name: Spec(x.shape)}
        program = self.model.trainer.program
        self.trains, self.infers = program.runner(TRAIN, specs), program.runner(PREDICT, specs)
        self.inputs: dict[str, Any] = {
            self.name: x, f"target:{self.output}": y, f"weight:{self.output}": np.ones(len(x), np.float32),
            "learning_rate": np.float32(1e-4), "step": np.int64(1), "random_key": np.array([0, 1], np.uint64),
        }  # fmt: skip

    def train(self) -> float:
        return float(self.trains(self.inputs)["loss"])

    def infer(self) -> np.ndarray:
        return self.infers(self.inputs)[self.output]


def medians(contenders: dict[str, Callable[[], Any]], rounds: int, least: float = 0.1) -> dict[str, float]:
    """The median seconds of a call of each, run turn by turn; short calls are repeated within a turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    repeats = {}
    for name, call in contenders.items():
        call()
        begin = time.perf_counter()
        call()
        repeats[name] = max(1, int(least / max(time.perf_counter() - begin, 1e-6)))
    for _ in range(rounds):
        for name, call in contenders.items():
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - begin) / repeats[name])
    return {name: statistics.median(t) for name, t in times.items()}


def measure(row: Row, batch: int, rounds: int) -> list[str]:
    """The lines of the table for one net and batch size."""
    x, y = row.batch(batch)
    ours = Ours(row)
    peers = {"torch": TorchTwin(row, False)}
    if len(row.shape) == 3 and row.model != "mlp":
        peers["torch channels_last"] = TorchTwin(row, True)
    assert ours.parameters() == peers["torch"].parameters(), "the nets have different numbers of parameters"
    ours.take(peers["torch"].weights())
    everyone: dict[str, Any] = {"prototorch": ours, **peers}
    for one in everyone.values():
        one.feed(x, y)
    peers["torch"].net.eval()
    with torch.inference_mode():
        wanted = peers["torch"].net(peers["torch"].x).numpy()
    off = np.abs(ours.infer() - wanted).max() / np.abs(wanted).max()
    assert off < 1e-4, f"the outputs differ by {off:.1e} of the largest"
    lines = []
    for what in ("train", "infer"):
        found = medians({name: getattr(one, what) for name, one in everyone.items()}, rounds)
        best = min(v for k, v in found.items() if k != "prototorch")
        shown = ", ".join(f"{k} {v * 1e3:.2f}" for k, v in found.items() if k != "prototorch")
        mine = found["prototorch"]
        lines.append(f"| {row.model} | {batch} | {what} | {mine * 1e3:.2f} | {shown} | {best / mine:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Run the rows asked for and print (or write) the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(r.model for r in ROWS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    head = [
        f"# Against PyTorch on the CPU, {datetime.date.today()}",
        "",
        f"prototorch {pt.__version__}, NumPy {np.__version__}, torch {torch.__version__}, Python "
        f"{platform.python_version()}, {threads} threads, {_processor()}. Medians of {args.rounds} turns, taken "
        "turn by turn in one process; ms a step; SGD with momentum 0.9, float32. The ratio is the best of PyTorch's "
        "times over ours: above 1 prototorch is ahead.",
        "",
        "| net | batch | what | prototorch ms | peers ms | ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(head[4:]))
    lines = []
    for row in ROWS:
        if row.model in args.rows.split(","):
            for batch in row.batches:
                lines += measure(row, batch, args.rounds)
    if args.write:
        path = Path(__file__).parent / "results" / f"cpu-{datetime.date.today()}.md"
        path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
        print(f"written to {path}")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
