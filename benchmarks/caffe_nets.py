"""Measure Caffe's own net files: images a second of forward and backward passes, and peak memory.

    python -m benchmarks.caffe_nets CAFFE                     all rows; CAFFE is a copy of Caffe's repository
    python -m benchmarks.caffe_nets CAFFE --rows alexnet --rounds 5
    python -m benchmarks.caffe_nets CAFFE --rows lenet --steps

A step is what ``caffe time`` runs: the forward pass in the phase TRAIN, and the backward pass with the gradients of all
parameters, without an update. Each net has a process of its own; its figure is the best of the rounds, as that of the
product of matrices is, its memory the most that the process has held resident when its kernels are on disk. Beside it
stand what real Caffe reaches (two Zen 3 cores, OpenBLAS), scaled by the rate of a product of float32 matrices here and
there. ``--steps`` lists the steps of the plan that no native kernel runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.isolated_process import run_isolated
from benchmarks.machine import cpu_load, peak_memory, processor_name

LIMIT = 600.0  # seconds of a process
CAFFE_GFLOPS = 204.0  # of the machine of the figures below, in sgemm on two threads


@dataclass(frozen=True)
class Row:
    """A net of Caffe's repository: its file, the shapes of its data, and what real Caffe reaches with it."""

    file: str
    shapes: dict[str, tuple[int, ...]]
    caffe_rate: float  # images a second
    caffe_memory: int  # MB

    @property
    def batch(self) -> int:
        """Images of a step."""
        return self.shapes["data"][0]


def _images(batch: int, *image: int) -> dict[str, tuple[int, ...]]:
    return {"data": (batch, *image), "label": (batch,)}


ROWS = {
    "alexnet": Row("models/bvlc_alexnet/train_val.prototxt", _images(16, 3, 227, 227), 18.6, 708),
    "caffenet": Row("models/bvlc_reference_caffenet/train_val.prototxt", _images(16, 3, 227, 227), 19.2, 641),
    "googlenet": Row("models/bvlc_googlenet/train_val.prototxt", _images(16, 3, 224, 224), 6.6, 1379),
    "lenet": Row("examples/mnist/lenet_train_test.prototxt", _images(64, 1, 28, 28), 3070.0, 36),
}


def make_step(path: Path, shapes: dict[str, tuple[int, ...]]) -> tuple[Callable[[], Any], Any]:
    """A function that runs the forward and the backward pass of a net file on random data, and its plan."""
    from prototorch.caffe.interop.translate import translate_net
    from prototorch.caffe.text.net_state import filter_net
    from prototorch.caffe.text.reader import read_net_file
    from prototorch.engine.backends.cpu import cpu
    from prototorch.graph.ir import Graph
    from prototorch.graph.plan import make_plan
    from prototorch.graph.trace import RANDOM_KEY, Trace, trace_node
    from prototorch.ops.core import backward_pass, use_interpreter
    from prototorch.runtime.executor import make_executor
    from prototorch.runtime.variables import Variables
    from prototorch.spec import Spec

    net = translate_net(filter_net(read_net_file(path), "TRAIN"), "TRAIN", shapes)
    trace = Trace(Graph(), True)
    for node in net.net.inputs:
        trace.values[node.name] = trace.graph.input(node.name, Spec(net.shapes[node.name], node.dtype))
    for layer_node in net.net.nodes:
        trace_node(trace, layer_node)
    trained = [name for name, weight in trace.weights.items() if weight.trainable]
    losses = [(value, w) for c in net.layers for value, w in zip(c.top_values, c.loss_weights, strict=False) if w]
    with use_interpreter(trace.graph):
        seeds = [(trace.values[v], trace.graph.constant(np.full((), w, np.float32))) for v, w in losses]
        grads = backward_pass(list(trace.graph.nodes), seeds, [trace.graph.states[name] for name in trained])
    results = {f"loss {v}": trace.values[v] for v, _ in losses}
    results |= {f"gradient {name}": g for name, g in zip(trained, grads, strict=True) if g is not None}
    backend, variables, random = cpu(), Variables(), np.random.default_rng(0)
    plan = make_plan(trace.graph, results, dict(trace.updates), backend)
    for name, weight in trace.weights.items():
        variables.create(name, weight.initializer.values(weight.spec.shape, random, weight.fans), own=True)
    executor = make_executor(plan, backend, variables)
    inputs: dict[str, Any] = {}
    for node in net.net.inputs:
        shape = net.shapes[node.name]
        array = random.integers(0, 10, shape) if len(shape) == 1 else random.normal(size=shape)
        inputs[node.name] = array.astype(node.dtype)
    if RANDOM_KEY in plan.inputs:
        inputs[RANDOM_KEY] = np.array([1, 2], np.uint64)
    return lambda: executor({name: inputs[name] for name in plan.inputs}), (plan, backend)


def measure_here(path: Path, shapes: dict[str, tuple[int, ...]], rounds: int) -> dict[str, Any]:
    """Seconds of a step, and the peak of memory, of this process."""
    step, _ = make_step(path, shapes)
    losses = [float(np.asarray(v)) for name, v in step().items() if name.startswith("loss ")]
    step()
    seconds = []
    for _ in range(rounds):
        begin, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() - begin < 1.0:
            step()
            count += 1
        seconds.append((time.perf_counter() - begin) / count)
    return {"seconds": min(seconds), "memory": peak_memory(), "losses": losses}


def steps_by_level(path: Path, shapes: dict[str, tuple[int, ...]]) -> tuple[dict[str, int], list[str]]:
    """How many steps of a plan run at which level, and those that no native kernel runs."""
    from prototorch.graph.plan_printer import describe_plan

    _, (plan, backend) = make_step(path, shapes)
    report = describe_plan(plan, backend, str(path))
    counts = dict(Counter(step.level for step in report.steps))
    others = [step for step in report.steps if step.level not in ("native", "winograd")]
    return counts, [f"{step.level} {step.op} ({step.layer})" for step in others]


def sgemm_gflops(size: int = 2048, rounds: int = 7) -> float:
    """The best rate of NumPy's product of two float32 matrices."""
    a = np.random.default_rng(0).random((size, size), dtype=np.float32)
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best / 1e9


def measure(root: Path, name: str, rounds: int) -> dict[str, Any]:
    """The row of a net, measured in a process of its own; the first one compiles its kernels."""
    command = [sys.executable, "-m", "benchmarks.caffe_nets", str(root), "--one", name, "--rounds", str(rounds)]
    run_isolated([*command[:-1], "1"], LIMIT)
    result = run_isolated(command, LIMIT)
    if result.code != 0:
        raise SystemExit(f"{name}: {result.err.strip()[-2000:] or 'it took too long'}")
    figures: dict[str, Any] = json.loads(result.out.splitlines()[-1])
    return figures | {"name": name}


def table(figures: list[dict[str, Any]], gflops: float) -> str:
    """The rows as Markdown."""
    lines = [
        "| net | batch | img/s | Caffe, scaled | ratio | peak MB | Caffe's |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for found in figures:
        row = ROWS[found["name"]]
        rate, scaled = row.batch / found["seconds"], row.caffe_rate * gflops / CAFFE_GFLOPS
        lines.append(
            f"| {found['name']} | {row.batch} | {rate:,.1f} | {scaled:,.1f} | {rate / scaled:.2f} | "
            f"{found['memory'] / 1e6:,.0f} | {row.caffe_memory:,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caffe", type=Path, help="a copy of Caffe's repository")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", action="store_true", help="list the steps without native kernels")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        row = ROWS[options.one]
        print(json.dumps(measure_here(options.caffe / row.file, row.shapes, options.rounds)))
        return
    names = options.rows.split(",")
    if options.steps:
        for name in names:
            counts, found = steps_by_level(options.caffe / ROWS[name].file, ROWS[name].shapes)
            print(f"{name}: {counts}", *found, sep="\n  ")
        return
    load, before = cpu_load(), sgemm_gflops()
    figures = [measure(options.caffe, name, options.rounds) for name in names]
    gflops = max(before, sgemm_gflops())
    print(f"{processor_name()}; sgemm {gflops:.0f} GFLOP/s; {load:.0%} of the processors in use before\n")
    print(table(figures, gflops))


if __name__ == "__main__":
    main()
