"""One cell of the GPU's table: a net at one precision and batch size, ours and PyTorch's modes, in one process.

Data lie on the device before the clock starts, for everybody; a further figure of ours has them come from the host.
The contenders are measured one after another, each with its memory given back before the next: two of them at once may
not fit. In inference everybody begins with the same weights, and the outputs are compared.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.gpu_ours import OursOnGpu
from benchmarks.gpu_sequences import candidates
from benchmarks.workloads import INFERENCE, find_workload

#: contenders by name; of PyTorch's modes, the compiler takes longest to begin
OURS, AUTOTUNED, CANDIDATES = "prototorch", "prototorch autotune", "prototorch candidates"
MODES = ("eager", "channels_last", "graph", "compile")
CONTENDERS = (OURS, AUTOTUNED, *(f"torch {mode}" for mode in MODES))
#: how far the outputs may lie from PyTorch's, relative to the largest: sums in another order; then 10 and 8 bits of
#: mantissa through some twenty layers
TOLERANCE = {"fp32": 1e-3, "tf32": 3e-2, "bf16": 0.2}
TORCH_DEVICE = "cuda"
WARM_UP_SECONDS = 0.3  # of steps before the clock starts: an idle GPU raises its clocks first


@dataclass
class CellResult:
    """What a cell found: seconds of a step by contender, the most bytes that each held, and remarks."""

    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


Report = Callable[[CellResult], None]


def time_step(step: Callable[[], Any], wait: Callable[[], None], rounds: int, min_seconds: float) -> float:
    """The median seconds of a step over ``rounds``, each of at least ``min_seconds``, after a warm-up."""
    wait()
    begin, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - begin) < WARM_UP_SECONDS or not count:
        step()
        wait()
        count += 1
    repeats = max(1, min(10_000, int(min_seconds * count / max(spent, 1e-6))))
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(repeats):
            step()
        wait()
        seconds.append((time.perf_counter() - begin) / repeats)
    return statistics.median(seconds)


@contextlib.contextmanager
def _record_failure(result: CellResult, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as why:  # a contender that fails leaves a remark, and the others are measured
        result.remarks.append(f"{name} failed: {type(why).__name__}: {str(why)[:300]}")


class _Cell:
    """The measurement of one cell; see `measure`."""

    def __init__(self, name: str, precision: str, batch: int, what: str, rounds: int, min_seconds: float, device: str):
        self.workload, self.precision, self.what, self.device = find_workload(name), precision, what, device
        self.rounds, self.min_seconds = rounds, min_seconds
        self.x, self.y = self.workload.batch(batch)
        self.weights: dict[str, np.ndarray] | None = None
        self.output: np.ndarray | None = None
        self.result = CellResult()

    def measure_ours(self, name: str) -> None:
        """Ours, fed from the host as well, and the ops that take longest."""
        result = self.result
        ours = OursOnGpu(self.workload, self.device, self.precision, autotune=name == AUTOTUNED)
        free = ours.free_bytes()
        if self.what == INFERENCE and self.weights is None:
            self.weights = ours.weights()
        ours.feed(self.x, self.y)
        if self.what == INFERENCE and self.output is None:
            self.output = ours.infer()
        step = ours.make_step(self.what)
        ours.synchronize()
        if self.device == "cuda":
            result.bytes[name] = free - ours.free_bytes()
        result.seconds[name] = time_step(step, ours.synchronize, self.rounds, self.min_seconds)
        failure = getattr(ours.runner, "capture_failure", "")
        if failure:
            result.remarks.append(f"{name}'s step was not captured: {failure}")
        if name == OURS:
            with _record_failure(result, "prototorch fed from the host"):
                result.seconds["fed"] = time_step(
                    ours.make_fed_step(), ours.synchronize, max(self.rounds // 2, 1), self.min_seconds
                )
            with _record_failure(result, "the times of the ops"):
                slowest = ours.slowest_ops()
                if slowest:
                    result.remarks.append(f"most time in: {slowest}")
        backend = ours.backend
        ours.close()
        kept = (free - int(backend.free_bytes() or 0)) >> 20
        if kept > 512:  # CUDA's code and libraries take less
            result.remarks.append(f"{name} kept {kept:,} MiB after its end")

    def measure_torch(self, name: str) -> None:
        """PyTorch in one of its modes."""
        module = importlib.import_module("benchmarks.gpu_torch")  # only now: prototorch ran without PyTorch's libraries
        mode = name.removeprefix("torch ")
        device = TORCH_DEVICE if self.device == "cuda" else self.device
        module.reset_peak(device)
        peer = module.TorchOnGpu(self.workload, device, self.precision, mode, self.weights)
        peer.feed(self.x, self.y)
        if self.output is not None and mode == "eager":
            peer.net.eval()
            expected = peer.infer().float().cpu().numpy()
            off = float(np.abs(self.output - expected).max() / np.abs(expected).max())
            far = "" if off <= TOLERANCE[self.precision] else " - TOO FAR"
            self.result.remarks.append(f"outputs differ from torch's by {off:.1e} of the largest{far}")
        step = peer.make_step(self.what)
        self.result.seconds[name] = time_step(step, peer.synchronize, self.rounds, self.min_seconds)
        self.result.bytes[name] = module.peak_bytes(device)
        del peer, step
        module.reset_peak(device)


def measure(
    name: str,
    precision: str,
    batch: int,
    what: str,
    contenders: Sequence[str],
    rounds: int,
    min_seconds: float,
    device: str = "cuda",
    report: Report = lambda result: None,
) -> CellResult:
    """Measure a cell.

    contenders: of `CONTENDERS`, or `CANDIDATES`, ours with the kernels that stand beside those in use; channels last
    is left out for nets without images. rounds, min_seconds: of each;
    ``report`` is given what has been found after each contender.
    """
    cell = _Cell(name, precision, batch, what, rounds, min_seconds, device)
    for contender in contenders:
        if contender == "torch channels_last" and not cell.workload.has_image_input:
            continue
        switch = candidates("all") if contender == CANDIDATES else contextlib.nullcontext()
        with _record_failure(cell.result, contender), switch:
            (cell.measure_torch if contender.startswith("torch") else cell.measure_ours)(contender)
        report(cell.result)
    return cell.result
