"""Measure a step of define-by-run code beside PyTorch's: the two-layer net of CS231n's lecture 8, written by hand.

    python -m benchmarks.eager_step                  both, in turns
    python -m benchmarks.eager_step --threads 2

A step is forward (two products, clamp, squared error), backward, and the update of both weights in `no_grad`; batch 64,
sizes 1000, 100, 10. Each side has a process of its own, with the same number of threads; PyTorch's has an allocator
that keeps its memory (glibc's, by environment). A turn is 100 steps; while one side works, the other waits for a line
to read. The figure is the median of the turns, and the least.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

SIDES = ("prototorch", "torch")
STEPS = 100  # of a turn
BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10
#: blocks of any size stay with the process: no page faults for arrays that come and go
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 26),
}


def make_step(module: Any) -> Any:
    """A function that trains one step, in the terms that both modules share."""
    module.manual_seed(0)
    x, y = module.randn(BATCH, INPUTS), module.randn(BATCH, OUTPUTS)
    w1 = module.randn(INPUTS, HIDDEN, requires_grad=True)
    w2 = module.randn(HIDDEN, OUTPUTS, requires_grad=True)

    def step() -> None:
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        loss.backward()
        with module.no_grad():
            w1.sub_(1e-6 * w1.grad)
            w2.sub_(1e-6 * w2.grad)
            w1.grad.zero_()
            w2.grad.zero_()

    return step


def work(side: str, threads: int) -> None:
    """Be one of the processes: for each line that comes, a turn; prints the microseconds of a step."""
    if side == "torch":
        import torch as module

        module.set_num_threads(threads)
    else:
        import prototorch as module
    step = make_step(module)
    for _ in range(STEPS):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(STEPS):
            step()
        print((time.perf_counter() - begin) / STEPS * 1e6, flush=True)


def measure(threads: int, turns: int) -> dict[str, Any]:
    """Microseconds of a step of both sides: the median and the least of the turns."""
    base = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
            "PROTOTORCH_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # fmt: skip
    processes = {}
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    try:
        for side in SIDES:
            command = [sys.executable, "-m", "benchmarks.eager_step", "--side", side, "--threads", str(threads)]
            environment = {**base, **(ALLOCATOR if side == "torch" else {})}
            processes[side] = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                               text=True)  # fmt: skip
            assert processes[side].stdout.readline() == "ready\n"
        for _ in range(turns):
            for side in SIDES:
                processes[side].stdin.write("\n")
                processes[side].stdin.flush()
                times[side].append(float(processes[side].stdout.readline()))
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return {side: {"median": statistics.median(row), "least": min(row)} for side, row in times.items()}


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        work(options.side, options.threads)
        return
    found = measure(options.threads, options.turns)
    if options.json:
        print(json.dumps(found))
        return
    print(f"microseconds of a step, {options.threads} threads: median (least)")
    for side, row in found.items():
        print(f"{side:12s} {row['median']:8.0f} ({row['least']:.0f})")
    print(f"ours / PyTorch: {found['prototorch']['median'] / found['torch']['median']:.2f} "
          f"({found['prototorch']['least'] / found['torch']['least']:.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
