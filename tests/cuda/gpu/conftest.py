"""Checks on a GPU: `pytest -m gpu tests/cuda/gpu` is all of them. Where there is none, they are skipped with a reason.

With PROTOTORCH_STAND_IN=1 they run on the fake device instead, which tells whether the checks themselves are
sound; with PROTOTORCH_STAND_IN=kernels our own kernels are played on the CPU (slow).
"""

import os

import pytest

from prototorch.cuda import device_kind
from prototorch.eager import interpreter
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from tests.cuda.fake.fake_cuda import VARIABLE, use_fake_cuda

if os.environ.get(VARIABLE):
    player = None
    if os.environ[VARIABLE] == "kernels":
        from tests.cuda.offline.shim_device import ShimDevice
        from tests.cuda.offline.small_tiles import shrink_tiles

        shrink_tiles()
        player = ShimDevice(os.environ.get("SHIM_FOLDER"))
    held = use_fake_cuda(emulator=player)  # for the whole process
    held.__enter__()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "gpu":
            item.add_marker(pytest.mark.gpu)
            # what newer versions of CuPy, NumPy and CUDA warn of is printed, and is no failure of what is checked here
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture
def gpu():
    """Makes the GPU's backend: gpu("bf16"), gpu("fp32", deterministic=True)."""

    def backend(word="fp32", **settings):
        return device_kind.cuda_backend(ExecutionSettings(resolve_precision(word, gpu=True), **settings))

    return backend


@pytest.fixture
def eager_gpu(gpu):
    """The interpreter of tensors on "cuda" as users get it: float32 is not rounded to TF32 unless it is asked for."""
    eager = interpreter.interpreter_for("cuda")
    assert eager.backend.device.settings.precision.name == "fp32"
    return eager
