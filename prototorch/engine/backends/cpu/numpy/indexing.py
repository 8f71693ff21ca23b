"""Indexed lookup (gather) kernels, and their adjoints (scatter-add)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy import elementwise as elementwise
from prototorch.engine.backends.cpu.numpy.elementwise import has_numpy_dtypes
from prototorch.engine.backends.cpu.worker_pool import parallel_for
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.indexing import missing_row_value
from prototorch.spec import Spec


@kernel("numpy", "take")
def take(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Rows of a table. An index out of range is taken modulo the rows first, so that no other memory is read."""
    table, indices = ins
    if not has_numpy_dtypes(table) or not table.size:
        return None
    count, width = indices.size, prod(table.shape[1:])
    grain = count if outs[0].size < elementwise.PARALLEL_MIN_SIZE else max(elementwise.TASK_SIZE // width, 1)
    missing = missing_row_value(table.dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows, positions, out = inputs[0], inputs[1].reshape(count), outputs[0].reshape(count, *table.shape[1:])

        def work(start: int, stop: int) -> None:
            np.take(rows, positions[start:stop], axis=0, out=out[start:stop], mode="wrap")

        parallel_for(work, count, max(grain, 1))
        out_of_range = out_of_range_mask(positions, len(rows))
        if out_of_range is not None:
            out[out_of_range] = missing

    return run


@kernel("numpy", "embedding_grad")
def embedding_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Rows added at their indices: sorted by index, then each run of equal indices is summed in order."""
    values, indices = ins
    if not has_numpy_dtypes(values) or values.dtype == "bool" or not values.size:
        return None
    count, rows = indices.size, attrs["rows"]
    width = prod(values.shape[indices.ndim :])

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        flat, positions = inputs[0].reshape(count, width), inputs[1].reshape(count)
        out = outputs[0].reshape(rows, width)
        out.fill(0)
        out_of_range = out_of_range_mask(positions, rows)
        if out_of_range is not None:
            flat, positions = flat[~out_of_range], positions[~out_of_range]
            if not positions.size:
                return
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        starts = np.flatnonzero(np.concatenate(([True], positions[1:] != positions[:-1])))
        out[positions[starts]] = np.add.reduceat(flat[order], starts, axis=0, dtype=values.dtype)

    return run


def out_of_range_mask(positions: np.ndarray, rows: int) -> np.ndarray | None:
    """True where an index is out of range for a table of ``rows`` rows; None where none is."""
    if not positions.size or (positions.min() >= 0 and positions.max() < rows):
        return None
    return (positions < 0) | (positions >= rows)


@kernel("numpy", "take_along_axis")
def take_along_axis(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Elements along the last axis, by their offsets in the flat array."""
    x, indices = ins
    if not has_numpy_dtypes(x) or not x.size or not indices.size:
        return None
    n, k, size = prod(x.shape[:-1]), indices.shape[-1], x.shape[-1]
    firsts = np.arange(0, n * size, size)[:, None]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        positions = inputs[1].reshape(n, k)
        if out_of_range_mask(positions, size) is not None:
            positions = positions % size
        np.take(inputs[0].reshape(-1), positions + firsts, out=outputs[0].reshape(n, k), mode="wrap")

    return run


@kernel("numpy", "crop")
def crop(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A window of each image, copied row by row."""
    x, height, width = ins[0], attrs["height"], attrs["width"]
    last, rightmost = x.shape[2] - height, x.shape[3] - width

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        top_positions, left_positions = (positions.reshape(-1).tolist() for positions in inputs[1:])
        for target, image, top, left in zip(outputs[0], inputs[0], top_positions, left_positions, strict=True):
            i, j = min(max(top, 0), last), min(max(left, 0), rightmost)
            np.copyto(target, image[:, i : i + height, j : j + width])

    return run


@kernel("numpy", "iota")
def iota(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A constant, copied."""
    if not has_numpy_dtypes(*outs):
        return None
    constant = np.arange(attrs["size"], dtype=outs[0].dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.copyto(outputs[0], constant)

    return run
