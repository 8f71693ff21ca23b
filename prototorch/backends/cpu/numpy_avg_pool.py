"""Mean pooling kernels: sums axis by axis, over the same blocks as max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.backends.core import Runner, kernel
from prototorch.backends.cpu import numpy_pool
from prototorch.backends.cpu.numpy_pool import Sweep, pooled_windows, usable, whole
from prototorch.backends.cpu.numpy_reduce import sum_rows
from prototorch.backends.cpu.pool import parallel, scratch
from prototorch.ops.pool import window_counts
from prototorch.spec import Spec


def _counts(size: tuple[int, ...], attrs: dict[str, Any], dtype: str) -> Any:
    ceil, include_pad = attrs.get("ceil", False), attrs.get("include_pad", False)
    return window_counts(np, size, attrs["kernel"], attrs["strides"], attrs["pads"], ceil, include_pad, dtype)


@kernel("numpy", "avg_pool")
def avg_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """The mean of each window."""
    x = ins[0]
    if not usable(x):
        return None
    windows = pooled_windows(x.shape[2:], outs[0].shape[2:], attrs)
    n = x.shape[0] * x.shape[1]
    if whole(windows):
        return _whole_mean(n, windows.places)
    counts = _counts(windows.size, attrs, x.dtype)
    sweep = Sweep(windows, x.dtype)
    shapes = [(sweep.buffer_shape(), x.dtype), ((2, sweep.rows * prod(sweep.fine)), x.dtype)]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows = inputs[0].reshape(n, *windows.size)
        target = outputs[0].reshape(n, *windows.out)

        def work(start: int, stop: int) -> None:
            buffer, sums = scratch(*shapes)
            many = (stop - start) * prod(sweep.fine)
            source, total, spare = sweep.vector(rows[start:stop], buffer, 0.0), sums[0, :many], sums[1, :many]
            for step, places, stride in sweep.axes:
                if places == 1:
                    np.copyto(total, source[::stride])
                base = source[::stride]
                for i in range(1, places):
                    seen = source[i * step :: stride]
                    np.add(base[: len(seen)], seen, out=total[: len(seen)])
                    base = total
                source, total, spare = total, spare, total
            found = source.reshape(stop - start, *sweep.fine)[sweep.chosen]
            np.divide(found, counts, out=target[start:stop])

        parallel(work, n, sweep.rows)

    return run


def _whole_mean(n: int, places: int) -> Runner:
    rows = max(numpy_pool._BLOCK // places, 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, out = inputs[0].reshape(n, places), outputs[0].reshape(n)

        def work(start: int, stop: int) -> None:
            sum_rows(x[start:stop], out[start:stop])

        parallel(work, n, rows, blas=True)
        np.divide(out, out.dtype.type(places), out=out)

    return run


@kernel("numpy", "avg_unpool")
def avg_unpool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """Each value shared out over its window, axis by axis."""
    g, dx = ins[0], outs[0]
    if not usable(g):
        return None
    windows = pooled_windows(dx.shape[2:], g.shape[2:], attrs)
    n = g.shape[0] * g.shape[1]
    rows = max(numpy_pool._BLOCK // max(prod(windows.full), 1), 1)
    counts = _counts(windows.size, attrs, g.dtype)
    rank = len(windows.kernel)
    shapes = [windows.full[:axis] + windows.out[axis:] for axis in range(rank + 1)]
    inner = (slice(None), *windows.inner[1:])

    def place(axis: int, i: int) -> tuple[Any, ...]:
        step, count = windows.strides[axis], windows.out[axis]
        return (slice(None),) * (axis + 1) + (slice(i, i + (count - 1) * step + 1, step),)

    places = [[place(axis, i) for i in range(windows.kernel[axis])] for axis in range(rank)]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        grads = inputs[0].reshape(n, *windows.out)
        target = outputs[0].reshape(n, *windows.size)

        def work(start: int, stop: int) -> None:
            many = stop - start
            steps = [s[:many] for s in scratch(*(((rows, *shape), g.dtype) for shape in shapes))]
            np.divide(grads[start:stop], counts, out=steps[0])
            if windows.bare:
                steps[-1] = target[start:stop]
            for axis in range(rank):
                into = steps[axis + 1]
                into.fill(0)
                for key in places[axis]:
                    seen = into[key]
                    np.add(seen, steps[axis], out=seen)
            if not windows.bare:
                target[start:stop] = steps[-1][inner]

        parallel(work, n, rows)

    return run
