"""Max pooling kernels.

All channels of all images are one list of rows, of which a block that fits the cache is done at a time. Forward goes
axis by axis, last axis first, over vectors: a block is one long vector in which the candidate for every window's next
place is the same vector some elements on. What that finds at positions that are no window's is left out at the end.
The number of the place comes along in bytes: a later place is taken only where it is larger, and its number is larger
too, so that the number is a maximum as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cpu.numpy.windows import WindowGeometry
from prototorch.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.backends.registry import KernelFn, kernel
from prototorch.ops.pool import max_pool as plain_max_pool
from prototorch.spec import Spec

BLOCK_ELEMENTS = 1 << 16  # elements of the input that are done together


def pooling_windows(size: tuple[int, ...], out: tuple[int, ...], attrs: dict[str, Any]) -> WindowGeometry:
    """The windows of a pooling op."""
    kernel_ = attrs["kernel"]
    return WindowGeometry(size, kernel_, out, attrs["strides"], attrs["pads"], (1,) * len(kernel_))


def is_global(windows: WindowGeometry) -> bool:
    """Whether there is one window and it covers the input and nothing else."""
    return windows.is_unpadded and windows.kernel == windows.size


def is_supported(*specs: Spec) -> bool:
    """Whether the kernels here know the element type and there are spatial axes."""
    return all(s.dtype in ("float32", "float64", "int32") and s.ndim > 2 for s in specs) and specs[0].is_float


class WindowSweep:
    """Going through the places of windows over blocks of rows seen as vectors.

    Rows are laid out as [rows, *grid] where the grid is the padded input with its last axis a multiple of the last
    stride.
    """

    def __init__(self, windows: WindowGeometry, dtype: str):
        self.windows, self.dtype = windows, dtype
        self.last = windows.strides[-1]
        self.width = -(-windows.padded_size[-1] // self.last)
        self.grid = (*windows.padded_size[:-1], self.width * self.last)
        self.fine = (*windows.padded_size[:-1], self.width)  # after the last axis
        self.copied = self.grid != windows.size
        self.rows = max(BLOCK_ELEMENTS // max(prod(self.grid), 1), 1)
        self.inside = (slice(None), *windows.interior[1:])
        self.chosen = (
            slice(None),
            *(slice(0, (o - 1) * s + 1, s) for o, s in zip(windows.out[:-1], windows.strides[:-1], strict=True)),
            slice(0, windows.out[-1]),
        )
        steps = [prod(self.fine[i + 1 :]) for i in range(len(self.fine))]
        #: per axis, last first: (how far the next place is, in elements of the vector; places; strides in the vector)
        self.axes = [(1, windows.kernel[-1], self.last)]
        self.axes += [(steps[i], windows.kernel[i], 1) for i in reversed(range(len(steps) - 1))]

    def vector(self, x: Any, buffer: Any, blank: float) -> Any:
        """The rows x [rows, *size] as one vector of the grid."""
        if not self.copied:
            return x.reshape(-1)
        buffer = buffer[: len(x)]
        buffer.fill(blank)
        buffer[self.inside] = x
        return buffer.reshape(-1)

    def buffer_shape(self) -> tuple[int, ...]:
        """Of the memory `vector` needs."""
        return (self.rows, *self.grid) if self.copied else (0,)


@kernel("numpy", "max_pool")
def max_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The largest of each window and its number."""
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
        best, number = (a.reshape(n, *windows.out) for a in outputs)

        def work(start: int, stop: int) -> None:
            block(rows[start:stop], best[start:stop], number[start:stop])
            if np.isnan(best[start:stop]).any():  # rare: which NaN is the first, the plain body says
                found = plain_max_pool.reference(np, rows[None, start:stop], **attrs)
                best[start:stop], number[start:stop] = found[0][0], found[1][0]

        parallel_for(work, n, sweep.rows)

    return run


def _make_block_max(sweep: WindowSweep, dtype: str) -> Any:
    code = "uint8" if sweep.windows.window_elements <= 256 else "int32"
    length = sweep.rows * prod(sweep.fine)
    shapes = [(sweep.buffer_shape(), dtype), ((2, length), dtype), ((3, length), code), ((length,), "bool")]

    def block(rows: Any, best_out: Any, number_out: Any) -> None:
        buffer, bests, numbers, better = scratch_arrays(*shapes)
        many = len(rows) * prod(sweep.fine)
        better = better[:many]
        bits = better.view("uint8")
        source = sweep.vector(rows, buffer, -np.inf)
        spare, best = bests[0, :many], bests[1, :many]
        inner, number, candidate = numbers[:, :many]
        inner.fill(0)
        weight = 1
        for step, places, stride in sweep.axes:
            if places == 1:
                np.copyto(best, source[::stride])
                np.copyto(number, inner)
            base: Any = source[::stride]
            for i in range(1, places):
                seen = source[i * step :: stride]
                length = len(seen)
                np.greater(seen, base[:length], out=better[:length])
                np.add(inner[i * step // stride :][:length], i * weight, out=candidate[:length])
                np.multiply(candidate[:length], bits[:length], out=candidate[:length])
                np.maximum(inner[:length] if i == 1 else number[:length], candidate[:length], out=number[:length])
                np.maximum(base[:length], seen, out=best[:length])
                base = best
            weight *= places
            source, best, spare = best, spare, best
            inner, number = number, inner
        shape = (len(rows), *sweep.fine)
        np.copyto(best_out, source.reshape(shape)[sweep.chosen])
        np.copyto(number_out, inner.reshape(shape)[sweep.chosen])

    return block


def _make_global_max(n: int, places: int) -> KernelFn:
    """One window over everything: the first largest of each row."""
    rows = max(BLOCK_ELEMENTS // places, 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x = inputs[0].reshape(n, places)
        best, number = outputs[0].reshape(n), outputs[1].reshape(n)

        def work(start: int, stop: int) -> None:
            number[start:stop] = x[start:stop].argmax(axis=1)
            np.copyto(best[start:stop], np.take_along_axis(x[start:stop], number[start:stop, None], axis=1)[:, 0])

        parallel_for(work, n, rows)

    return run
