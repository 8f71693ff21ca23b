"""prototorch on a GPU as a contender, without PyTorch, which would load libraries that ours must find alone."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contender import Setup
from benchmarks.prototorch_contender import PrototorchContender
from benchmarks.workloads import TRAINING, Workload
from prototorch.train.step_inputs import PREDICT, TRAIN


class OursOnGpu:
    """The bound plan of a net; its inputs stay where the first call has put them. ``settings``: of `compile`,
    "deterministic" and "autotune"."""

    def __init__(self, workload: Workload, device: str, precision: str, **settings: Any):
        self.ours = PrototorchContender(workload, Setup(threads=os.cpu_count() or 1))
        model = self.ours.model
        block = model.compile_block
        assert block is not None
        options = {"device": device, **settings}
        if device == "cuda":
            options["precision"] = precision
        model.set_compile(block.replace(**options))

    @property
    def backend(self) -> Any:
        """The backend that the plans run on."""
        return self.ours.model.trainer.plan_cache.backend

    def weights(self) -> dict[str, np.ndarray]:
        """Copies by name."""
        self.ours.model.build()
        return {k: np.array(v) for k, v in self.ours.model.weights.items()}

    def free_bytes(self) -> int:
        """Bytes of the device's memory that nobody has taken."""
        return int(self.backend.free_bytes() or 0)

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        """Take the batch."""
        self.ours.feed(x, y)

    def infer(self) -> np.ndarray:
        """The net's output [batch, ...] in float32, on the host."""
        return np.asarray(self.backend.to_numpy(self.ours.infer()), np.float32)

    def make_step(self, what: str) -> Callable[[], None]:
        """A step that runs on what lies on the device; four are made, which compile, plan and capture."""
        phase = TRAIN if what == TRAINING else PREDICT
        first = self.ours.train if what == TRAINING else self.ours.infer
        for _ in range(4):
            first()
        self.runner = self.ours._runner(phase)
        step = getattr(self.runner, "_run_step", None)  # the captured step without the staging around it
        return step if step is not None else (lambda: self.runner(self.ours.inputs))  # type: ignore[return-value]

    def make_fed_step(self) -> Callable[[], None]:
        """A step whose batch comes from the host."""
        return lambda: self.runner(self.ours.inputs)  # type: ignore[return-value]

    def synchronize(self) -> None:
        """Wait for all that was begun."""
        main = getattr(getattr(self.backend, "device", None), "compute_stream", None)
        if main is not None and hasattr(main, "synchronize"):
            main.synchronize()

    def slowest_ops(self, most: int = 6) -> str:
        """Where a step's time goes, by op, in a run kernel by kernel."""
        if not hasattr(self.runner, "time_launches"):
            return ""
        total: Counter[str] = Counter()
        for call, ms in self.runner.time_launches(self.ours.inputs):
            total[call.op] += ms
        return ", ".join(f"{op} {ms:.3f} ms" for op, ms in total.most_common(most))

    def close(self) -> None:
        """Give the memory back, as far as nothing else holds it."""
        device = getattr(self.backend, "device", None)
        del self.ours
        self.runner = None
        gc.collect()
        if device is not None:
            device.release_memory()
