"""A device that only collects the sources it is given."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from prototorch.cuda.array_namespace import CapturableNamespace
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision


class CollectDevice:
    """Modules are numbers; nothing runs."""

    precision = "fp32"
    deterministic = True

    def __init__(self) -> None:
        self.sources: dict[str, None] = {}

    def load_module(self, source: str) -> str:
        self.sources[source] = None
        return source

    def launch(self, module, name, grid, block, args) -> None:
        raise AssertionError("nothing runs on this device")

    def pointer(self, array) -> int:
        return getattr(array, "address", 0)

    def upload(self, array):
        return array

    def empty(self, shape, dtype):
        return np.zeros(shape, "uint16" if dtype == "bfloat16" else dtype)

    def reserve(self, nbytes: int) -> None:
        pass

    def workspace(self):
        raise AssertionError("nothing runs on this device")


class PlanDevice(CollectDevice):
    """A device that plans are made for, without cuDNN."""

    compute_stream = copy_stream = None
    xp = CapturableNamespace(np)
    stream_context = staticmethod(nullcontext)
    name = "planning"

    def __init__(self, precision: str, deterministic: bool = False):
        super().__init__()
        self.settings = ExecutionSettings(resolve_precision(precision, gpu=True), deterministic)
        self.precision, self.deterministic = self.settings.precision.name, deterministic

    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        return np.empty(nbytes, np.uint8)
