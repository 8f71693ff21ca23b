"""What kernels take of a multiprocessor: no stack frame, no spilled register, the registers that the kept table has.

Needs CuPy and NVRTC, but no GPU, and some minutes: pytest -m cuda_offline tests/cuda/offline/test_registers.py.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

from tests.cuda.offline import registers
from tests.cuda.offline.cubin import kernel_resources
from tests.cuda.offline.nvrtc import compile_cubin

pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed: the extra cuda13"),
]


def test_the_table():
    table, with_stack = registers.compile_all(registers.all_sources(os.environ))
    assert not with_stack, f"{len(with_stack)} texts with a stack frame, the first:\n{with_stack[0]}"
    too_many = {name: r.registers for name, (_, r) in table.items() if r.registers > registers.MOST_REGISTERS}
    assert not too_many
    version, kept = registers.read_table()
    if version != registers.nvrtc_version():  # another version allots other registers
        return
    write = "python -m tests.cuda.offline.registers writes the table anew"
    for name, (_, one) in table.items():
        assert name in kept, f"{name} is not in the table: {write}"
        more = one.registers > kept[name].registers or one.shared > kept[name].shared
        assert not more, f"{name} takes {one}, the table has {kept[name]}: {write}, where that is meant"


def test_a_stack_frame_is_found():
    """An index that is known at run time only puts an array into memory."""
    text = """extern "C" __global__ void tried(const int* a, int* b) {
        __shared__ int shared[64];
        int v[64];
        v[0] = a[0];
        for (int k = 1; k < 64; k++) v[k] = v[k - 1] * v[k - 1] + a[k];
        shared[threadIdx.x] = v[a[64] & 63];
        __syncthreads();
        b[threadIdx.x] = shared[threadIdx.x ^ 1];
    }"""
    found = kernel_resources(compile_cubin(text, registers.TARGET))
    assert found["tried"].stack == 256
    assert found["tried"].shared in (256, 256 + 1024)
    assert 0 < found["tried"].registers <= 255
    known = kernel_resources(compile_cubin(text.replace("a[64] & 63", "5"), registers.TARGET))
    assert known["tried"].stack == 0
    with pytest.raises(ValueError, match="64-bit ELF"):
        kernel_resources(b"\x7fELF\x01")


def test_texts_that_differ_in_sizes_alone_are_one():
    texts = ["#define C 64\n#define PACK 8\n", "#define C 128\n#define PACK 8\n", "#define C 64\n#define PACK 4\n"]
    assert registers.distinct_sources(texts) == [texts[0], texts[2]]
