"""Measure a step of define-by-run code beside PyTorch's: the two-layer net of CS231n's lecture 8, written by hand.

    python -m benchmarks.eager_step                  all, in turns
    python -m benchmarks.eager_step --threads 2
    python -m benchmarks.eager_step --small          sizes 2, 4, 3, 2: what is not arithmetic
    python -m benchmarks.eager_step --device cuda    on a GPU, both in tf32, PyTorch also as CUDA graphs

A step is forward (two products, clamp, squared error), backward, and the update of both weights in `no_grad`; batch 64,
sizes 1000, 100, 10. It is measured as it stands, and compiled as a whole: by `prototorch.compile`, and by
`torch.compile`, which needs a C++ compiler. Each side has a process of its own, with the same number of threads;
PyTorch's have an allocator that keeps its memory (glibc's, by environment). A turn is 100 steps; while one side works,
the others wait for a line to read. The figures are the median of the turns and the least, of the wall clock and of the
processor time of the process, which says more where other programs take the processor away (of one thread alone: a
thread that waits for work takes processor time, too).
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

#: the processes: a module, as it stands or compiled
SIDES = ("prototorch", "torch", "prototorch compiled", "torch compiled")
GRAPH_SIDE = "torch compiled graph"  # on a GPU
STEPS = 100  # of a turn
WARM_UP_STEPS = 60
SIZES = (64, 1000, 100, 10)  # batch, inputs, hidden units, outputs
SMALL_SIZES = (2, 4, 3, 2)
#: blocks of any size stay with the process: no page faults for arrays that come and go
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 26),
}


def make_step(module: Any, sizes: tuple[int, int, int, int] = SIZES, device: str = "cpu") -> Any:
    """A function that trains one step, in the terms that both modules share."""
    batch, inputs, hidden, outputs = sizes
    module.manual_seed(0)
    x, y = module.randn(batch, inputs, device=device), module.randn(batch, outputs, device=device)
    w1 = module.randn(inputs, hidden, requires_grad=True, device=device)
    w2 = module.randn(hidden, outputs, requires_grad=True, device=device)

    def step() -> None:
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        loss.backward()
        with module.no_grad():
            w1.sub_(1e-6 * w1.grad)
            w2.sub_(1e-6 * w2.grad)
            w1.grad.zero_()
            w2.grad.zero_()

    return step


def work(side: str, threads: int, sizes: tuple[int, int, int, int], device: str = "cpu") -> None:
    """Be one of the processes: for each line that comes, a turn; prints the microseconds of a step, by the wall clock
    and of the processor."""
    if side.startswith("torch"):
        import torch as module

        module.set_num_threads(threads)
        module.backends.cuda.matmul.allow_tf32 = True  # as ours
    else:
        import prototorch as module
    step = make_step(module, sizes, device)
    step()  # afterwards each weight has a gradient
    if "compiled" in side:
        step = module.compile(step, **({"mode": "reduce-overhead"} if side == GRAPH_SIDE else {}))
    wait = module.cuda.synchronize if device != "cpu" else lambda: None
    for _ in range(WARM_UP_STEPS):
        step()
    wait()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin, begin_processor = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            step()
        wait()
        wall, processor = time.perf_counter() - begin, time.process_time() - begin_processor
        print(wall / STEPS * 1e6, processor / STEPS * 1e6, flush=True)


def measure(
    threads: int, turns: int, *, is_small: bool = False, device: str = "cpu"
) -> dict[str, dict[str, dict[str, float]]]:
    """Microseconds of a step of each side, by clock ("wall", "processor"): the median and the least of the turns."""
    base = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "PROTOTORCH_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    processes: dict[str, Any] = {}
    sides = SIDES if device == "cpu" else (*SIDES, GRAPH_SIDE)
    times: dict[str, list[list[float]]] = {side: [] for side in sides}
    try:
        for side in sides:
            command = [
                sys.executable,
                "-m",
                "benchmarks.eager_step",
                "--side",
                side,
                "--threads",
                str(threads),
                "--device",
                device,
            ]
            environment = {**base, **(ALLOCATOR if side.startswith("torch") else {})}
            processes[side] = subprocess.Popen(
                [*command, "--small"] if is_small else command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            if processes[side].stdout.readline() != "ready\n":
                raise SystemExit(f"{side}: its process has ended before it could be measured; see above")
        for _ in range(turns):
            for side in sides:
                processes[side].stdin.write("\n")
                processes[side].stdin.flush()
                times[side].append([float(one) for one in processes[side].stdout.readline().split()])
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for side, rows in times.items():
        columns = zip(("wall", "processor"), zip(*rows, strict=True), strict=True)
        found[side] = {clock: {"median": statistics.median(row), "least": min(row)} for clock, row in columns}
    return found


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--side", choices=(*SIDES, GRAPH_SIDE), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        work(options.side, options.threads, SMALL_SIZES if options.small else SIZES, options.device)
        return
    found = measure(options.threads, options.turns, is_small=options.small, device=options.device)
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"microseconds of a step, {options.threads} threads, {options.turns} turns: median, least; "
        "divided by PyTorch's eager ones"
    )
    for clock in ("wall", "processor"):
        for side, row in found.items():
            ratios = [row[clock][figure] / found["torch"][clock][figure] for figure in ("median", "least")]
            print(
                f"{clock:10s} {side:20s} {row[clock]['median']:8.0f} {row[clock]['least']:8.0f}   "
                f"{ratios[0]:5.2f} {ratios[1]:5.2f}"
            )


if __name__ == "__main__":
    main()
