"""The GPU's benchmarks on a machine without a GPU, where PROTOTORCH_STAND_IN is set: small sizes, a fake device, and
what of CuPy, cuDNN and torch.cuda they call beside the backend. It shows that the harness is sound, and no figure."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

VARIABLE = "PROTOTORCH_STAND_IN"


class _Stream:
    """As much of CuPy's as the check of NCCL uses."""

    ptr = 0

    def __init__(self, non_blocking: bool = False):
        assert non_blocking

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing is enqueued."""

    def begin_capture(self) -> None:
        """Nothing is captured."""

    def end_capture(self) -> Any:
        """A graph that does nothing."""
        return SimpleNamespace(launch=lambda stream: None)


class _Array(np.ndarray[Any, Any]):
    data = SimpleNamespace(ptr=0)  # type: ignore[assignment]


def stand_in_modules() -> dict[str, Any]:
    """CuPy and cuDNN as far as the checks call them beside the backend."""
    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None)
    nccl = SimpleNamespace(
        NcclCommunicator=lambda *_: SimpleNamespace(allReduce=lambda *_: None),
        get_unique_id=lambda: b"",
        NCCL_FLOAT32=7,
        NCCL_SUM=0,
    )
    cuda = SimpleNamespace(Event=lambda: event, Stream=_Stream, get_elapsed_time=lambda a, b: 1.0, nccl=nccl)
    cupy = SimpleNamespace(
        asarray=np.asarray,
        matmul=np.matmul,
        arange=lambda *a, **k: np.arange(*a, **k).view(_Array),
        asnumpy=np.asarray,
        float32=np.float32,
        cuda=cuda,
    )
    properties = SimpleNamespace(serialize=lambda: '{"deviceName": "stand-in"}')
    cudnn = SimpleNamespace(create_device_properties=lambda _: properties)
    return {"cupy": cupy, "cupy.cuda.nccl": nccl, "cudnn": cudnn}


@contextmanager
def _use_modules(modules: dict[str, Any]) -> Iterator[None]:
    """What is imported inside stays, unlike with `patch.dict`: PyTorch cannot be imported twice."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


@contextmanager
def use_small_sizes() -> Iterator[None]:
    """Sizes that the CPU does at once. The fake device does nothing before it must, so that each step is run once."""
    from benchmarks import (
        gpu_attention,
        gpu_cell,
        gpu_checks,
        gpu_products,
        gpu_row_kernels,
        gpu_row_sums,
        gpu_sequences,
    )
    from benchmarks.workloads import WORKLOADS

    def small_workload(name: str) -> Any:
        return WORKLOADS["lenet"]

    def time_once(step: Callable[[], Any], wait: Callable[[], None], rounds: int, min_seconds: float) -> float:
        step()
        wait()
        return 1e-3

    with ExitStack() as stack:
        for module in (gpu_attention, gpu_cell, gpu_checks):
            stack.enter_context(patch.object(module, "find_workload", small_workload))
        for module, name, value in (
            (gpu_checks, "CAPTURED_NETS", (("lenet", "fp32", True, 2, 5), ("lenet", "bf16", False, 2, 5))),
            (gpu_checks, "BATCH", 2),
            (gpu_checks, "RATE_NETS", ("lenet",)),
            (gpu_checks, "RATE_PRECISIONS", ("bf16",)),
            (gpu_row_kernels, "ELEMENTS", 128),
            (gpu_row_kernels, "COLUMNS", (16,)),
            (gpu_row_sums, "SHAPES", ((64, 32, 4),)),
            (gpu_sequences, "CASES", ((*gpu_sequences.LSTM, "fp32", (2, 3, 4, 5)),)),
            (gpu_products, "MATMUL_CASES", ((3, 4, 5, {}), (3, 4, 5, {"transpose_b": True}))),
            (gpu_products, "CONV_LAYERS", (("conv", (2, 3, 8, 8), (4, 3, 3, 3), 1, 1, 1),)),
            (gpu_cell, "time_step", time_once),
            (gpu_cell, "TORCH_DEVICE", "cpu"),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


@contextmanager
def use_stand_in(always: bool = False) -> Iterator[None]:
    """Where the variable is set (or ``always``), everything above inside; else nothing."""
    if not (always or os.environ.get(VARIABLE)):
        yield
        return
    from prototorch.cuda.backend import CudaBackend
    from prototorch.engine.backends.core import KernelChoice
    from tests.cuda.fake.fake_cuda import use_fake_cuda

    with ExitStack() as stack:
        stack.enter_context(use_small_sizes())
        # what runs by reference implementations here would run by kernels
        stack.enter_context(patch.object(CudaBackend, "choose_kernel", lambda *_: KernelChoice("cuda", "cudnn")))
        stack.enter_context(patch.object(CudaBackend, "scratch_bytes", lambda self, steps: 0))
        stack.enter_context(_use_modules(stand_in_modules()))
        stack.enter_context(use_fake_cuda())
        yield
