"""The comparisons of recurrent sequences and of sums of rows run, on a fake device that plays the kernels."""

from __future__ import annotations

import pytest

pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")

from benchmarks import gpu_row_sums, gpu_sequences
from prototorch.cuda.kernels import recurrent_fused
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.cuda.offline.shim_device import COMPILER, ShimDevice
from tests.cuda.offline.small_tiles import shrink_tiles

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


@pytest.fixture
def emulator(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(gpu_sequences, "BUDGET", 1e9)
    shrink_tiles(monkeypatch.setattr)
    made = ShimDevice(str(tmp_path_factory.mktemp("kernels")))
    with use_fake_cuda(emulator=made):
        yield made


def test_sequences_are_compared(emulator, monkeypatch):
    shape = (3, 2, 5, 4)
    cases = [(*cell, word, shape) for cell in (gpu_sequences.LSTM, gpu_sequences.GRU) for word in ("bf16", "fp32")]
    monkeypatch.setattr(gpu_sequences, "CASES", cases)
    lines: list[str] = []
    gpu_sequences.compare_sequences(lines.append)
    times = [line for line in lines if "one launch a step" in line]
    assert len(times) == 4
    assert all("two launches a step" in line and "one launch for all steps" in line for line in times)
    assert len([line for line in lines if "PyTorch's cannot be timed" in line]) == 4


def test_a_wrong_sequence_is_reported(emulator, monkeypatch):
    monkeypatch.setattr(gpu_sequences, "CASES", [(*gpu_sequences.LSTM, "bf16", (3, 2, 5, 4))])
    monkeypatch.setattr(recurrent_fused, "_PRODUCT", recurrent_fused._PRODUCT.replace("part < SPLIT", "part < 1"))
    recurrent_fused.fused_cell_sources.cache_clear()
    with pytest.raises(AssertionError, match="lstm_sequence 3x2x5x4 bf16, one launch a step: off by"):
        gpu_sequences.compare_sequences(lambda line: None)
    recurrent_fused.fused_cell_sources.cache_clear()


def test_sums_of_rows_are_compared(emulator, monkeypatch):
    monkeypatch.setattr(gpu_row_sums, "SHAPES", ((50, 7, 3),))
    lines: list[str] = []
    gpu_row_sums.compare_row_sums(lines.append)
    assert len(lines) == 3
