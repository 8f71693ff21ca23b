"""Optimizer updates: one kernel reads weight, gradient and slots and writes the new ones, by the op's own formula.

`fuse_updates` makes one launch of the updates of many weights, and of running statistics: a table on the device says
where
each of them lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from prototorch.cuda.kernels.elementwise import ElementwiseKernel, elementwise_launches, trace_program
from prototorch.cuda.kernels.launch import (
    BLOCK,
    KernelDevice,
    LaunchSequence,
    c_type,
    complete_source,
    cuda_kernel,
    per_block_launch,
    u32,
    use_device,
)
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer
from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.engine.backends.registry import register_resolver
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update
from prototorch.spec import Spec

__all__ = ["CHUNK", "fuse_updates", "prepare_update"]

CHUNK = 1 << 14  # elements that a block processes at a time
VECTOR = 4  # adjacent elements that a thread reads at a time: 16 bytes of float32

BoundKernel = tuple[Callable[[Sequence[Any], Sequence[Any]], None], Sequence[Any], Sequence[Any]]


class MultiTensorUpdate(LaunchSequence):
    """The sweeps of many arrays in one launch; ``what`` they are."""

    label = "updates"


def prepare_update(
    name: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]
) -> ElementwiseKernel | None:
    """The launch of an update; None where its formula is not one of single elements."""
    refs = tuple(("in", i) for i in range(len(ins)))
    program = ((name, refs, tuple(sorted(attrs.items()))),)
    results = tuple(("node", 0, k) for k in range(len(outs)))
    launches = elementwise_launches(program, results, ins, outs)
    return None if launches is None else ElementwiseKernel(launches, (program, results), ins, outs)


def _register(name: str) -> None:
    if isinstance(OPS.get(name), Update):
        cuda_kernel(name)(partial(prepare_update, name))
        register_fusion_role("cuda", "elementwise", name)  # with what scales the gradient before it


register_resolver("cuda", _register)


def _multi_tensor_source(first: ElementwiseKernel) -> str | None:
    """The kernel ``updates`` over a table: for each weight the addresses of its arrays (of more than one element:
    multiples of 16 bytes) and its number of elements. A thread reads `VECTOR` adjacent elements of each array.
    """
    program, results = first.key
    traced = trace_program(program, results, tuple(s.dtype for s in first.ins))
    if traced is None:
        return None
    lines, names = traced
    kinds = ScalarTracer()
    arrays = len(first.ins) + len(first.outs)
    size = first.outs[0].size
    head, read, load, load_one, store, store_one, write = [], [], [], [], [], [], []
    for i, spec in enumerate(first.ins):
        kind, t = kinds.compute_c_type(kinds.compute_dtype(spec.dtype)), c_type(spec)
        head.append(f"const {t}* in{i} = (const {t}*)row[{i}];")
        if spec.size == 1 and size != 1:
            head.append(f"const {kind} a{i} = get(in{i}[0]);")
        else:
            read.append(f"const pack<{t}, {VECTOR}> p{i} = *(const pack<{t}, {VECTOR}>*)(in{i} + i);")
            load.append(f"const {kind} a{i} = get(p{i}.v[j]);")
            load_one.append(f"const {kind} a{i} = get(in{i}[i]);")
    for i, (spec, name) in enumerate(zip(first.outs, names, strict=True)):
        t = c_type(spec)
        head.append(f"{t}* out{i} = ({t}*)row[{len(first.ins) + i}];")
        read.append(f"pack<{t}, {VECTOR}> r{i};")
        store.append(f"put(r{i}.v[j], {name});")
        store_one.append(f"put(out{i}[i], {name});")
        write.append(f"*(pack<{t}, {VECTOR}>*)(out{i} + i) = r{i};")
    around = "\n        ".join(head)
    formula = [f"const {line}" for line in lines]
    inner = "\n                ".join([*load, *formula, *store])
    inner_one = "\n            ".join([*load_one, *formula, *store_one])
    return f"""
template <class T, int N> struct alignas(sizeof(T) * N) pack {{ T v[N]; }};
KERNEL updates(u32 chunks, const u64* table, const u32* where) {{
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {{
        const u64* row = table + (u64)where[2 * chunk] * {arrays + 1};
        {around}
        const u64 begin = (u64)where[2 * chunk + 1] * {CHUNK}, size = row[{arrays}];
        const u64 end = begin + {CHUNK} < size ? begin + {CHUNK} : size;
        const u64 whole = begin + (end - begin) / {VECTOR} * {VECTOR};
        for (u64 i = begin + {VECTOR} * threadIdx.x; i < whole; i += {VECTOR} * blockDim.x) {{
            {" ".join(read)}
            #pragma unroll
            for (int j = 0; j < {VECTOR}; j++) {{
                {inner}
            }}
            {" ".join(write)}
        }}
        for (u64 i = whole + threadIdx.x; i < end; i += blockDim.x) {{
            {inner_one}
        }}
    }}
}}
"""


def fuse_updates(calls: Sequence[BoundKernel]) -> list[BoundKernel]:
    """The same work in fewer launches: bound calls (runner, inputs, outputs), of which sweeps of one formula become
    one. The order of all others stays; an update comes where the last of its group was.

    No call of a group may read what another call in between writes, which holds for the updates of a step.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, (runner, _, _) in enumerate(calls):
        if isinstance(runner, ElementwiseKernel) and runner.outs[0].size > 1:
            groups.setdefault(runner.group_key(), []).append(i)
    fused: dict[int, BoundKernel | None] = {}
    for members in groups.values():
        if len(members) > 1:
            one = _fuse_group([calls[i] for i in members])
            if one is not None:
                fused.update(dict.fromkeys(members))
                fused[members[-1]] = one
    return [new for i, call in enumerate(calls) if (new := fused.get(i, call)) is not None]


def _fuse_group(calls: Sequence[BoundKernel]) -> BoundKernel | None:
    first = calls[0][0]
    assert isinstance(first, ElementwiseKernel)
    text = _multi_tensor_source(first)
    if text is None:
        return None
    device: KernelDevice = first.device
    pointer_rows, chunk_table = [], []
    for number, (_, ins, outs) in enumerate(calls):
        size = int(np.prod(outs[0].shape))
        addresses = [device.pointer(a) for a in (*ins, *outs)]
        specs = (*first.ins, *first.outs)
        if any(address % 16 and spec.size > 1 for address, spec in zip(addresses, specs, strict=True)):
            return None  # views of an eager tape; each by its own launch, which copies what is not aligned
        pointer_rows.append([*addresses, size])
        chunk_table += [(number, k) for k in range(-(-size // CHUNK))]
    table, device_chunks = (
        device.upload(np.array(pointer_rows, np.uint64)),
        device.upload(np.array(chunk_table, np.uint32)),
    )
    with use_device(device):
        update = MultiTensorUpdate(
            per_block_launch(
                complete_source(text),
                "updates",
                len(chunk_table),
                u32(len(chunk_table)),
                table,
                device_chunks,
                block=BLOCK,
            )
        )
    is_update = any(isinstance(OPS[name], Update) for name, _, _ in first.key[0])
    update.label = "updates" if is_update else "statistics"
    return update, (), ()
