"""Max pooling kernels.

The channels of all images are one list of rows, processed in blocks that fit the cache. The maximum is computed axis by
axis, last axis first, over vectors: a block is one long vector, and the next element of every window is the same vector
shifted. Results at positions without a window are dropped at the end. The index within the window is computed in bytes:
a later element is taken only where it is larger, and its index is larger too, so that the index is a maximum as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.windows import WindowGeometry
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.pool import max_pool as plain_max_pool
from prototorch.spec import Spec

BLOCK_ELEMENTS = 1 << 16  # elements of the input that are processed together


def pooling_windows(size: tuple[int, ...], out: tuple[int, ...], attrs: dict[str, Any]) -> WindowGeometry:
    """The windows of a pooling op."""
    kernel_ = attrs["kernel"]
    return WindowGeometry(size, kernel_, out, attrs["strides"], attrs["pads"], (1,) * len(kernel_))


def is_global(windows: WindowGeometry) -> bool:
    """Whether there is one window, which covers exactly the input."""
    return windows.is_unpadded and windows.kernel == windows.size


def is_supported(*specs: Spec) -> bool:
    """Whether these kernels support the dtypes, and there are spatial axes."""
    return all(s.dtype in ("float32", "float64", "int32") and s.ndim > 2 for s in specs) and specs[0].is_float


class WindowSweep:
    """Iterates over the offsets of windows, over blocks of rows as vectors.

    Rows are laid out as [rows, *grid] where the grid is the padded input with its last axis a multiple of the last
    stride.
    """

    def __init__(self, windows: WindowGeometry, dtype: str):
        self.windows, self.dtype = windows, dtype
        self.last_stride = windows.strides[-1]
        self.width = -(-windows.padded_size[-1] // self.last_stride)
        self.grid = (*windows.padded_size[:-1], self.width * self.last_stride)
        self.row_grid = (*windows.padded_size[:-1], self.width)  # after the last axis
        self.needs_copy = self.grid != windows.size
        self.rows = max(BLOCK_ELEMENTS // max(prod(self.grid), 1), 1)
        self.interior = (slice(None), *windows.interior[1:])
        self.window_positions = (
            slice(None),
            *(slice(0, (o - 1) * s + 1, s) for o, s in zip(windows.out[:-1], windows.strides[:-1], strict=True)),
            slice(0, windows.out[-1]),
        )
        steps = [prod(self.row_grid[i + 1 :]) for i in range(len(self.row_grid))]
        #: per axis, last first: (distance to the next offset in elements of the vector, offsets, stride in the vector)
        self.axes = [(1, windows.kernel[-1], self.last_stride)]
        self.axes += [(steps[i], windows.kernel[i], 1) for i in reversed(range(len(steps) - 1))]

    def vector(self, x: Any, buffer: Any, blank: float) -> Any:
        """The rows x [rows, *size] as one vector of the grid."""
        if not self.needs_copy:
            return x.reshape(-1)
        buffer = buffer[: len(x)]
        buffer.fill(blank)
        buffer[self.interior] = x
        return buffer.reshape(-1)

    def buffer_shape(self) -> tuple[int, ...]:
        """Of the memory `vector` needs."""
        return (self.rows, *self.grid) if self.needs_copy else (0,)


@kernel("numpy", "max_pool")
def max_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The maximum of each window and its index."""
    x = ins[0]
    if not is_supported(x):
        return None
    windows = pooling_windows(x.shape[2:], outs[0].shape[2:], attrs)
    n = x.shape[0] * x.shape[1]
    if is_global(windows):
        return _make_global_max(n, windows.window_elements)
    sweep = WindowSweep(windows, x.dtype)
    block = _make_block_max(sweep, x.dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows = inputs[0].reshape(n, *windows.size)
        best, index = (a.reshape(n, *windows.out) for a in outputs)

        def work(start: int, stop: int) -> None:
            block(rows[start:stop], best[start:stop], index[start:stop])
            if np.isnan(best[start:stop]).any():  # rare: the reference implementation finds the first NaN
                reference_result = plain_max_pool.reference(np, rows[None, start:stop], **attrs)
                best[start:stop], index[start:stop] = reference_result[0][0], reference_result[1][0]

        parallel_for(work, n, sweep.rows)

    return run


def _make_block_max(sweep: WindowSweep, dtype: str) -> Any:
    code = "uint8" if sweep.windows.window_elements <= 256 else "int32"
    length = sweep.rows * prod(sweep.row_grid)
    shapes = [(sweep.buffer_shape(), dtype), ((2, length), dtype), ((3, length), code), ((length,), "bool")]

    def block(rows: Any, best_out: Any, index_out: Any) -> None:
        buffer, maxima, indices, is_better = scratch_arrays(*shapes)
        count = len(rows) * prod(sweep.row_grid)
        is_better = is_better[:count]
        bits = is_better.view("uint8")
        source = sweep.vector(rows, buffer, -np.inf)
        spare, best = maxima[0, :count], maxima[1, :count]
        inner, index, candidate = indices[:, :count]
        inner.fill(0)
        weight = 1
        for step, window_size, stride in sweep.axes:
            if window_size == 1:
                np.copyto(best, source[::stride])
                np.copyto(index, inner)
            base: Any = source[::stride]
            for i in range(1, window_size):
                neighbours = source[i * step :: stride]
                length = len(neighbours)
                np.greater(neighbours, base[:length], out=is_better[:length])
                np.add(inner[i * step // stride :][:length], i * weight, out=candidate[:length])
                np.multiply(candidate[:length], bits[:length], out=candidate[:length])
                np.maximum(inner[:length] if i == 1 else index[:length], candidate[:length], out=index[:length])
                np.maximum(base[:length], neighbours, out=best[:length])
                base = best
            weight *= window_size
            source, best, spare = best, spare, best
            inner, index = index, inner
        shape = (len(rows), *sweep.row_grid)
        np.copyto(best_out, source.reshape(shape)[sweep.window_positions])
        np.copyto(index_out, inner.reshape(shape)[sweep.window_positions])

    return block


def _make_global_max(n: int, window_size: int) -> KernelFn:
    """One window over the whole input: the first maximum of each row."""
    rows = max(BLOCK_ELEMENTS // window_size, 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x = inputs[0].reshape(n, window_size)
        best, index = outputs[0].reshape(n), outputs[1].reshape(n)

        def work(start: int, stop: int) -> None:
            index[start:stop] = x[start:stop].argmax(axis=1)
            np.copyto(best[start:stop], np.take_along_axis(x[start:stop], index[start:stop, None], axis=1)[:, 0])

        parallel_for(work, n, rows)

    return run
