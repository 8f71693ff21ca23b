"""CUDA sources of the device's own small kernels: the check of a step and the copy of many arrays."""

from __future__ import annotations

import numpy as np

__all__ = ["BLOCKS_PER_COPY", "COPY_ALL_SOURCE", "LossCheckState", "ValueCheckState", "check_step_source"]

#: The state of the loss check on the device. ``all_finite`` is 1 until a loss is not finite, then 0 until the host
#: resets it; ``apply_updates`` is 1 where the updates of this step count; ``finite_steps`` counts the steps with
#: ``all_finite``; ``loss`` is the one that was not finite.
LossCheckState = np.dtype([("all_finite", "i4"), ("apply_updates", "i4"), ("finite_steps", "i4"), ("loss", "f4")])
#: The state of the check of a plan's values. ``all_valid`` is 1 until a step has counted a value outside of its
#: bounds, then 0 until the host resets it; ``write_states`` is 1 where the step writes states; ``is_first`` is 1 in the
#: step that counted the first value outside; ``valid_steps`` counts the steps with ``all_valid``.
ValueCheckState = np.dtype([("all_valid", "i4"), ("write_states", "i4"), ("is_first", "i4"), ("valid_steps", "i4")])
BLOCKS_PER_COPY = 8  # blocks of threads for each array of a copy of many arrays

_CHECK_STEP_SOURCE = """
struct Losses { int all_finite, apply_updates, finite_steps; float loss; };
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
        bool finite = !valid || isfinite(*loss);
        if (losses->all_finite && !finite) losses->loss = (float)*loss;
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


def check_step_source(dtype: str = "float32") -> str:
    """The kernel ``check_step`` for a loss of dtype float32 or float64."""
    return _CHECK_STEP_SOURCE.replace("REAL", {"float32": "float", "float64": "double"}[dtype])
