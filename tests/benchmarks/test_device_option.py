"""The benchmarks of define-by-run code run on a device: here on the fake one."""

from __future__ import annotations

import pytest

import prototorch as pt
from benchmarks.attention import run_side
from benchmarks.eager_step import SMALL_SIZES, make_step
from prototorch.eager import interpreter
from tests.cuda.fake.fake_cuda import use_fake_cuda


@pytest.fixture(autouse=True)
def gpu():
    interpreter._gpu_interpreter.cache_clear()
    with use_fake_cuda():
        yield interpreter.interpreter_for("cuda")
    interpreter._gpu_interpreter.cache_clear()


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_step(gpu, is_compiled):
    step = make_step(pt, SMALL_SIZES, "cuda")
    step()
    run = pt.compile(step) if is_compiled else step
    for _ in range(4):
        run()
    assert ("graph" in {entry[0] for entry in gpu.backend.device.log}) is is_compiled


@pytest.mark.parametrize("side", ["compiled", "eager"])
def test_attention(side):
    assert run_side(side, 16, True, 0.0, "cuda", "bfloat16")["mib"] > 0
