"""Max and average pooling: each work item is a row of windows. Windows inside the input are unrolled tap by tap; the
others, and windows of many taps, are loops over the taps inside the input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import for_each_channel_vector
from prototorch.engine.backends.cpu.native.kernels.pool.pool_geometry import (
    MAX_UNROLLED_TAPS,
    PoolGeometry,
    for_each_column,
    is_within,
    pool_geometry,
    unravel_row,
)
from prototorch.engine.backends.cpu.native.kernels.pool.pool_nchw import (
    for_each_column_vector,
    has_row_vectors,
    load_strided,
)
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["count_elements"]

#: loads a vector of an array: the elements of some windows at one tap
ReadTap = Callable[[Pointer], Num]
#: is called with the loader and the index of each tap
UseTap = Callable[[ReadTap, Any], None]
#: emits one vector of windows: (offset of the result, lanes, mask, taps, begin of the window or None if full)
EmitWindow = Callable[[Int64, int, "Num | None", Callable[[UseTap], None], "list[Int64] | None"], None]


def _for_each_window(k: KernelBuilder, w: PoolGeometry, emit: EmitWindow) -> None:
    depth, height, width = w.size
    with k.range(k.first, k.last) as row:
        image, od, oh = unravel_row(row, w.out[:2])
        starts = [od * w.strides[0] - w.pad_before[0], oh * w.strides[1] - w.pad_before[1]]
        result = row * (w.out[2] * w.channels)
        first_position = ((image * depth + starts[0]) * height + starts[1]) * width

        def quick(ow: Int64) -> None:
            at = (first_position + ow * w.strides[2] - w.pad_before[2]) * w.channels

            def vector(c: Int64, lanes: int, mask: Mask) -> None:
                def taps(take: UseTap) -> None:
                    for number, (i, j, m) in enumerate(product(*map(range, w.kernel))):
                        tap = at + c + ((i * height + j) * width + m) * w.channels
                        take(_load_tap(tap, lanes, mask), number)

                emit(result + ow * w.channels + c, lanes, mask, taps, None)

            for_each_channel_vector(k, w.channels, vector)

        def careful(ow: Int64) -> None:
            begin = [*starts, ow * w.strides[2] - w.pad_before[2]]
            low = [(0 - b).maximum(0) for b in begin]
            high = [(n - b).minimum(s) for b, n, s in zip(begin, w.size, w.kernel, strict=True)]

            def vector(c: Int64, lanes: int, mask: Mask) -> None:
                def taps(take: UseTap) -> None:
                    with (
                        k.range(low[0], high[0]) as i,
                        k.range(low[1], high[1]) as j,
                        k.range(low[2], high[2]) as m,
                    ):
                        at = ((first_position + begin[2]) + (i * height + j) * width + m) * w.channels + c
                        take(_load_tap(at, lanes, mask), (i * w.kernel[1] + j) * w.kernel[2] + m)

                emit(result + ow * w.channels + c, lanes, mask, taps, begin)

            for_each_channel_vector(k, w.channels, vector)

        def row_vector(ow: Int64, lanes: int, count: int) -> None:
            begin = [*starts, ow * w.strides[2] - w.pad_before[2]]
            low = [(0 - b).maximum(0) for b in begin[:2]]
            high = [(n - b).minimum(s) for b, n, s in zip(begin[:2], w.size, w.kernel, strict=False)]

            def tap_reader(at: Index) -> ReadTap:
                return lambda p: load_strided(k, p, at, w.strides[2], lanes, count)

            def taps(take: UseTap) -> None:
                with k.range(low[0], high[0]) as i, k.range(low[1], high[1]) as j:
                    at = (first_position + begin[2]) + (i * height + j) * width
                    for m in range(w.kernel[2]):
                        take(tap_reader(at + m), (i * w.kernel[1] + j) * w.kernel[2] + m)

            emit(result + ow, lanes, None if count == lanes else k.mask(count, lanes), taps, begin)

        if has_row_vectors(w) and w.kernel[2] <= MAX_UNROLLED_TAPS:
            for_each_column_vector(k, w.full_windows(2), w.out[2], row_vector, careful)
        else:
            fast = w.full_windows(2) if w.taps <= MAX_UNROLLED_TAPS else (0, 0)
            inside = is_within(od, w.full_windows(0)) & is_within(oh, w.full_windows(1))
            for_each_column(k, inside, fast, w.out[2], quick, careful)


def _load_tap(at: Index, lanes: int, mask: Mask) -> ReadTap:
    return lambda p: p.load(at, lanes, mask)


def _max_pool(k: KernelBuilder, w: PoolGeometry, nontemporal: bool) -> None:
    x, y, number = k.pointer(0), k.pointer(1, nontemporal=nontemporal), k.pointer(2, "int32", nontemporal)

    def window(result: Int64, lanes: int, mask: Mask, taps: Any, begin: Any) -> None:
        best = k.variable(k.num(float("-inf")).splat(lanes))
        which = k.variable(k.zero(lanes, "int32"))

        def take(see: ReadTap, tap: Any) -> None:
            value, largest = see(x), best.value
            better = ~(value <= largest) & (largest == largest)  # larger, or the first NaN
            best.value = k.select(better, value, largest)
            which.value = k.select(better, k.num(tap, "int32").splat(lanes), which.value)

        taps(take)
        y.store(best.value, result, mask)
        number.store(which.value, result, mask)

    _for_each_window(k, w, window)


def count_elements(k: KernelBuilder, w: PoolGeometry, begin: list[Int64], include_pad: bool) -> Num:
    """Return the number of elements by which the mean of a window is divided."""
    total = None
    for b, n, s, lo, hi in zip(begin, w.size, w.kernel, w.pad_before, w.pad_after, strict=True):
        first, last = (-lo, n + hi) if include_pad else (0, n)
        extent = ((b + s).minimum(last) - b.maximum(first)).maximum(1)
        total = extent if total is None else total * extent
    return k.num(total)


def _avg_pool(k: KernelBuilder, w: PoolGeometry, include_pad: bool, nontemporal: bool) -> None:
    x, y = k.pointer(0), k.pointer(1, nontemporal=nontemporal)

    def window(result: Int64, lanes: int, mask: Mask, taps: Any, begin: list[Int64] | None) -> None:
        total = k.variable(k.zero(lanes))

        def take(see: ReadTap, tap: Index) -> None:
            total.value = total.value + see(x)

        taps(take)
        share = k.num(1.0 / w.taps) if begin is None else k.num(1.0) / count_elements(k, w, begin, include_pad)
        y.store(total.value * share, result, mask)

    _for_each_window(k, w, window)


def _row_tasks(w: PoolGeometry, outs: Specs, body: Callable[..., None], *params: Any) -> TaskList:
    items = w.images * w.out[0] * w.out[1]
    address = choose_nontemporal(lambda nontemporal: kernel_code(body, w, *params, nontemporal), outs, w.channels)
    return TaskList(lambda i, o: [ParallelTask(address(i, o), (*i, *o), items, w.grain_size(items))])


@native_kernel("max_pool")
def max_pool(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The maximum of each window and the index of its tap."""
    w = pool_geometry(ins[0], outs, ins[0].shape[2:], attrs)
    return _row_tasks(w, outs, _max_pool)


@native_kernel("avg_pool")
def avg_pool(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The mean of each window."""
    w = pool_geometry(ins[0], outs, ins[0].shape[2:], attrs)
    return _row_tasks(w, outs, _avg_pool, attrs.get("include_pad", False))


register_channels_last("native", "follows", "max_pool", "avg_pool")
