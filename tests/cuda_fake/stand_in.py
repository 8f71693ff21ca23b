"""The stand-in for a GPU where a whole command looks for one: `device: cuda` then finds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from unittest.mock import patch

from prototorch.backends import devices
from prototorch.backends.cuda import backend, facts
from prototorch.backends.cuda.backend import CudaBackend
from prototorch.backends.cuda.fake import FakeDevice
from prototorch.backends.precision import Settings

VARIABLE = "PROTOTORCH_STAND_IN"  # where it is set, tests/gpu runs on the stand-in: a check of these tests themselves


@contextmanager
def standing_in(memory: int = 1 << 40) -> Iterator[None]:
    """Inside, "cuda" is a stand-in with so much memory, for each settings one. Plain bodies alone."""

    @lru_cache
    def cuda(settings: Settings, index: int = 0) -> CudaBackend:
        return CudaBackend(FakeDevice(settings, memory), kernels=False)

    with (
        patch.object(devices, "why_not", str), patch.object(facts, "why_not", str),
        patch.object(devices, "usable", lambda: True), patch.object(backend, "cuda", cuda),
    ):  # fmt: skip
        yield
