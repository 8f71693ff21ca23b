"""The comparison of kernels that take a block and a warp a row runs, on a fake device that plays the kernels."""

from __future__ import annotations

import pytest

pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")

from benchmarks import gpu_row_kernels
from prototorch.cuda.kernels import launch
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.cuda.offline.shim_device import COMPILER, ShimDevice

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


@pytest.fixture
def emulator(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(gpu_row_kernels, "ELEMENTS", 128)
    monkeypatch.setattr(gpu_row_kernels, "COLUMNS", (16,))
    monkeypatch.setattr(gpu_row_kernels, "PRECISIONS", ("bf16",))
    made = ShimDevice(str(tmp_path_factory.mktemp("kernels")))
    with use_fake_cuda(emulator=made):
        yield made


def test_kernels_are_compared(emulator):
    lines: list[str] = []
    gpu_row_kernels.compare_row_kernels(lines.append)
    assert len(lines) == 7
    assert all("a block a row" in line and "a warp a row" in line for line in lines)
    assert {"layer", "layer_rows", "softmax", "softmax_rows"} <= set(emulator.launched)


def test_a_wrong_candidate_is_reported(emulator, monkeypatch):
    read = launch._read_source

    def without_a_step(name):
        return read(name).replace("apart < (ROW_THREADS < 32 ? ROW_THREADS : 32)", "apart < ROW_THREADS / 2")

    monkeypatch.setattr(launch, "_read_source", without_a_step)
    with pytest.raises(AssertionError, match="softmax bf16, rows of 16: off by"):
        gpu_row_kernels.compare_row_kernels(lambda line: None)
