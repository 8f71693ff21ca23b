"""One cell of the GPU's table: a net at one precision and batch size, ours beside PyTorch's ways, in one process.

Data lie on the device before the clock starts, for everybody; a further figure of ours has them come from the host.
Everybody begins with the same weights, and the outputs of the first inference are compared.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.contender import Setup
from benchmarks.peers.torch_nets import NETS
from benchmarks.peers.torch_weights import load
from benchmarks.prototorch_contender import PrototorchContender
from benchmarks.workloads import DECAY, INFERENCE, MOMENTUM, RATE, TRAINING, Workload, find_workload
from prototorch.train.step_inputs import PREDICT, TRAIN

#: PyTorch's ways, in the order in which they are tried
MODES = ("eager", "channels_last", "compile", "graph")
#: how far the outputs may lie from PyTorch's, relative to the largest: sums in another order, then 10 and 8 bits
TOLERANCE = {"fp32": 1e-3, "tf32": 3e-2, "bf16": 0.2}
#: where launches dominate, five times PyTorch is the goal
SPEEDUP_GOALS = {"lenet": 5.0}

#: a step, and waiting for all that was begun
StepAndWait = tuple[Callable[[], None], Callable[[], None]]


@dataclass
class CellResult:
    """What a cell found: seconds of a step by contender, the most bytes each held, and remarks."""

    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


class DeviceMonitor:
    """The clock and the memory of the device: of the GPU, or of the CPU, where only the harness itself is tried."""

    def __init__(self, name: str):
        self.name = name

    def synchronize(self) -> None:
        """Wait for all that was begun by PyTorch."""
        if self.name == "cuda":
            torch.cuda.synchronize()

    def used_bytes(self) -> int:
        """Bytes of the device's memory that are taken, by anybody."""
        if self.name != "cuda":
            return 0
        free, total = torch.cuda.mem_get_info()
        return int(total - free)


class OursOnGpu:
    """prototorch: the bound plan of the net; its inputs stay where the first call has put them."""

    def __init__(self, row: Workload, device: DeviceMonitor, precision: str, autotune: bool):
        self.ours = PrototorchContender(row, Setup(threads=os.cpu_count() or 1))
        model = self.ours.model
        block = model.compile_block
        assert block is not None
        options = {"device": device.name, "autotune": autotune}
        if device.name == "cuda":
            options["precision"] = precision
        model.set_compile(block.replace(**options))
        self.device = device

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        """Take the batch."""
        self.ours.feed(x, y)

    def make_step(self, what: str) -> Callable[[], None]:
        """A step that runs on what lies on the device; three are made, which compile, plan and record."""
        phase = TRAIN if what == TRAINING else PREDICT
        first = self.ours.train if what == TRAINING else self.ours.infer
        for _ in range(4):
            first()
        self.runner = self.ours._runner(phase)
        step = getattr(self.runner, "_run_step", None)  # the recorded step without the feeding around it
        return step if step is not None else (lambda: self.runner(self.ours.inputs))  # type: ignore[return-value]

    def make_fed_step(self) -> Callable[[], None]:
        """A step whose batch comes from the host."""
        return lambda: self.runner(self.ours.inputs)  # type: ignore[return-value]

    def synchronize(self) -> None:
        """Wait for all that was begun."""
        main = getattr(getattr(self.ours.model.trainer.plan_cache.backend, "device", None), "compute_stream", None)
        if main is not None and hasattr(main, "synchronize"):
            main.synchronize()

    def slowest_ops(self, most: int = 6) -> str:
        """Where a step's time goes, by op."""
        if not hasattr(self.runner, "time_launches"):
            return ""
        total: Counter[str] = Counter()
        for call, ms in self.runner.time_launches(self.ours.inputs):
            total[call.op] += ms
        return ", ".join(f"{op} {ms:.3f} ms" for op, ms in total.most_common(most))


class TorchOnGpu:
    """PyTorch in one of its ways."""

    def __init__(self, row: Workload, device: DeviceMonitor, precision: str, mode: str, weights: Any):
        torch.manual_seed(0)
        self.device, self.mode, self.low = device, mode, precision == "bf16"
        strict = precision == "fp32"
        torch.backends.cuda.matmul.allow_tf32 = not strict
        torch.backends.cudnn.allow_tf32 = not strict
        torch.backends.cudnn.benchmark = True
        self.net = NETS[row.name]()
        load(self.net, weights)
        self.net.to(device.name)
        self.format = torch.channels_last if mode != "eager" and row.has_image_input else torch.contiguous_format
        if mode != "eager" and row.has_image_input:
            self.net = self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        trainable = [p for p in self.net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trainable, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
        self.loss = nn.CrossEntropyLoss()
        self.run: Any = torch.compile(self.net, mode="max-autotune") if mode == "compile" else self.net

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        """Put the batch on the device."""
        self.x, self.y = torch.from_numpy(x).to(self.device.name), torch.from_numpy(y).to(self.device.name)
        if self.x.ndim == 4:
            self.x = self.x.contiguous(memory_format=self.format)

    def _narrow(self) -> Any:
        return torch.autocast(self.device.name, torch.bfloat16) if self.low else contextlib.nullcontext()

    def _train(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with self._narrow():
            loss = self.loss(self.run(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    def infer(self) -> Any:
        """The net's output."""
        with torch.inference_mode(), self._narrow():
            return self.run(self.x)

    def make_step(self, what: str) -> Callable[[], None]:
        """A step; the first ones are made, which compile and record."""
        self.net.train(what == TRAINING)
        step: Callable[[], Any] = self._train if what == TRAINING else self.infer
        if self.mode != "graph":
            for _ in range(3):
                step()
            return step
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay


def time_steps(
    steps: dict[str, tuple[Callable[[], None], Callable[[], None]]], rounds: int, least: float
) -> dict[str, float]:
    """The median seconds of a step of each, taken turn by turn: (step, wait) by name."""
    repeats: dict[str, int] = {}
    for name, (step, wait) in steps.items():
        wait()
        begin = time.perf_counter()
        step()
        wait()
        repeats[name] = max(1, min(10_000, int(least / max(time.perf_counter() - begin, 1e-6))))
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, (step, wait) in steps.items():
            wait()
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                step()
            wait()
            seconds[name].append((time.perf_counter() - begin) / repeats[name])
    return {name: statistics.median(values) for name, values in seconds.items()}


@contextlib.contextmanager
def _record_failure(result: CellResult, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as why:  # a contender that fails leaves a remark, and the others are measured
        result.remarks.append(f"{name} failed: {type(why).__name__}: {str(why)[:300]}")


def measure(name: str, precision: str, batch: int, what: str, modes: tuple[str, ...], rounds: int, min_seconds: float,
            autotune: bool, device_name: str = "cuda",
            report: Callable[[CellResult], None] | None = None) -> CellResult:  # fmt: skip
    """Measure a cell. ``tell`` is given what has been found before what takes long to begin, PyTorch's compiler."""
    row, device, result = find_workload(name), DeviceMonitor(device_name), CellResult()
    x, y = row.batch(batch)
    steps: dict[str, StepAndWait] = {}
    before = device.used_bytes()
    ours = OursOnGpu(row, device, precision, autotune)
    ours.ours.model.build()
    weights = {k: np.array(v) for k, v in ours.ours.model.weights.items()}
    with _record_failure(result, "prototorch"):
        ours.feed(x, y)
        if what == INFERENCE:
            first = np.asarray(ours.ours.model.trainer.plan_cache.backend.to_numpy(ours.ours.infer()), np.float32)
        steps["prototorch"] = ours.make_step(what), ours.synchronize
        ours.synchronize()
        result.bytes["prototorch"] = device.used_bytes() - before
        capture_failure = getattr(ours.runner, "capture_failure", "")
        if capture_failure:
            result.remarks.append(f"prototorch's step was not recorded: {capture_failure}")
    for mode in sorted(modes, key=lambda mode: mode == "compile"):
        if (mode == "channels_last" and not row.has_image_input) or (mode == "graph" and device.name != "cuda"):
            continue
        if mode == "compile" and report is not None and steps:
            result.seconds = time_steps(steps, max(rounds // 2, 1), min_seconds)
            report(result)
        with _record_failure(result, f"torch {mode}"):
            if device.name == "cuda":
                torch.cuda.reset_peak_memory_stats()
                bytes_before = torch.cuda.memory_allocated()
            peer = TorchOnGpu(row, device, precision, mode, weights)
            peer.feed(x, y)
            if what == INFERENCE and mode == "eager" and "prototorch" in steps:
                peer.net.eval()
                expected = peer.infer().float().cpu().numpy()
                off = float(np.abs(first - expected).max() / np.abs(expected).max())
                far = "" if off <= TOLERANCE[precision] else " - TOO FAR"
                result.remarks.append(f"outputs differ from torch's by {off:.1e} of the largest{far}")
            steps[f"torch {mode}"] = peer.make_step(what), device.synchronize
            device.synchronize()
            if device.name == "cuda":
                result.bytes[f"torch {mode}"] = torch.cuda.max_memory_allocated() - bytes_before
    result.seconds = time_steps(steps, rounds, min_seconds)
    if "prototorch" in steps:
        with _record_failure(result, "prototorch fed from the host"):
            result.seconds.update(
                time_steps({"fed": (ours.make_fed_step(), ours.synchronize)}, max(rounds // 2, 1), min_seconds)
            )
        best = min((s for n, s in result.seconds.items() if n.startswith("torch")), default=None)
        if best is not None and best / result.seconds["prototorch"] < SPEEDUP_GOALS.get(name, 1.2):
            with _record_failure(result, "profile"):
                slowest = ours.slowest_ops()
                if slowest:
                    result.remarks.append(f"most time in: {slowest}")
    return result
