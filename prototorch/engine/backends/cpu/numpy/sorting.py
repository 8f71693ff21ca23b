"""Kernels of sorting, of looking up positions in sorted elements, and of running extrema."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.elementwise import has_numpy_dtypes
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec


def stable_argsort(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stable order of the last axis, and the elements in it.

    NumPy's quicksort takes a third of the time of its stable sort (vector instructions); only rows with equal elements
    or NaN are sorted again.
    """
    has_fast_sort = x.dtype.kind in "fi" and x.dtype.itemsize >= 4
    order = np.argsort(x, axis=-1, kind="quicksort" if has_fast_sort else "stable")
    ascending = np.take_along_axis(x, order, axis=-1)
    if has_fast_sort:
        repeats = ~(ascending[..., 1:] > ascending[..., :-1]).all(axis=-1)
        if repeats.any():
            order[repeats] = np.argsort(x[repeats], axis=-1, kind="stable")
            ascending = np.take_along_axis(x, order, axis=-1)
    return order, ascending


@kernel("numpy", "sort")
def sort(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The stable order of NumPy; descending, that of the reversed elements, reversed."""
    if not has_numpy_dtypes(*ins):
        return None
    n, way = ins[0].shape[-1], slice(None, None, -1 if attrs.get("descending") else None)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, (values, indices) = inputs[0][..., way], outputs
        order, ascending = stable_argsort(x)
        order = order[..., way]
        np.copyto(values, ascending[..., way])
        if attrs.get("descending"):
            np.subtract(n - 1, order, out=indices)
        else:
            np.copyto(indices, order)

    return run


@kernel("numpy", "searchsorted")
def searchsorted(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A binary search, row by row."""
    elements, values = ins
    if not has_numpy_dtypes(*ins):
        return None
    side, rows = attrs.get("side", "left"), prod(elements.shape[:-1])

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if elements.ndim == 1:
            outputs[0][...] = np.searchsorted(inputs[0], inputs[1], side)
            return
        table = inputs[0].reshape(rows, elements.shape[-1])
        row_values, positions = inputs[1].reshape(rows, values.shape[-1]), outputs[0].reshape(rows, values.shape[-1])
        for row in range(rows):
            positions[row] = np.searchsorted(table[row], row_values[row], side)

    return run


def _register_running(name: str, function: Any) -> None:
    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        """The running values, and the running maximum of the positions at which an element is one."""
        if not has_numpy_dtypes(*ins):
            return None
        positions = np.arange(ins[0].shape[-1])

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            x, (values, indices) = inputs[0], outputs
            function.accumulate(x, axis=-1, out=values)
            is_extremum = (x == values) | (x != x)
            np.maximum.accumulate(np.where(is_extremum, positions, 0), axis=-1, out=indices)

        return run


_register_running("cummax", np.maximum)
_register_running("cummin", np.minimum)
