"""Reductions over any axes.

The merged axes of memory are alternately kept and reduced. If the last one is reduced, a vector of partial results runs
along it and its lanes are combined at the end; if it is kept, each lane is a result of its own. One reduced axis, the
longest, is split into parts of about PIECE elements, whose results are in shared scratch memory until a second task
combines them in order, in float64 for sums: a sum of any length rounds like a sum of a few hundred elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import (
    SIZES,
    Int64,
    KernelBuilder,
    UnsupportedError,
)
from prototorch.engine.backends.cpu.native.kernel_api import KernelCode, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.reduce.reducer import Reducer, emit_reduction, reduction_lanes
from prototorch.engine.backends.cpu.native.kernels.reduce.reduction_tiling import (
    PIECE_ELEMENTS,
    ReductionTiling,
    merge_axes,
    tile_reduction,
)
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = ["plan_reduction", "reduction_tasks", "tasks_of_code"]

_TYPES = ("float32", "float64", "int32", "int64", "bool")


def _reduce(k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, last: bool) -> None:
    """The reduction of an array: arguments are x and, if ``last`` stores results, the result."""
    x = k.pointer(0, dtype)
    emit_reduction(k, plan, name, dtype, k.pointer(1, dtype) if last else None, x.load)


def _combine_parts(k: KernelBuilder, plan: ReductionTiling, name: str, dtype: str, count: int) -> None:
    """Combine the parts of each result, in order. Work items are results."""
    value_dtype = "uint8" if dtype == "bool" else dtype
    sum_dtype = "float64" if dtype == "float32" else value_dtype
    x, out, lanes, kind = (
        k.shared.as_type(value_dtype),
        k.pointer(0, dtype),
        reduction_lanes(dtype),
        Reducer(k, name, sum_dtype),
    )

    def body(i: Int64, mask: Mask) -> None:
        at = i + k.first
        total = k.variable(kind.start(lanes))
        with k.range(plan.num_parts) as part:
            total.value = kind.combine(total.value, x.load(part * plan.num_results + at, lanes, mask).cast(sum_dtype))
        value = total.value / k.num(float(count), sum_dtype) if name == "mean" else total.value
        out.store(value.cast(value_dtype), at, mask)

    k.for_each_vector(k.last - k.first, body, lanes)


def reduction_tasks(plan: ReductionTiling, name: str, dtype: str, count: int) -> TaskList:
    """Return the tasks of a reduction of an array."""
    return tasks_of_code(kernel_code(_reduce, plan, name, dtype, plan.num_parts == 1), plan, name, dtype, count)


def tasks_of_code(first_code: KernelCode, plan: ReductionTiling, name: str, dtype: str, count: int) -> TaskList:
    """Return the tasks of a reduction: ``first_code`` takes all addresses, the last task that of the result."""
    grain = (
        plan.num_items
        if plan.num_items * plan.item_elements <= 2 * PIECE_ELEMENTS
        else max(PIECE_ELEMENTS // plan.item_elements, 1)
    )
    if plan.num_parts == 1:
        return TaskList(lambda i, o: [ParallelTask(first_code.address, (*i, *o), plan.num_items, grain)])
    shared_bytes = plan.num_parts * plan.num_results * SIZES[dtype]
    combine = kernel_code(_combine_parts, plan, name, dtype, count)
    rest = max(PIECE_ELEMENTS // plan.num_parts, 1)
    return TaskList(
        lambda i, o: [
            ParallelTask(first_code.address, (*i, *o), plan.num_items, grain, 0, shared_bytes),
            ParallelTask(combine.address, (o[-1],), plan.num_results, rest, 0, shared_bytes),
        ]
    )


def plan_reduction(x: Spec, out: Spec, axis: Any) -> tuple[ReductionTiling, int]:
    """Return the tiling of a reduction, and how many elements make one. Raises UnsupportedError if results would be
    found in another order than that of their memory."""
    over = normalize_axes(axis, x.ndim)
    out_shape = tuple(n if i not in over else 1 for i, n in enumerate(x.shape))
    if out.layout not in (None, x.layout):
        raise UnsupportedError("a result in another layout")
    if out.layout is None and x.layout is not None and _has_two_orders(out_shape):
        raise UnsupportedError("a result whose memory has another order")
    flags = memory_order(tuple(int(i in over) for i in range(x.ndim)), x.layout)
    merged_axes = merge_axes(memory_order(x.shape, x.layout), [i for i, is_reduced in enumerate(flags) if is_reduced])
    return tile_reduction(merged_axes), prod(x.shape[a] for a in over)


def _has_two_orders(out_shape: Sequence[int]) -> bool:
    """Whether the remaining axes have another order with channels last: both channels and positions remain."""
    return len(out_shape) > 2 and out_shape[1] > 1 and any(n > 1 for n in out_shape[2:])


def _keeps_order(ins: Specs, attrs: Attrs) -> bool:
    """Whether results are found in the order of their memory."""
    over = normalize_axes(attrs.get("axis"), ins[0].ndim)
    out_shape = [1 if i in over else n for i, n in enumerate(ins[0].shape)]
    return bool(attrs.get("keepdims")) or not _has_two_orders(out_shape)


def _register(name: str) -> None:
    @native_kernel(name)
    def prepare(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
        (x,) = ins
        if x.dtype not in _TYPES or (x.dtype == "bool" and name not in ("any", "all", "max", "min")):
            return None
        plan, count = plan_reduction(x, outs[0], attrs.get("axis"))
        return reduction_tasks(plan, name, x.dtype, count)


_NAMES = ("sum", "mean", "max", "min", "prod", "any", "all")
for _name in _NAMES:
    _register(_name)
register_channels_last("native", "follows", *_NAMES, ins=(0,), when=_keeps_order)
