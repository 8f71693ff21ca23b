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

from prototorch.backends.capabilities import register_fusion_role
from prototorch.backends.cuda.kernels.elementwise import ElementwiseKernel, elementwise_launches, trace_program
from prototorch.backends.cuda.kernels.launch import (
    BLOCK,
    KernelDevice,
    LaunchSequence,
    c_type,
    complete_source,
    cuda_kernel,
    per_block_launch,
    u32,
    use_device,
)  # fmt: skip
from prototorch.backends.cuda.kernels.scalar_tracer import ScalarTracer
from prototorch.backends.registry import register_resolver
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update
from prototorch.spec import Spec

__all__ = ["CHUNK", "fuse_updates", "prepare_update"]

CHUNK = 1 << 14  # elements that a block processes at a time

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
    """The kernel ``updates`` over a table: for each weight the addresses of its arrays and its number of elements."""
    program, results = first.key
    traced = trace_program(program, results, tuple(s.dtype for s in first.ins))
    if traced is None:
        return None
    lines, names = traced
    kinds = ScalarTracer()
    arrays = len(first.ins) + len(first.outs)
    size = first.outs[0].size
    head, load, store = [], [], []
    for i, spec in enumerate(first.ins):
        kind = kinds.compute_c_type(kinds.compute_dtype(spec.dtype))
        head.append(f"const {c_type(spec)}* in{i} = (const {c_type(spec)}*)row[{i}];")
        if spec.size == 1 and size != 1:
            head.append(f"const {kind} a{i} = get(in{i}[0]);")
        else:
            load.append(f"const {kind} a{i} = get(in{i}[{'i' if spec.ndim or size == 1 else 0}]);")
    for i, (spec, name) in enumerate(zip(first.outs, names, strict=True)):
        head.append(f"{c_type(spec)}* out{i} = ({c_type(spec)}*)row[{len(first.ins) + i}];")
        store.append(f"put(out{i}[i], {name});")
    around = "\n        ".join(head)
    inner = "\n            ".join([*load, *(f"const {line}" for line in lines), *store])
    return f"""
KERNEL updates(u32 chunks, const u64* table, const u32* where) {{
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {{
        const u64* row = table + (u64)where[2 * chunk] * {arrays + 1};
        {around}
        const u64 begin = (u64)where[2 * chunk + 1] * {CHUNK}, size = row[{arrays}];
        const u64 end = begin + {CHUNK} < size ? begin + {CHUNK} : size;
        for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) {{
            {inner}
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
        pointer_rows.append([*(device.pointer(a) for a in (*ins, *outs)), size])
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
