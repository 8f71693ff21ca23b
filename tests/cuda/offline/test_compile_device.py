"""The device's own small kernels (the checks of a step, the copy of all new states) compile for the GPUs in use."""

import importlib.util

import pytest

from prototorch.cuda.device_sources import CHECK_FINITE_SOURCE, COPY_ALL_SOURCE, check_step_source
from tests.cuda.offline.nvrtc import TARGETS, compile_cubin

pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed: the extra cuda13"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "source", [check_step_source("float32"), check_step_source("float64"), COPY_ALL_SOURCE, CHECK_FINITE_SOURCE]
)
def test_compiles(source, target):
    assert compile_cubin(source, target)
