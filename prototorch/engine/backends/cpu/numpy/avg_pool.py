"""Mean pooling kernels: sums axis by axis, over the same blocks as max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy import max_pool
from prototorch.engine.backends.cpu.numpy.max_pool import WindowSweep, is_global, is_supported, pooling_windows
from prototorch.engine.backends.cpu.numpy.reduce import sum_rows
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.pool import window_counts
from prototorch.spec import Spec


def _divisors(size: tuple[int, ...], attrs: dict[str, Any], dtype: str) -> Any:
    ceil, include_pad = attrs.get("ceil", False), attrs.get("include_pad", False)
    return window_counts(np, size, attrs["kernel"], attrs["strides"], attrs["pads"], ceil, include_pad, dtype)


@kernel("numpy", "avg_pool")
def avg_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The mean of each window."""
    x = ins[0]
    if not is_supported(x):
        return None
    windows = pooling_windows(x.shape[2:], outs[0].shape[2:], attrs)
    n = x.shape[0] * x.shape[1]
    if is_global(windows):
        return _make_global_mean(n, windows.window_elements)
    counts = _divisors(windows.size, attrs, x.dtype)
    sweep = WindowSweep(windows, x.dtype)
    shapes = [(sweep.buffer_shape(), x.dtype), ((2, sweep.rows * prod(sweep.row_grid)), x.dtype)]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows = inputs[0].reshape(n, *windows.size)
        target = outputs[0].reshape(n, *windows.out)

        def work(start: int, stop: int) -> None:
            buffer, sums = scratch_arrays(*shapes)
            count = (stop - start) * prod(sweep.row_grid)
            source, total, spare = sweep.vector(rows[start:stop], buffer, 0.0), sums[0, :count], sums[1, :count]
            for step, window_size, stride in sweep.axes:
                if window_size == 1:
                    np.copyto(total, source[::stride])
                base = source[::stride]
                for i in range(1, window_size):
                    neighbours = source[i * step :: stride]
                    np.add(base[: len(neighbours)], neighbours, out=total[: len(neighbours)])
                    base = total
                source, total, spare = total, spare, total
            window_sums = source.reshape(stop - start, *sweep.row_grid)[sweep.window_positions]
            np.divide(window_sums, counts, out=target[start:stop])

        parallel_for(work, n, sweep.rows)

    return run


def _make_global_mean(n: int, window_size: int) -> KernelFn:
    rows = max(max_pool.BLOCK_ELEMENTS // window_size, 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, out = inputs[0].reshape(n, window_size), outputs[0].reshape(n)

        def work(start: int, stop: int) -> None:
            sum_rows(x[start:stop], out[start:stop])

        parallel_for(work, n, rows, blas=True)
        np.divide(out, out.dtype.type(window_size), out=out)

    return run


@kernel("numpy", "avg_pool_grad")
def avg_pool_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Each value distributed over its window, axis by axis."""
    g, dx = ins[0], outs[0]
    if not is_supported(g):
        return None
    windows = pooling_windows(dx.shape[2:], g.shape[2:], attrs)
    n = g.shape[0] * g.shape[1]
    rows = max(max_pool.BLOCK_ELEMENTS // max(prod(windows.padded_size), 1), 1)
    counts = _divisors(windows.size, attrs, g.dtype)
    rank = len(windows.kernel)
    shapes = [windows.padded_size[:axis] + windows.out[axis:] for axis in range(rank + 1)]
    inner = (slice(None), *windows.interior[1:])

    def window_slices_at(axis: int, i: int) -> tuple[Any, ...]:
        step, count = windows.strides[axis], windows.out[axis]
        return (slice(None),) * (axis + 1) + (slice(i, i + (count - 1) * step + 1, step),)

    slices = [[window_slices_at(axis, i) for i in range(windows.kernel[axis])] for axis in range(rank)]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        grads = inputs[0].reshape(n, *windows.out)
        target = outputs[0].reshape(n, *windows.size)

        def work(start: int, stop: int) -> None:
            count = stop - start
            steps = [s[:count] for s in scratch_arrays(*(((rows, *shape), g.dtype) for shape in shapes))]
            np.divide(grads[start:stop], counts, out=steps[0])
            if windows.is_unpadded:
                steps[-1] = target[start:stop]
            for axis in range(rank):
                into = steps[axis + 1]
                into.fill(0)
                for key in slices[axis]:
                    neighbours = into[key]
                    np.add(neighbours, steps[axis], out=neighbours)
            if not windows.is_unpadded:
                target[start:stop] = steps[-1][inner]

        parallel_for(work, n, rows)

    return run
