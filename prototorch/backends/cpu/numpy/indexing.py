"""Kernels that look elements up by an index, and their adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cpu.numpy import elementwise as elementwise
from prototorch.backends.cpu.numpy.elementwise import has_numpy_dtypes
from prototorch.backends.cpu.worker_pool import parallel_for
from prototorch.backends.registry import KernelFn, kernel
from prototorch.ops.indexing import missing_row_value
from prototorch.spec import Spec


@kernel("numpy", "take")
def take(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Rows of a table. An index outside is taken modulo the rows first, so that no other memory is ever read."""
    table, indices = ins
    if not has_numpy_dtypes(table) or not table.size:
        return None
    count, width = indices.size, prod(table.shape[1:])
    grain = count if outs[0].size < elementwise.PARALLEL_MIN_SIZE else max(elementwise.TASK_SIZE // width, 1)
    missing = missing_row_value(table.dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows, places, out = inputs[0], inputs[1].reshape(count), outputs[0].reshape(count, *table.shape[1:])

        def work(start: int, stop: int) -> None:
            np.take(rows, places[start:stop], axis=0, out=out[start:stop], mode="wrap")

        parallel_for(work, count, max(grain, 1))
        bad = out_of_range_mask(places, len(rows))
        if bad is not None:
            out[bad] = missing

    return run


@kernel("numpy", "embedding_grad")
def embedding_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Rows added at their indices: sorted by index, then each run of one index added up in its order."""
    values, indices = ins
    if not has_numpy_dtypes(values) or values.dtype == "bool" or not values.size:
        return None
    count, rows = indices.size, attrs["rows"]
    width = prod(values.shape[indices.ndim :])

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        flat, places = inputs[0].reshape(count, width), inputs[1].reshape(count)
        out = outputs[0].reshape(rows, width)
        out.fill(0)
        bad = out_of_range_mask(places, rows)
        if bad is not None:
            flat, places = flat[~bad], places[~bad]
            if not places.size:
                return
        order = np.argsort(places, kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        out[places[starts]] = np.add.reduceat(flat[order], starts, axis=0, dtype=values.dtype)

    return run


def out_of_range_mask(places: np.ndarray, rows: int) -> np.ndarray | None:
    """True where an index lies outside a table of so many rows; None where none does."""
    if not places.size or (places.min() >= 0 and places.max() < rows):
        return None
    return (places < 0) | (places >= rows)


@kernel("numpy", "take_along_axis")
def take_along_axis(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Elements along the last axis, by their places in the whole."""
    x, indices = ins
    if not has_numpy_dtypes(x) or not x.size or not indices.size:
        return None
    n, k, size = prod(x.shape[:-1]), indices.shape[-1], x.shape[-1]
    firsts = np.arange(0, n * size, size)[:, None]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        places = inputs[1].reshape(n, k) % size + firsts
        np.take(inputs[0].reshape(-1), places, out=outputs[0].reshape(n, k), mode="wrap")

    return run


@kernel("numpy", "crop")
def crop(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A part of each picture, copied row by row."""
    x, height, width = ins[0], attrs["height"], attrs["width"]
    last, rightmost = x.shape[2] - height, x.shape[3] - width

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        tops, lefts = (places.reshape(-1).tolist() for places in inputs[1:])
        for one, whole, top, left in zip(outputs[0], inputs[0], tops, lefts, strict=True):
            i, j = min(max(top, 0), last), min(max(left, 0), rightmost)
            np.copyto(one, whole[:, i : i + height, j : j + width])

    return run


@kernel("numpy", "scatter_add_along_axis")
def scatter_add_along_axis(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The adjoint of `take_along_axis`, one column of indices after the other."""
    values = ins[0]
    if not has_numpy_dtypes(values) or values.dtype == "bool" or not values.size:
        return None
    n, k, size = prod(values.shape[:-1]), values.shape[-1], attrs["size"]
    firsts = np.arange(0, n * size, size)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        out = outputs[0].reshape(-1)
        out.fill(0)
        flat, places = inputs[0].reshape(n, k), inputs[1].reshape(n, k) % size
        for j in range(k):
            out[places[:, j] + firsts] += flat[:, j]

    return run


@kernel("numpy", "one_hot")
def one_hot(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Every index compared with every class."""
    if not has_numpy_dtypes(*outs):
        return None
    classes = np.arange(attrs["classes"])

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.equal(inputs[0][..., None], classes, out=outputs[0], casting="unsafe")

    return run


@kernel("numpy", "iota")
def iota(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Numbers that never change, copied."""
    if not has_numpy_dtypes(*outs):
        return None
    numbers = np.arange(attrs["size"], dtype=outs[0].dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.copyto(outputs[0], numbers)

    return run
