"""The list of kernels that start few threads for what they move, by counting."""

from __future__ import annotations

import pytest

pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")

from benchmarks.gpu_occupancy import LaunchSize, few_threads, launch_sizes


def test_few_threads():
    small, large = LaunchSize("a", 1, 256, 1000), LaunchSize("b", 32, 256, 10**8)
    full = LaunchSize("c", 2048, 256, 10**8)
    assert few_threads([small, large, full, large]) == {large: 2}
    assert large.share == pytest.approx(0.03, abs=0.001)
    assert full.share == 1


def test_no_large_sum_of_a_step_is_left_with_few_threads():
    """Gradients of biases, sums over a batch of 256: AlexNet's first one had 2-byte loads by 98,304 threads."""
    sizes = launch_sizes("alexnet", "bf16", 256)
    listed = few_threads(sizes)
    assert "column_sums" in {one.name for one in sizes}
    assert all(one.nbytes < 20e6 for one in listed), listed
