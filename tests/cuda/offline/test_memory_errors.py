"""No kernel reads or writes beside its arrays, those that a block of its real size shares too: the tests of the
kernels' logic again, under the address sanitizer.

Slow: a process of its own. Run with: pytest -m slow tests/cuda/offline/test_memory_errors.py.
"""

from __future__ import annotations

import pytest

from tests.cuda.offline.sanitizers import GCC, run_logic_tests, run_sanitized

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(GCC is None, reason="the kernels are run on the CPU by g++, which is not installed"),
]
PROBE = """
import numpy as np
from shim_device import ShimDevice
from prototorch.cuda.kernels.launch import complete_source
device = ShimDevice()
text = complete_source("KERNEL late(index n, const float* a, float* b) { EACH(i, n) b[i] = a[i + 1]; }")
device.launch(device.load_module(text), "late", 1, 32, (np.uint32(40), np.ones(40, "f4"), np.ones(40, "f4")))
"""
SHARED_PROBE = """
import numpy as np
from shim_device import ShimDevice
from prototorch.cuda.kernels.launch import complete_source
device = ShimDevice()
body = "__shared__ float room[SIZE]; room[threadIdx.x] = 1; __syncthreads(); if (!threadIdx.x) b[0] = room[9];"
text = complete_source("KERNEL all(index n, float* b) { " + body + " }")
device.launch(device.load_module(text), "all", 1, 256, (np.uint32(40), np.ones(1, "f4")))
"""


def test_a_read_beside_an_array_is_found():
    done = run_sanitized("address", "-c", PROBE)
    assert "heap-buffer-overflow" in done.stderr


def test_a_shared_array_that_is_too_small_for_a_whole_block_is_found():
    for size, message in ((256, ""), (255, "global-buffer-overflow")):
        done = run_sanitized("address", "-c", SHARED_PROBE.replace("SIZE", str(size)))
        assert message in done.stderr
        assert (done.returncode == 0) == (not message), done.stderr


@pytest.mark.parametrize("part", [
    "logic_conv", "logic_elementwise", "logic_data_movement", "logic_norm_reduce", "logic_index_rows",
    "logic_scan_sort", "logic_recurrent_fused", "column_tiles", "row_per_warp", "multi_tensor_sum",
])  # fmt: skip
def test_no_kernel_reads_or_writes_beside_its_arrays(part):
    done = run_logic_tests("address", f"tests/cuda/offline/test_{part}.py")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
