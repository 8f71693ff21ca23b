"""The gradients of pooling, as a gather: each position of the result sums the shares of the windows over it, so that no
two threads write the same element.

The result is cut into blocks as large as the stride. All positions of a block see the same windows, and which taps they
are is known when the code is emitted; blocks at the borders, and windows of many taps, are done position by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import for_each_channel_vector
from prototorch.engine.backends.cpu.native.kernels.pool.pool import count_elements
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
    store_interleaved,
)
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

#: the share of a window for the position of a tap: (values of the window, tap, begin of the window or None if full)
WindowShare = Callable[[Any, Any, "list[Int64] | None"], Num]
#: loads the values of windows: (offset, lanes, mask)
ReadWindow = Callable[[Any, int, "Num | None"], Any]


def _windows_over(i: Int64, w: PoolGeometry, axis: int) -> tuple[Int64, Int64]:
    """Return the half-open range of windows over a position along an axis."""
    k, s, p = w.kernel[axis], w.strides[axis], w.pad_before[axis]
    return (i + (p - k + s)).maximum(0) // s, ((i + p) // s + 1).minimum(w.out[axis])


def _emit_position(
    k: KernelBuilder, w: PoolGeometry, y: Any, image: Int64, at: list[Int64], read: ReadWindow, share: WindowShare
) -> None:
    """Emit one position of the result for any windows over it; those with the smallest taps first."""
    (d, e), (h, i), (m, n) = (_windows_over(a, w, axis) for axis, a in enumerate(at))

    def vector(c: Int64, lanes: int, mask: Mask) -> None:
        total = k.variable(k.zero(lanes))
        with k.range(e - d) as back0, k.range(i - h) as back1, k.range(n - m) as back2:
            window = [e - 1 - back0, i - 1 - back1, n - 1 - back2]
            begin = [o * s - p for o, s, p in zip(window, w.strides, w.pad_before, strict=True)]
            taps = [a - b for a, b in zip(at, begin, strict=True)]
            index = ((image * w.out[0] + window[0]) * w.out[1] + window[1]) * w.out[2] + window[2]
            window_values = read(index * w.channels + c, lanes, mask)
            tap = (taps[0] * w.kernel[1] + taps[1]) * w.kernel[2] + taps[2]
            total.value = total.value + share(window_values, tap, begin)
        index = ((image * w.size[0] + at[0]) * w.size[1] + at[1]) * w.size[2] + at[2]
        y.store(total.value, index * w.channels + c, mask)

    for_each_channel_vector(k, w.channels, vector)


def has_blocks(w: PoolGeometry) -> bool:
    """Whether the result is done in blocks."""
    flat = w.kernel[0] == w.strides[0] == 1 and w.pad_before[0] == 0 and w.out[0] == w.size[0]
    return flat and w.taps <= MAX_UNROLLED_TAPS and w.strides[1] * w.strides[2] <= MAX_UNROLLED_TAPS


def block_range(w: PoolGeometry, axis: int) -> tuple[int, int]:
    """Return the blocks along an axis: the index of the first (block q begins at q * stride - pad) and their number."""
    s, p = w.strides[axis], w.pad_before[axis]
    return p // s, (w.size[axis] - 1 + p) // s - p // s + 1


def _inner_blocks(w: PoolGeometry, axis: int) -> tuple[int, int]:
    """Return the range of blocks, counted from the first, that lie in the result and whose windows are all full."""
    s, p, first = w.strides[axis], w.pad_before[axis], block_range(w, axis)[0]
    a, b = w.full_windows(axis)
    reach = -(-w.kernel[axis] // s)
    low = max(a + reach - 1, -(-p // s))
    high = min(b - 1, (w.size[axis] - s + p) // s)
    return low - first, max(high + 1, low) - first


def _emit_block_row(
    k: KernelBuilder,
    w: PoolGeometry,
    y: Any,
    image: Int64,
    corner: list[Int64],
    lanes: int,
    count: int,
    read: ReadWindow,
    share: WindowShare,
) -> None:
    """Emit adjacent inner blocks as lanes of a vector; ``corner`` is the first one's last window along each axis."""
    (_, sh, sw), (_, kh, kw) = w.strides, w.kernel
    window = (image * w.out[1] + corner[0]) * w.out[2] + corner[1]
    first_position = (
        (image * w.size[1] + corner[0] * sh - w.pad_before[1]) * w.size[2] + corner[1] * sw - w.pad_before[2]
    )
    mask = None if count == lanes else k.mask(count, lanes)
    window_values: dict[tuple[int, int], Any] = {}
    for r in range(sh):
        row = []
        for q in range(sw):
            total = k.zero(lanes)
            for i in range(r, kh, sh):
                for j in range(q, kw, sw):
                    window_offset = (i // sh, j // sw)
                    if window_offset not in window_values:
                        window_values[window_offset] = read(
                            window - (window_offset[0] * w.out[2] + window_offset[1]), lanes, mask
                        )
                    total = total + share(window_values[window_offset], i * kw + j, None)
            row.append(total)
        store_interleaved(k, y, first_position + r * w.size[2], row, count)


def _emit_block(
    k: KernelBuilder, w: PoolGeometry, y: Any, image: Int64, corner: list[Int64], read: ReadWindow, share: WindowShare
) -> None:
    """Emit an inner block; ``corner`` is its last window along each axis."""
    (_, sh, sw), (_, kh, kw) = w.strides, w.kernel
    window = (image * w.out[1] + corner[0]) * w.out[2] + corner[1]
    first_position = (
        (image * w.size[1] + corner[0] * sh - w.pad_before[1]) * w.size[2] + corner[1] * sw - w.pad_before[2]
    )

    def vector(c: Int64, lanes: int, mask: Mask) -> None:
        window_values: dict[tuple[int, int], Any] = {}
        for r in range(sh):
            for q in range(sw):
                total = None
                for i in range(r, kh, sh):
                    for j in range(q, kw, sw):
                        window_offset = (i // sh, j // sw)
                        if window_offset not in window_values:
                            at = (window - (window_offset[0] * w.out[2] + window_offset[1])) * w.channels + c
                            window_values[window_offset] = read(at, lanes, mask)
                        part = share(window_values[window_offset], i * kw + j, None)
                        total = part if total is None else total + part
                index = (first_position + (r * w.size[2] + q)) * w.channels + c
                y.store(k.zero(lanes) if total is None else total, index, mask)

    for_each_channel_vector(k, w.channels, vector)


def _emit_pool_grad(k: KernelBuilder, w: PoolGeometry, y: Any, read: ReadWindow, share: WindowShare) -> None:
    if not has_blocks(w):
        with k.range(k.first, k.last) as row:
            image, d, h = unravel_row(row, w.size[:2])
            with k.range(w.size[2]) as column:
                _emit_position(k, w, y, image, [d, h, column], read, share)
        return
    (first_h, rows), (first_w, columns) = block_range(w, 1), block_range(w, 2)
    (_, sh, sw), (_, height, width) = w.strides, w.size
    with k.range(k.first, k.last) as item:
        image, row = unravel_row(item, (rows,))

        def quick(column: Int64) -> None:
            _emit_block(k, w, y, image, [row + first_h, column + first_w], read, share)

        def careful(column: Int64) -> None:
            with k.range(sh) as r, k.range(sw) as q:
                h = (row + first_h) * sh + r - w.pad_before[1]
                m = (column + first_w) * sw + q - w.pad_before[2]
                with k.if_then(is_within(h, (0, height)) & is_within(m, (0, width))):
                    _emit_position(k, w, y, image, [h * 0, h, m], read, share)

        def row_vector(column: Int64, lanes: int, count: int) -> None:
            _emit_block_row(k, w, y, image, [row + first_h, column + first_w], lanes, count, read, share)

        inside = is_within(row, _inner_blocks(w, 1))
        if has_row_vectors(w):
            with k.if_then(inside):
                for_each_column_vector(k, _inner_blocks(w, 2), columns, row_vector, careful)
            with k.if_then(~inside), k.range(columns) as column:
                careful(column)
        else:
            for_each_column(k, inside, _inner_blocks(w, 2), columns, quick, careful)


def _max_pool_grad(k: KernelBuilder, w: PoolGeometry, nontemporal: bool) -> None:
    g, number, y = k.pointer(0), k.pointer(1, "int32"), k.pointer(2, nontemporal=nontemporal)

    def read(at: Any, lanes: int, mask: Mask) -> tuple[Num, Num]:
        return g.load(at, lanes, mask), number.load(at, lanes, mask)

    def share(window_values: tuple[Num, Num], tap: Any, begin: Any) -> Num:
        return k.select(window_values[1] == k.num(tap, "int32"), window_values[0], k.num(0.0))

    _emit_pool_grad(k, w, y, read, share)


def _avg_pool_grad(k: KernelBuilder, w: PoolGeometry, include_pad: bool, nontemporal: bool) -> None:
    g, y = k.pointer(0), k.pointer(1, nontemporal=nontemporal)

    def read(at: Index, lanes: int, mask: Mask) -> Num:
        return g.load(at, lanes, mask)

    def share(window_values: Num, tap: Index, begin: list[Int64] | None) -> Num:
        return window_values * (
            k.num(1.0 / w.taps) if begin is None else k.num(1.0) / count_elements(k, w, begin, include_pad)
        )

    _emit_pool_grad(k, w, y, read, share)


def _tasks(w: PoolGeometry, outs: Specs, body: Callable[..., None], *params: Any) -> TaskList:
    depth, height, _ = w.size
    items = w.images * (depth * block_range(w, 1)[1] if has_blocks(w) else depth * height)
    address = choose_nontemporal(lambda nontemporal: kernel_code(body, w, *params, nontemporal), outs, w.channels)
    return TaskList(lambda i, o: [ParallelTask(address(i, o), (*i, *o), items, w.grain_size(items))])


def _geometry_of_result(ins: Specs, outs: Specs, attrs: Attrs) -> PoolGeometry:
    w = pool_geometry(outs[0], ins, attrs["size"], attrs)
    if has_blocks(w) and w.size[0] > 1:  # planes are treated as images
        return PoolGeometry(
            w.images * w.size[0],
            w.channels,
            (1, *w.size[1:]),
            (1, *w.out[1:]),
            w.kernel,
            w.strides,
            w.pad_before,
            w.pad_after,
        )
    return w


@native_kernel("max_pool_grad")
def max_pool_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """Each gradient added at the maximum of its window."""
    w = _geometry_of_result(ins, outs, attrs)
    return _tasks(w, outs, _max_pool_grad)


@native_kernel("avg_pool_grad")
def avg_pool_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """Each gradient spread over its window."""
    w = _geometry_of_result(ins, outs, attrs)
    return _tasks(w, outs, _avg_pool_grad, attrs.get("include_pad", False))


register_channels_last("native", "follows", "max_pool_grad", "avg_pool_grad")
