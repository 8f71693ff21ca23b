"""The adjoint of max pooling: place by place, the values whose window's largest element is there.

Windows that overlap are gone through as vectors, as `numpy_pool` does: values and numbers are put on the grid of the
input, where a place of the kernel is the same vector some elements on. Windows that do not overlap, or lie far apart,
are slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cpu.numpy import max_pool
from prototorch.backends.cpu.numpy.max_pool import WindowSweep, is_supported, pooling_windows
from prototorch.backends.cpu.numpy.windows import WindowGeometry
from prototorch.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.backends.registry import KernelFn, kernel
from prototorch.ops.windows import kernel_offsets
from prototorch.spec import Spec

_NO_WINDOW = 255  # in place of a number, where the grid has no window
_MAX_VECTOR_SPARSITY = 1  # places of the grid for each window, up to which vectors are faster than slices


@kernel("numpy", "max_pool_grad")
def max_pool_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Each value added where its window's largest element was."""
    g, dx = ins[0], outs[0]
    if not is_supported(*ins):
        return None
    windows = pooling_windows(dx.shape[2:], g.shape[2:], attrs)
    n = g.shape[0] * g.shape[1]
    alone = all(k <= s for k, s in zip(windows.kernel, windows.strides, strict=True))
    if alone or windows.window_elements > _NO_WINDOW or prod(windows.strides[:-1]) > _MAX_VECTOR_SPARSITY:
        rows = max(max_pool.BLOCK_ELEMENTS // max(prod(windows.padded_size), 1), 1)
        body = _make_by_slices(windows, g.dtype, rows, alone)
    else:
        sweep = WindowSweep(windows, g.dtype)
        rows, body = sweep.rows, _make_by_vectors(sweep, g.dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        values, numbers = (a.reshape(n, *windows.out) for a in inputs)
        target = outputs[0].reshape(n, *windows.size)
        parallel_for(lambda start, stop: body(values[start:stop], numbers[start:stop], target[start:stop]), n, rows)

    return run


def _select(values: Any, mask: Any, out: Any, finite: bool) -> None:
    """The values where the mask holds, else 0: by a product where no value is infinite or NaN."""
    if finite:
        np.multiply(values, mask, out=out)
    else:
        out.fill(0)
        np.copyto(out, values, where=mask)


def _is_finite(values: Any) -> bool:
    return bool(np.isfinite(np.add.reduce(values, axis=None)))


def _make_by_slices(windows: WindowGeometry, dtype: str, rows: int, alone: bool) -> Callable[..., None]:
    slices = windows.slices()
    inner = (slice(None), *windows.interior[1:])
    part_shape = (rows, *windows.out)
    shapes = (
        ((0,) if windows.is_unpadded else (rows, *windows.padded_size), dtype),
        (part_shape, "bool"),
        (part_shape, dtype),
    )

    def body(values: Any, number: Any, dx: Any) -> None:
        full, mask, part = scratch_arrays(*shapes)
        mask, part = mask[: len(values)], part[: len(values)]
        finite = _is_finite(values)
        into = dx if windows.is_unpadded else full[: len(values)]
        into.fill(0)
        for i, key in enumerate(slices):
            np.equal(number, i, out=mask)
            if alone:
                _select(values, mask, into[key], finite)
                continue
            _select(values, mask, part, finite)
            seen = into[key]
            np.add(seen, part, out=seen)
        if not windows.is_unpadded:
            dx[...] = into[inner]

    return body


def _vector_offsets(sweep: WindowSweep) -> Iterator[int]:
    """For each place of the kernel, how far from its window it is in the grid seen as one vector."""
    windows = sweep.windows
    steps = [prod(sweep.grid[i + 1 :]) for i in range(len(sweep.grid))]
    for _, at in kernel_offsets(windows.kernel):
        yield sum(a * s for a, s in zip(at, steps, strict=True))


def _make_by_vectors(sweep: WindowSweep, dtype: str) -> Callable[..., None]:
    starts = list(_vector_offsets(sweep))
    fine = (sweep.rows, *sweep.fine)
    shapes = (
        ((sweep.rows, *sweep.grid) if sweep.copied else (0,), dtype),
        (fine, dtype), (fine, "uint8"), ((prod(fine),), "bool"), ((prod(fine),), dtype),
    )  # fmt: skip

    def body(values: Any, number: Any, dx: Any) -> None:
        full, grid, numbers, mask, part = scratch_arrays(*shapes)
        many = len(values)
        into = full[:many] if sweep.copied else dx
        grid, numbers = grid[:many], numbers[:many]
        into.fill(0)
        grid.fill(0)
        numbers.fill(_NO_WINDOW)
        grid[sweep.chosen] = values
        np.copyto(numbers[sweep.chosen], number, casting="unsafe")
        finite = _is_finite(values)
        line, spread, places = into.reshape(-1), grid.reshape(-1), numbers.reshape(-1)
        for i, start in enumerate(starts):
            seen = line[start :: sweep.last]
            length = min(len(seen), len(spread))
            seen = seen[:length]
            np.equal(places[:length], i, out=mask[:length])
            _select(spread[:length], mask[:length], part[:length], finite)
            np.add(seen, part[:length], out=seen)
        if sweep.copied:
            dx[...] = into[sweep.inside]

    return body
