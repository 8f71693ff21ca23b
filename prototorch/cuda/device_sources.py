"""CUDA sources of the device's own small kernels: the checks of a step and the copy of many arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = [
    "BLOCKS_PER_COPY",
    "CHECK_FINITE_SOURCE",
    "COPY_ALL_SOURCE",
    "LossCheckState",
    "ValueCheckState",
    "check_step_source",
    "finite_check_table",
]

#: The state of the loss check on the device. ``all_finite`` is 1 until a loss or a gradient is not finite, then 0 until
#: the host resets it; ``apply_updates`` is 1 where the updates of this step count; ``finite_steps`` counts the steps
#: with ``all_finite``; ``loss`` is that of the first step without; ``not_finite`` is 1 where a gradient of the step is
#: not finite, and 0 behind the check.
LossCheckState = np.dtype(
    [("all_finite", "i4"), ("apply_updates", "i4"), ("finite_steps", "i4"), ("loss", "f4"), ("not_finite", "i4")]
)
#: The state of the check of a plan's values. ``all_valid`` is 1 until a step has counted a value outside of its
#: bounds, then 0 until the host resets it; ``write_states`` is 1 where the step writes states; ``is_first`` is 1 in the
#: step that counted the first value outside; ``valid_steps`` counts the steps with ``all_valid``.
ValueCheckState = np.dtype([("all_valid", "i4"), ("write_states", "i4"), ("is_first", "i4"), ("valid_steps", "i4")])
BLOCKS_PER_COPY = 8  # blocks of threads for each array of a copy of many arrays
CHECK_CHUNK = 1 << 15  # bytes that a block of threads checks at a time

_CHECK_STEP_SOURCE = """
struct Losses { int all_finite, apply_updates, finite_steps; float loss; int not_finite; };
struct Values { int all_valid, write_states, is_first, valid_steps; };
extern "C" __global__ void check_step(Losses* losses, const REAL* loss, const bool* apply, Values* values,
                                      const int* outside, volatile int* report) {
    if (blockIdx.x || threadIdx.x) return;
    bool valid = true;
    if (values != nullptr) {
        values->is_first = values->all_valid && *outside;
        valid = values->all_valid = values->all_valid && !*outside;
        values->valid_steps += valid;
        if (!valid) *report = 1;
    }
    if (losses != nullptr) {
        bool finite = !valid || (!losses->not_finite && (loss == nullptr || isfinite(*loss)));
        if (losses->all_finite && !finite) losses->loss = loss == nullptr ? 0.0f : (float)*loss;
        losses->not_finite = 0;
        losses->all_finite = losses->all_finite && finite;
        losses->finite_steps += losses->all_finite;
        losses->apply_updates = valid && losses->all_finite && (apply == nullptr || *apply);
    }
    if (values != nullptr) values->write_states = valid && (losses == nullptr || losses->all_finite);
}
"""

#: copies each array of a table of (target, source, bytes), unless the flag is 0
COPY_ALL_SOURCE = """
struct Pair { char* target; const char* source; unsigned long long size; };
extern "C" __global__ void copy_all(unsigned tasks, const Pair* pairs, const int* flag) {
    if (!*flag) return;
    for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
        Pair p = pairs[task / BLOCKS_PER_COPY];
        unsigned long long first = (task % BLOCKS_PER_COPY) * (unsigned long long)blockDim.x + threadIdx.x;
        unsigned long long step = BLOCKS_PER_COPY * (unsigned long long)blockDim.x;
        if (((unsigned long long)p.target | (unsigned long long)p.source | p.size) % 4 == 0) {
            for (unsigned long long i = first; i < p.size / 4; i += step)
                ((int*)p.target)[i] = ((const int*)p.source)[i];
        } else {
            for (unsigned long long i = first; i < p.size; i += step) p.target[i] = p.source[i];
        }
    }
}
""".replace("BLOCKS_PER_COPY", str(BLOCKS_PER_COPY))

#: writes 1 to a flag where an element of an array of a table is not finite: all bits of its exponent are set
CHECK_FINITE_SOURCE = """
struct Array { const char* elements; unsigned long long bytes; unsigned low, high, step, unused; };
struct alignas(16) Words { unsigned words[4]; };
extern "C" __global__ void check_finite(unsigned chunks, const Array* arrays, const unsigned* where, int* flag) {
    for (unsigned chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        const Array a = arrays[where[2 * chunk]];
        const unsigned* words = (const unsigned*)a.elements;
        unsigned long long begin = where[2 * chunk + 1] * (CHECK_CHUNKull / 4), count = a.bytes / 4;
        unsigned long long end = begin + CHECK_CHUNK / 4 < count ? begin + CHECK_CHUNK / 4 : count, i = begin;
        bool bad = false;
        if ((unsigned long long)a.elements % 16 == 0) {
            for (i = begin + 4 * threadIdx.x; i + 4 <= end; i += 4 * blockDim.x) {
                const Words w = *(const Words*)(words + i);
                for (unsigned k = a.step - 1; k < 4; k += a.step)
                    bad = bad || (w.words[k] & a.low) == a.low || (w.words[k] & a.high) == a.high;
            }
            i = begin + (end - begin) / 4 * 4;
        }
        for (i += (a.step - 1) + a.step * threadIdx.x; i < end; i += a.step * blockDim.x)
            bad = bad || (words[i] & a.low) == a.low || (words[i] & a.high) == a.high;
        if (end == count && a.bytes % 4 && !threadIdx.x)
            bad = bad || (*(const unsigned short*)(words + count) & a.low) == a.low;
        if (bad) *flag = 1;
    }
}
""".replace("CHECK_CHUNK", str(CHECK_CHUNK))
#: of an element type: the bits of the exponents in a word of 32 bits, of its lower and of its upper half where it holds
#: two elements, and how many words an element has
_EXPONENTS = {
    "float16": (0x7C00, 0x7C000000, 1),
    "bfloat16": (0x7F80, 0x7F800000, 1),
    "float32": (0x7F800000, 0x7F800000, 1),
    "float64": (0x7FF00000, 0x7FF00000, 2),
}


def finite_check_table(arrays: Sequence[tuple[int, int, str]]) -> tuple[np.ndarray, np.ndarray]:
    """The tables of the kernel ``check_finite``: its arrays (address, bytes, dtype), and the array and the number of
    each chunk."""
    row = np.dtype([("address", "u8"), ("bytes", "u8"), ("masks", "u4", 4)])
    rows = np.array([(address, size, (*_EXPONENTS[dtype], 0)) for address, size, dtype in arrays], row)
    chunks = [(i, k) for i, (_, size, _) in enumerate(arrays) for k in range(-(-size // CHECK_CHUNK))]
    return rows.view(np.uint64), np.array(chunks, np.uint32)


def check_step_source(dtype: str = "float32") -> str:
    """The kernel ``check_step`` for a loss of dtype float32 or float64."""
    return _CHECK_STEP_SOURCE.replace("REAL", {"float32": "float", "float64": "double"}[dtype])
