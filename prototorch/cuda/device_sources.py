"""CUDA sources of the device's own small kernels: the check of the loss and the copy of many arrays."""

from __future__ import annotations

import numpy as np

__all__ = ["BLOCKS_PER_COPY", "COPY_ALL_SOURCE", "LossCheckState", "check_loss_source"]

#: The state of the loss check on the device. ``all_finite`` is 1 until a loss is not finite, then 0 until the host
#: resets it; ``apply_updates`` is 1 where the updates of this step count; ``finite_steps`` counts the steps with
#: ``all_finite``; ``loss`` is the one that was not finite.
LossCheckState = np.dtype([("all_finite", "i4"), ("apply_updates", "i4"), ("finite_steps", "i4"), ("loss", "f4")])
BLOCKS_PER_COPY = 8  # blocks of threads for each array of a copy of many arrays

_CHECK_LOSS_SOURCE = """
struct State { int all_finite, apply_updates, finite_steps; float loss; };
extern "C" __global__ void check_loss(State* state, const REAL* loss, const bool* apply) {
    if (blockIdx.x || threadIdx.x) return;
    bool finite = isfinite(*loss);
    if (state->all_finite && !finite) state->loss = (float)*loss;
    state->all_finite = state->all_finite && finite;
    state->finite_steps += state->all_finite;
    state->apply_updates = state->all_finite && (apply == nullptr || *apply);
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


def check_loss_source(dtype: str) -> str:
    """The kernel ``check_loss`` for a loss of dtype float32 or float64."""
    return _CHECK_LOSS_SOURCE.replace("REAL", {"float32": "float", "float64": "double"}[dtype])
