"""The adjoint of max pooling: for each offset of the kernel, the values whose window's maximum is there.

Overlapping windows are processed as vectors, as in the module `max_pool`: values and indices are put on the grid of the
input, where an offset of the kernel is a shift of the vector. Windows that do not overlap, or are far apart, are
slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy import max_pool
from prototorch.engine.backends.cpu.numpy.max_pool import WindowSweep, is_supported, pooling_windows
from prototorch.engine.backends.cpu.numpy.windows import WindowGeometry
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.windows import kernel_offsets
from prototorch.spec import Spec

_NO_WINDOW = 255  # in place of an index, where the grid has no window
_MAX_VECTOR_SPARSITY = 1  # grid positions per window up to which vectors are faster than slices


@kernel("numpy", "max_pool_grad")
def max_pool_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Each value added where its window's largest element was."""
    g, dx = ins[0], outs[0]
    if not is_supported(*ins):
        return None
    windows = pooling_windows(dx.shape[2:], g.shape[2:], attrs)
    n = g.shape[0] * g.shape[1]
    disjoint = all(k <= s for k, s in zip(windows.kernel, windows.strides, strict=True))
    if disjoint or windows.window_elements > _NO_WINDOW or prod(windows.strides[:-1]) > _MAX_VECTOR_SPARSITY:
        rows = max(max_pool.BLOCK_ELEMENTS // max(prod(windows.padded_size), 1), 1)
        body = _make_by_slices(windows, g.dtype, rows, disjoint)
    else:
        sweep = WindowSweep(windows, g.dtype)
        rows, body = sweep.rows, _make_by_vectors(sweep, g.dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        values, indices = (a.reshape(n, *windows.out) for a in inputs)
        target = outputs[0].reshape(n, *windows.size)
        parallel_for(lambda start, stop: body(values[start:stop], indices[start:stop], target[start:stop]), n, rows)

    return run


def _select(values: Any, mask: Any, out: Any, finite: bool) -> None:
    """The values where the mask is true, else 0: by a product where all values are finite."""
    if finite:
        np.multiply(values, mask, out=out)
    else:
        out.fill(0)
        np.copyto(out, values, where=mask)


def _is_finite(values: Any) -> bool:
    return bool(np.isfinite(np.add.reduce(values, axis=None)))


def _make_by_slices(windows: WindowGeometry, dtype: str, rows: int, disjoint: bool) -> Callable[..., None]:
    slices = windows.slices()
    inner = (slice(None), *windows.interior[1:])
    part_shape = (rows, *windows.out)
    shapes = (
        ((0,) if windows.is_unpadded else (rows, *windows.padded_size), dtype),
        (part_shape, "bool"),
        (part_shape, dtype),
    )

    def body(values: Any, index: Any, dx: Any) -> None:
        full, mask, part = scratch_arrays(*shapes)
        mask, part = mask[: len(values)], part[: len(values)]
        finite = _is_finite(values)
        into = dx if windows.is_unpadded else full[: len(values)]
        into.fill(0)
        for i, key in enumerate(slices):
            np.equal(index, i, out=mask)
            if disjoint:
                _select(values, mask, into[key], finite)
                continue
            _select(values, mask, part, finite)
            neighbours = into[key]
            np.add(neighbours, part, out=neighbours)
        if not windows.is_unpadded:
            dx[...] = into[inner]

    return body


def _vector_offsets(sweep: WindowSweep) -> Iterator[int]:
    """For each offset of the kernel, its distance from the window's start in the grid as one vector."""
    windows = sweep.windows
    steps = [prod(sweep.grid[i + 1 :]) for i in range(len(sweep.grid))]
    for _, at in kernel_offsets(windows.kernel):
        yield sum(a * s for a, s in zip(at, steps, strict=True))


def _make_by_vectors(sweep: WindowSweep, dtype: str) -> Callable[..., None]:
    starts = list(_vector_offsets(sweep))
    row_grid = (sweep.rows, *sweep.row_grid)
    shapes = (
        ((sweep.rows, *sweep.grid) if sweep.needs_copy else (0,), dtype),
        (row_grid, dtype),
        (row_grid, "uint8"),
        ((prod(row_grid),), "bool"),
        ((prod(row_grid),), dtype),
    )

    def body(values: Any, index: Any, dx: Any) -> None:
        full, grid, indices, mask, part = scratch_arrays(*shapes)
        count = len(values)
        into = full[:count] if sweep.needs_copy else dx
        grid, indices = grid[:count], indices[:count]
        into.fill(0)
        grid.fill(0)
        indices.fill(_NO_WINDOW)
        grid[sweep.window_positions] = values
        np.copyto(indices[sweep.window_positions], index, casting="unsafe")
        finite = _is_finite(values)
        line, values_on_grid, indices_on_grid = into.reshape(-1), grid.reshape(-1), indices.reshape(-1)
        for i, start in enumerate(starts):
            neighbours = line[start :: sweep.last_stride]
            length = min(len(neighbours), len(values_on_grid))
            neighbours = neighbours[:length]
            np.equal(indices_on_grid[:length], i, out=mask[:length])
            _select(values_on_grid[:length], mask[:length], part[:length], finite)
            np.add(neighbours, part[:length], out=neighbours)
        if sweep.needs_copy:
            dx[...] = into[sweep.interior]

    return body
