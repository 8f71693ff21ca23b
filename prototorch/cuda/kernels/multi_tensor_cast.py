"""Many arrays cast in one launch: the low-precision copies of the weights in a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    BLOCK,
    C_TYPES,
    c_type,
    complete_source,
    current_device,
    per_block_launch,
    u32,
)
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

__all__ = ["CHUNK", "multi_tensor_cast"]

CHUNK = 1 << 13  # elements that a block casts at a time

_TEXT = f"""
template <class T, int N> struct alignas(sizeof(T) * N) pack {{ T v[N]; }};
KERNEL multi_tensor_cast(u32 chunks, const u64* table, const u32* where) {{
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {{
        const u64* row = table + (u64)where[2 * chunk] * 3;
        const X* in = (const X*)row[0];
        Y* out = (Y*)row[1];
        const u64 size = row[2], begin = (u64)where[2 * chunk + 1] * {CHUNK};
        const u64 end = begin + {CHUNK} < size ? begin + {CHUNK} : size;
        const u64 whole = (end - begin) / 4;
        for (u64 i = threadIdx.x; i < whole; i += blockDim.x) {{
            const pack<X, 4> seen = *(const pack<X, 4>*)(in + begin + 4 * i);
            pack<Y, 4> made;
            for (int j = 0; j < 4; j++) put(made.v[j], get(seen.v[j]));
            *(pack<Y, 4>*)(out + begin + 4 * i) = made;
        }}
        for (u64 i = begin + 4 * whole + threadIdx.x; i < end; i += blockDim.x) put(out[i], get(in[i]));
    }}
}}
"""


class MultiTensorCast:
    """The kernel. The addresses of the arrays are in a table on the device, made in the first run with these arrays."""

    family = "multi_tensor_cast"

    def __init__(self, ins: Sequence[Spec], outs: Sequence[Spec]):
        self.device = current_device()
        chunk_table = [(i, k) for i, s in enumerate(outs) for k in range(-(-s.size // CHUNK))]
        self.chunks = len(chunk_table)
        self.where = self.device.upload(np.array(chunk_table, np.uint32))
        self.text = f"#define X {c_type(ins[0])}\n#define Y {c_type(outs[0])}\n"
        self.launch = per_block_launch(
            complete_source(self.text + _TEXT), "multi_tensor_cast", self.chunks, block=BLOCK
        )
        self.sizes = [s.size for s in outs]
        self.tables: dict[tuple[int, ...], Any] = {}

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Cast all."""
        addresses = tuple(self.device.pointer(a) for a in (*inputs, *outputs))
        table = self.tables.get(addresses)
        if table is None:
            rows = zip(addresses[: len(inputs)], addresses[len(inputs) :], self.sizes, strict=True)
            table = self.tables[addresses] = self.device.upload(np.array(list(rows), np.uint64))
        launch = self.launch
        self.device.launch(launch.module, launch.name, launch.grid, launch.block, (u32(self.chunks), table, self.where))


@kernel("cuda", "fused", special=True)
def multi_tensor_cast(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A group of casts of independent arrays."""
    program, results = attrs["program"], attrs["outputs"]
    independent = all(name == "cast" and refs == (("in", i),) for i, (name, refs, _) in enumerate(program))
    if not independent or len(program) < 2 or tuple(results) != tuple(("node", i, 0) for i in range(len(program))):
        return None
    same_dtypes = len({s.dtype for s in ins}) == len({s.dtype for s in outs}) == 1
    is_supported = all(s.dtype in C_TYPES and s.size and not s.layout for s in (*ins, *outs))
    return MultiTensorCast(ins, outs) if same_dtypes and is_supported else None
