"""Depthwise convolution: each channel with its own filter, as multiply-adds over the offsets of the kernel.

The channels of all images are one list of rows; a block of rows stays in the cache during the loop over offsets. With
strides of 1 a padded row is one vector, and an offset of the kernel is a shift of it; results at positions without a
window are dropped. With other strides the offsets are slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.windows import WindowGeometry
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn
from prototorch.ops.windows import kernel_offsets

_BLOCK_ELEMENTS = 1 << 16  # of the padded input that are processed together


class _RowBlocks:
    """Blocks of rows [rows, *size], [rows, *out] and padded [rows, *full], with the offsets of the kernel."""

    def __init__(self, windows: WindowGeometry, dtype: str, slices: bool = False):
        self.windows, self.dtype = windows, dtype
        full = windows.padded_size
        self.area = int(np.prod(full))
        self.count = max(_BLOCK_ELEMENTS // max(self.area, 1), 1)
        steps = [int(np.prod(full[i + 1 :])) for i in range(len(full))]
        #: the length of a vector that begins with the first window and ends with the last
        self.span = 1 + sum((o - 1) * s for o, s in zip(windows.out, steps, strict=True))
        self.offsets = [
            sum(a * d * s for a, d, s in zip(at, windows.dilation, steps, strict=True))
            for _, at in kernel_offsets(windows.kernel)
        ]
        self.slices = windows.slices()
        self.vectors = not slices and all(s == 1 for s in windows.strides)
        self.corner = (slice(None), *(slice(0, o) for o in windows.out))
        self.inner = (slice(None), *windows.interior[1:])
        self.full_shape = ((self.count, *full), dtype)
        self.out_shape = ((self.count, *windows.out), dtype)

    def pad_images(self, x: Any, memory: Any) -> Any:
        """x in zeros; x itself where nothing is padded."""
        if self.windows.is_unpadded:
            return x
        memory = memory[: len(x)]
        memory.fill(0)
        memory[self.inner] = x
        return memory

    def on_grid(self, g: Any, memory: Any) -> Any:
        """g [rows, *out] in the corner of zeros [rows, *full], as vectors of the span."""
        memory = memory[: len(g)]
        memory.fill(0)
        memory[self.corner] = g
        return memory.reshape(len(g), self.area)[:, : self.span]

    def kernel_views(self, full: Any) -> list[Any]:
        """The elements at each offset of the kernel: vectors of the span, or slices."""
        if self.vectors:
            flat = full.reshape(len(full), self.area)
            return [flat[:, at : at + self.span] for at in self.offsets]
        return [full[key] for key in self.slices]


def make_depthwise(windows: WindowGeometry, n: int, channels: int, dtype: str, backward: bool = False) -> KernelFn:
    """Inputs x (or the gradient of y) and w [C, 1, *kernel]; gives y (or the gradient of x)."""
    rows = _RowBlocks(windows, dtype)
    body = _make_backward(rows) if backward else _make_forward(rows)
    tail = (1,) if rows.vectors else (1,) * len(windows.kernel)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        source = inputs[0].reshape(n * channels, *inputs[0].shape[2:])
        target = outputs[0].reshape(n * channels, *outputs[0].shape[2:])
        weights = inputs[1].reshape(channels, windows.window_elements).T

        def work(start: int, stop: int) -> None:
            which = np.arange(start, stop) % channels
            kernels = weights[:, which].reshape(windows.window_elements, stop - start, *tail)
            body(source[start:stop], kernels, target[start:stop])

        parallel_for(work, n * channels, rows.count)

    return run


def _make_forward(rows: _RowBlocks) -> Callable[..., None]:
    shape = rows.full_shape if rows.vectors else rows.out_shape

    def body(x: Any, weights: Any, y: Any) -> None:
        memory, total, part = scratch_arrays(rows.full_shape, shape, shape)
        views = rows.kernel_views(rows.pad_images(x, memory))
        total, part = total[: len(x)], part[: len(x)]
        sums, product = total, part
        if rows.vectors:
            sums, product = (a.reshape(len(x), rows.area)[:, : rows.span] for a in (total, part))
        np.multiply(views[0], weights[0], out=sums)
        for view, weight in zip(views[1:], weights[1:], strict=True):
            np.multiply(view, weight, out=product)
            np.add(sums, product, out=sums)
        np.copyto(y, total[rows.corner])

    return body


def _make_backward(rows: _RowBlocks) -> Callable[..., None]:
    shape = rows.full_shape if rows.vectors else rows.out_shape

    def body(g: Any, weights: Any, dx: Any) -> None:
        memory, grid, part = scratch_arrays(rows.full_shape, shape, shape)
        target = dx if rows.windows.is_unpadded else memory[: len(g)]
        product = part[: len(g)]
        if rows.vectors:
            g = rows.on_grid(g, grid)
            product = product.reshape(len(g), rows.area)[:, : rows.span]
        target.fill(0)
        for view, weight in zip(rows.kernel_views(target), weights, strict=True):
            np.multiply(g, weight, out=product)
            np.add(view, product, out=view)
        if not rows.windows.is_unpadded:
            dx[...] = target[rows.inner]

    return body


def make_depthwise_weight_grad(windows: WindowGeometry, n: int, channels: int, dtype: str) -> KernelFn:
    """Inputs x and the gradient of y; gives the gradient of w [C, 1, *kernel].

    With vectors, elements of x outside the windows are multiplied by 0: where these are not finite, the result would be
    wrong, and slices are used instead.
    """
    rows, exact = _RowBlocks(windows, dtype), _RowBlocks(windows, dtype, slices=True)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x = inputs[0].reshape(n * channels, *inputs[0].shape[2:])
        g = inputs[1].reshape(n * channels, *windows.out)
        (sums,) = scratch_arrays(((n * channels, windows.window_elements), dtype), use="sums")
        _dot_rows(rows, x, g, sums)
        if rows.vectors and not np.isfinite(sums).all():
            _dot_rows(exact, x, g, sums)
        np.add.reduce(sums.reshape(n, channels * windows.window_elements), axis=0, out=outputs[0].reshape(-1))

    return run


def _dot_rows(rows: _RowBlocks, x: Any, g: Any, sums: Any) -> None:
    """For each row and offset the dot product of the elements there with the gradient, into sums [rows, offsets]."""
    shape, points = rows.full_shape if rows.vectors else rows.out_shape, rows.windows.num_windows

    def work(start: int, stop: int) -> None:
        memory, grid = scratch_arrays(rows.full_shape, shape)
        many = stop - start
        views = rows.kernel_views(rows.pad_images(x[start:stop], memory))
        if rows.vectors:
            grads = rows.on_grid(g[start:stop], grid)
        else:
            grads = g[start:stop].reshape(many, points)
        for i, view in enumerate(views):
            if not rows.vectors:
                np.copyto(grid[:many], view)
                view = grid[:many].reshape(many, points)
            np.vecdot(view, grads, out=sums[start:stop, i])

    parallel_for(work, len(x), rows.count, blas=True)
