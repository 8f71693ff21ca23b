"""No kernel reads or writes beside its arrays: the tests of the kernels' logic again, under the address sanitizer.

Slow: a process of its own. Run with: pytest -m slow tests/cuda_offline/test_memory_errors.py.
"""

from __future__ import annotations

import pytest

from tests.cuda_offline.sanitizers import GCC, run_logic_tests, run_sanitized

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(GCC is None, reason="the kernels are run on the CPU by g++, which is not installed"),
]
PROBE = """
import numpy as np
from shim_device import ShimDevice
from prototorch.backends.cuda.kernels.launch import complete_source
device = ShimDevice()
text = complete_source("KERNEL late(index n, const float* a, float* b) { EACH(i, n) b[i] = a[i + 1]; }")
device.launch(device.load_module(text), "late", 1, 32, (np.uint32(40), np.ones(40, "f4"), np.ones(40, "f4")))
"""


def test_a_read_beside_an_array_is_found():
    done = run_sanitized("address", "-c", PROBE)
    assert "heap-buffer-overflow" in done.stderr


@pytest.mark.parametrize("part", [
    "logic_elementwise", "logic_data_movement", "logic_norm_reduce", "logic_index_rows", "logic_scan_sort",
    "logic_recurrent_fused", "column_tiles", "row_per_warp",
])  # fmt: skip
def test_no_kernel_reads_or_writes_beside_its_arrays(part):
    done = run_logic_tests("address", f"tests/cuda_offline/test_{part}.py")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
