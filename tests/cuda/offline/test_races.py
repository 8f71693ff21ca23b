"""No two threads meet in memory without a barrier between them, whether of one block or of two, and all threads of a
block meet at each barrier: the tests of the kernels' logic again, under the thread sanitizer.

Slow: a process of its own. Run with: pytest -m slow tests/cuda/offline/test_races.py.
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
text = complete_source("KERNEL tried(index n, const float* a, float* b) {{ __shared__ float room[16]; {} }}")
device = ShimDevice()
device.launch(device.load_module(text), "tried", 1, 8, (np.uint32(40), np.ones(40, "f4"), np.ones(40, "f4")))
"""
PUT, GET = "room[threadIdx.x] = a[threadIdx.x];", "if (blockIdx.x == 0) b[threadIdx.x] = room[threadIdx.x ^ 1];"
SOUND = [
    f"{PUT} __syncthreads(); {GET}",
    f"for (int k = 0; k < 3; k++) {{ {PUT} __syncthreads(); {GET} __syncthreads(); }}",
    "EACH(i, n) b[i] = a[n - 1 - i];",
    "const float v = block_sum(a[threadIdx.x], room) + block_sum(a[threadIdx.x], room); "
    "if (v < 0) b[0] = 1; /* MAX_BLOCK_THREADS */",
]
RACES = {
    "a barrier is missing before what others wrote is read": f"{PUT} {GET} __syncthreads();",
    "a barrier is missing before the room is used again": (
        f"for (int k = 0; k < 2; k++) {{ {PUT} __syncthreads(); {GET} }}"
    ),
    "the halves of a sum are not kept apart": (
        "for (unsigned h = blockDim.x / 2; h; h /= 2)"
        " if (threadIdx.x < h) room[threadIdx.x] += room[threadIdx.x + h]; __syncthreads();"
    ),
    "two blocks write one element": "__syncthreads(); b[threadIdx.x] = a[threadIdx.x];",
    "a block reads what another writes": (
        "__syncthreads(); if (blockIdx.x) b[threadIdx.x] = 1; else if (b[threadIdx.x] > 2) b[20 + threadIdx.x] = 1;"
    ),
    "two threads write one element": "EACH(i, n) b[i / 2] = a[i];",
    "two threads write a byte each that others read": "EACH(i, n) ((char*)b)[i] = *(short*)(b + i / 4);",
    "a thread reads what another writes": "EACH(i, n) b[i] = b[i + 1 < n ? i + 1 : i];",
}
APART = {
    "some threads leave before a barrier": (
        "if (threadIdx.x < 3) __syncthreads();", "while others wait at the barrier"
    ),
    "threads turn a different number of times": (
        "for (unsigned i = threadIdx.x; i < 12; i += blockDim.x) __syncthreads();", "while others wait at the barrier"
    ),
    "threads wait at two barriers": (
        "if (threadIdx.x) __syncthreads();\\n else __syncthreads();", "different barriers"
    ),
}  # fmt: skip


@pytest.mark.parametrize("body", SOUND)
def test_a_sound_kernel_passes(body):
    done = run_sanitized("thread", "-c", PROBE.format(body))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", RACES)
def test_a_race_is_found(kind):
    done = run_sanitized("thread", "-c", PROBE.format(RACES[kind]))
    assert "threads meet in memory" in done.stderr
    assert "data race" in done.stderr


@pytest.mark.parametrize("kind", APART)
def test_a_barrier_that_not_all_threads_reach_is_found(kind):
    body, told = APART[kind]
    assert told in run_sanitized("thread", "-c", PROBE.format(body)).stderr


@pytest.mark.parametrize(("part", "which"), [
    ("logic_elementwise", ""), ("logic_data_movement", ""), ("logic_norm_reduce", ""), ("logic_index_rows", ""),
    ("logic_scan_sort", ""), ("logic_recurrent_fused", ""),
    ("column_tiles", ""), ("row_per_warp", "not shuffle"),
    # in two processes: in one, after very many threads, the sanitizer ended without a word
    ("step_with_kernels", "not what_turns"), ("step_with_kernels", "what_turns"),
])  # fmt: skip
def test_no_kernel_has_a_race(part, which):
    done = run_logic_tests("thread", "-k", which, f"tests/cuda/offline/test_{part}.py")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def test_no_step_of_the_shipped_models_has_a_race():
    done = run_logic_tests("thread", "-m", "slow", "-k", "bf16", "tests/cuda/offline/test_model_steps.py")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
