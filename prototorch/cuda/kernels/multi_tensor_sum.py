"""One sum over the elements of many arrays: the squared norm of all gradients, or the check that all are finite.

A block sums a chunk of an array; a second launch of one block adds what the blocks have found. The chunks and the order
of additions depend on the arrays' sizes alone, so that the bits are always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    BLOCK,
    complete_source,
    current_device,
    per_block_launch,
    u32,
    workspace_address,
)
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

__all__ = ["CHUNK", "multi_tensor_sum"]

CHUNK = 1 << 13  # elements that a block sums at a time
_TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
_TERMS = {"square": "v * v", "multiply": "v * 0.0f"}  # NaN where v is not finite

_SOURCE = f"""
template <class T, int N> struct alignas(sizeof(T) * N) pack {{ T v[N]; }};
FN float term(float v) {{ return TERM; }}
template <class X> FN float sum_chunk(const X* in, u64 begin, u64 end) {{
    float total = 0;
    const u64 packs = (end - begin) / 4;
#pragma unroll 4
    for (u64 i = threadIdx.x; i < packs; i += blockDim.x) {{
        const pack<X, 4> values = *(const pack<X, 4>*)(in + begin + 4 * i);
        for (int j = 0; j < 4; j++) total += term(get(values.v[j]));
    }}
    for (u64 i = begin + 4 * packs + threadIdx.x; i < end; i += blockDim.x) total += term(get(in[i]));
    return total;
}}
// a row of the table: address, elements, type
KERNEL multi_tensor_sum(u32 chunks, const u64* table, const u32* where, float* partials) {{
    __shared__ float shared[MAX_BLOCK_THREADS];
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {{
        const u64* row = table + (u64)where[2 * chunk] * 3;
        const u64 begin = (u64)where[2 * chunk + 1] * {CHUNK};
        const u64 end = begin + {CHUNK} < row[1] ? begin + {CHUNK} : row[1];
        float total;
        if (row[2] == 0) total = sum_chunk((const float*)row[0], begin, end);
        else if (row[2] == 1) total = sum_chunk((const f16*)row[0], begin, end);
        else total = sum_chunk((const bf16*)row[0], begin, end);
        total = block_sum(total, shared);
        if (threadIdx.x == 0) partials[chunk] = total;
    }}
}}
KERNEL add_partial_sums(u32 chunks, const float* partials, float* out) {{
    __shared__ float shared[MAX_BLOCK_THREADS];
    if (blockIdx.x) return;
    float total = 0;
    for (u32 i = threadIdx.x; i < chunks; i += blockDim.x) total += partials[i];
    total = block_sum(total, shared);
    if (threadIdx.x == 0) *out = total;
}}
"""


class MultiTensorSum:
    """The kernel: two launches. The addresses of the arrays are in a table on the device, made in the first run with
    these arrays."""

    family = "multi_tensor_sum"

    def __init__(self, term: str, ins: Sequence[Spec]):
        self.device = current_device()
        chunk_table = [(i, k) for i, s in enumerate(ins) for k in range(-(-s.size // CHUNK))]
        self.chunks = u32(len(chunk_table))
        self.where = self.device.upload(np.array(chunk_table, np.uint32))
        self.rows = [(s.size, _TYPES[s.dtype]) for s in ins]
        self.workspace_bytes = 4 * len(chunk_table)
        self.device.reserve(self.workspace_bytes)
        source = complete_source(_SOURCE, defines={"TERM": _TERMS[term]})
        self.sweep = per_block_launch(source, "multi_tensor_sum", len(chunk_table), block=BLOCK)
        self.end = per_block_launch(source, "add_partial_sums", 1, block=BLOCK)
        self.tables: dict[tuple[int, ...], Any] = {}

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Sum them all."""
        device = self.device
        addresses = tuple(map(device.pointer, inputs))
        table = self.tables.get(addresses)
        if table is None:
            rows = [(address, *row) for address, row in zip(addresses, self.rows, strict=True)]
            table = self.tables[addresses] = device.upload(np.array(rows, np.uint64))
        partials = np.uint64(workspace_address(device, self.workspace_bytes))
        for launch, args in (
            (self.sweep, (self.chunks, table, self.where, partials)),
            (self.end, (self.chunks, partials, outputs[0])),
        ):
            device.launch(launch.module, launch.name, launch.grid, launch.block, args)


@kernel("cuda", "fused", special=True)
def multi_tensor_sum(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A group that `graph.passes.group_sums` has made: sums of squares, or of products by 0, of arrays of floats, which
    may be cast to float32 before, added up."""
    term = _matched_term(attrs["program"], len(ins))
    has_scalar = len(outs) == 1 and not outs[0].ndim and outs[0].dtype == "float32"
    if term is None or not has_scalar or any(s.dtype not in _TYPES or not s.size for s in ins):
        return None
    return MultiTensorSum(term, ins)


def _matched_term(program: Sequence[Any], count: int) -> str | None:
    """The op of the terms of such a program over ``count`` inputs; None for another program."""
    names = [name for name, _, _ in program if name != "cast"]
    term = names[0] if names else ""
    if count < 2 or term not in _TERMS or names != [*[term, "sum"] * count, *["add"] * (count - 1)]:
        return None
    arrays = [refs[0][1] for _, refs, _ in program if refs[0][0] == "in"]
    zeros = [refs[1] for name, refs, _ in program if name == "multiply"]
    casts = {attrs for name, _, attrs in program if name == "cast"}
    is_zero = all(ref[0] == "const" and ref[1] == 0 for ref in zeros)
    whole = all(dict(attrs).get("axis") is None for name, _, attrs in program if name == "sum")
    fits = arrays == list(range(count)) and casts <= {(("dtype", "float32"),)}
    return term if fits and is_zero and whole else None
