"""Arrays filled with one value or with 0, 1, 2, ..."""

from __future__ import annotations

from dataclasses import replace

from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import (
    PIECE_ELEMENTS,
    copy_lanes,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["full"]


def _full(k: KernelBuilder, value: float, dtype: str) -> None:
    y, lanes = k.pointer(0, dtype), copy_lanes(dtype)
    number = k.num(value, dtype).splat(lanes)
    k.for_each_vector(k.last - k.first, lambda i, mask: y.store(number, k.first + i, mask), lanes)


@native_kernel("full")
def full(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """One value everywhere."""
    y = replace(outs[0], dtype="uint8") if outs[0].dtype == "bool" else outs[0]
    if y.dtype not in ("float32", "float64", "int32", "int64", "uint8"):
        return None
    value = bool(attrs["value"]) if outs[0].dtype == "bool" else attrs["value"]
    kernel = kernel_code(_full, value, y.dtype)
    return TaskList(
        lambda i, o: [
            ParallelTask(kernel.address, tuple(o), y.size, y.size if y.size <= PIECE_ELEMENTS else PIECE_ELEMENTS)
        ]
    )


def _iota(k: KernelBuilder, dtype: str) -> None:
    y = k.pointer(0, dtype)
    with k.range(k.first, k.last) as i:
        y.store(k.num(i, "int64").cast(dtype), i)


@native_kernel("iota")
def iota(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """0, 1, 2, ..."""
    y = outs[0]
    if y.dtype not in ("float32", "float64", "int32", "int64"):
        return None
    kernel = kernel_code(_iota, y.dtype)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, tuple(o), y.size, min(y.size, PIECE_ELEMENTS))])
