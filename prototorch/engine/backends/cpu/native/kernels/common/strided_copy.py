"""Copies between strided positions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = [
    "COPY_DTYPES",
    "PIECE_ELEMENTS",
    "StridedAxis",
    "copy_lanes",
    "merge_axes",
    "row_major_strides",
    "strided_copy",
]

PIECE_ELEMENTS = 1 << 15


#: the dtype as which elements are copied, by their size in bytes
COPY_DTYPES = {1: "uint8", 4: "float32", 8: "float64"}


class StridedAxis(NamedTuple):
    """A size, and the strides of the source and the target in elements."""

    size: int
    source_stride: int
    target_stride: int


def row_major_strides(shape: Sequence[int]) -> list[int]:
    """Return the strides of row-major memory, in elements."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def merge_axes(axes: Sequence[StridedAxis]) -> tuple[StridedAxis, ...]:
    """Merge axes along which both sides are contiguous; at least one remains."""
    merged_axes: list[StridedAxis] = []
    for a in axes:
        if a.size == 1:
            continue
        if (
            merged_axes
            and merged_axes[-1].source_stride == a.source_stride * a.size
            and merged_axes[-1].target_stride == a.target_stride * a.size
        ):
            merged_axes[-1] = StridedAxis(merged_axes[-1].size * a.size, a.source_stride, a.target_stride)
        else:
            merged_axes.append(a)
    return tuple(merged_axes) or (StridedAxis(1, 1, 1),)


def copy_lanes(dtype: str) -> int:
    """Return how many words are copied at once."""
    return vector_lanes("float32") if dtype == "uint8" else vector_lanes(dtype)


def _copy_strided(k: KernelBuilder, axes: tuple[StridedAxis, ...], dtype: str, span: int, fill_zeros: bool) -> None:
    """A work item is ``span`` elements of the last axis. ``fill_zeros``: there is no source, zeros are stored."""
    x, y = k.pointer(0, dtype), k.pointer(1, dtype)
    last, pieces = axes[-1], -(-axes[-1].size // span)
    with k.range(k.first, k.last) as item:
        begin, rest = (item % pieces) * span, item // pieces
        source_offset, target_offset = begin * last.source_stride, begin * last.target_stride
        for i in range(len(axes) - 2, -1, -1):
            index = rest % axes[i].size if i else rest
            source_offset, target_offset, rest = (
                source_offset + index * axes[i].source_stride,
                target_offset + index * axes[i].target_stride,
                rest // axes[i].size,
            )
        count: Index = (Int64(k, k.word(last.size)) - begin).minimum(span) if pieces > 1 else last.size
        _copy_line(k, x + source_offset, y + target_offset, last, count, fill_zeros)


def _copy_line(k: KernelBuilder, x: Pointer, y: Pointer, axis: StridedAxis, count: Index, fill_zeros: bool) -> None:
    lanes = copy_lanes(x.dtype)
    if axis.target_stride == 1 and (axis.source_stride == 1 or fill_zeros):

        def body(i: Int64, mask: Mask) -> None:
            y.store(k.zero(lanes, x.dtype) if fill_zeros else x.load(i, lanes, mask), i, mask)

        k.for_each_vector(count, body, lanes)
        return
    with k.range(count) as i:
        y.store(k.num(0, x.dtype) if fill_zeros else x.load(i * axis.source_stride), i * axis.target_stride)


def strided_copy(axes: Sequence[StridedAxis], dtype: str, source: int, target: int, fill_zeros: bool = False) -> Any:
    """Return a function from the addresses of source and target to a copying task; offsets are in elements."""
    size = SIZES.get(dtype, 0)
    if size not in COPY_DTYPES:
        raise UnsupportedError(dtype)
    word, merged_axes = COPY_DTYPES[size], merge_axes(axes)
    total, last = prod(a.size for a in merged_axes), merged_axes[-1].size
    span = min(last, PIECE_ELEMENTS)
    items = total // last * -(-last // span)
    kernel = kernel_code(_copy_strided, merged_axes, word, span, fill_zeros)
    grain = items if total <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // span, 1)
    return lambda x, y: ParallelTask(kernel.address, (x + source * size, y + target * size), items, grain)
