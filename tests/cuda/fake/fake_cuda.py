"""The fake device where a whole command looks for one: `device: cuda` then finds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from prototorch.cuda import availability, backend
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.fake_device import FakeDevice
from prototorch.eager import interpreter
from prototorch.engine.backends.precision import ExecutionSettings

#: where it is set, tests/cuda/gpu runs on the fake device, which checks these tests; "kernels": with CUDA kernels
VARIABLE = "PROTOTORCH_STAND_IN"


@contextmanager
def use_fake_cuda(memory: int = 1 << 40, emulator: Any = None) -> Iterator[None]:
    """Inside, "cuda" is a fake device with so much memory, one for each settings and number: with reference
    implementations alone, or with an emulator also with CUDA kernels."""

    @lru_cache
    def cuda(settings: ExecutionSettings, index: int = 0) -> CudaBackend:
        device = FakeDevice(settings, memory)
        device.emulator = emulator
        return CudaBackend(device, kernels=emulator is not None)

    with (
        patch.object(availability, "unavailable_reason", str),
        patch.object(backend, "get_backend", cuda),
    ):
        interpreter._gpu_interpreter.cache_clear()
        try:
            yield
        finally:
            interpreter._gpu_interpreter.cache_clear()
