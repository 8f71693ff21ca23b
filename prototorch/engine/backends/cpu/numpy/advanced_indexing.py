"""Kernels of indexing by arrays along several axes, and of writing at such indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.elementwise import has_numpy_dtypes
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.advanced_indexing import indexed_axis
from prototorch.ops.indexing import missing_row_value
from prototorch.spec import Spec

_UFUNCS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _index_key(ndim: int, axes: tuple[int, ...], indices: Sequence[Any]) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * ndim
    for axis, i in zip(axes, indices, strict=True):
        key[axis] = i
    return tuple(key)


def _positions_in_range(indices: Sequence[Any], sizes: Sequence[int]) -> np.ndarray | None:
    """Which positions of the broadcast indices are in range; None where all are."""
    if all(not i.size or (i.min() >= 0 and i.max() < n) for i, n in zip(indices, sizes, strict=True)):
        return None
    inside = np.True_
    for i, n in zip(indices, sizes, strict=True):
        inside = inside & (i >= 0) & (i < n)
    return np.broadcast_to(inside, np.broadcast_shapes(*(i.shape for i in indices)))


@kernel("numpy", "advanced_index")
def advanced_index(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """NumPy's own advanced indexing, with indices that are known to be in range."""
    x, axes = ins[0], attrs["axes"]
    sizes = [x.shape[a] for a in axes]
    if not has_numpy_dtypes(x) or not x.size or any(i.dtype == "uint64" for i in ins[1:]):
        return None
    missing, at = missing_row_value(x.dtype), indexed_axis(axes)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        source, *indices = inputs
        inside = _positions_in_range(indices, sizes)
        if inside is not None:
            indices = [np.where((i >= 0) & (i < n), i, 0) for i, n in zip(indices, sizes, strict=True)]
        if len(axes) == 1:
            np.take(source, indices[0], axis=axes[0], out=outputs[0], mode="wrap")
        else:
            outputs[0][...] = source[_index_key(x.ndim, axes, indices)]
        if inside is not None:
            outputs[0][(*[slice(None)] * at, ~inside)] = missing

    return run


@kernel("numpy", "index_put")
def index_put(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A copy of x, unless it is written over, and NumPy's assignment; for other reductions the values are sorted by
    their index, and each run of equal indices is reduced at once."""
    x, axes, reduce = ins[0], attrs["axes"], attrs.get("reduce", "set")
    sizes = [x.shape[a] for a in axes]
    if not has_numpy_dtypes(x) or any(i.dtype == "uint64" for i in ins[2:]):
        return None
    at = indexed_axis(axes)
    wide = np.broadcast_shapes(*(i.shape for i in ins[2:]))
    front = (*axes, *(a for a in range(x.ndim) if a not in axes))
    count, width = prod(wide), prod(n for a, n in enumerate(x.shape) if a not in axes)
    if x.dtype == "bool":
        reduce = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        source, values, *indices = inputs
        out = outputs[0]
        if out.__array_interface__["data"] != source.__array_interface__["data"] or out.strides != source.strides:
            np.copyto(out, source)
        if not values.size:
            return
        inside = _positions_in_range(indices, sizes)
        if reduce == "set" and inside is None:
            out[_index_key(x.ndim, axes, indices)] = values
            return
        indices = [np.broadcast_to(i, wide).reshape(-1) for i in indices]
        flat = np.moveaxis(values, range(at, at + len(wide)), range(len(wide))).reshape(count, width)
        if inside is not None:
            inside = inside.reshape(-1)
            indices, flat = [i[inside] for i in indices], flat[inside]
        if not indices[0].size:
            return
        target = out.transpose(front)
        rest = target.shape[len(axes) :]
        if reduce == "set":
            target[tuple(indices)] = flat.reshape(-1, *rest)
            return
        if width == 1 and len(axes) == 1 and reduce == "sum" and out.flags.c_contiguous:
            np.add.at(out.reshape(-1), indices[0], flat.reshape(-1))
            return
        rows = np.ravel_multi_index(tuple(indices), tuple(sizes)) if len(axes) > 1 else indices[0]
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        totals = _UFUNCS[reduce].reduceat(flat[order], starts, axis=0, dtype=x.dtype).reshape(-1, *rest)
        where = tuple(i[order][starts] for i in indices)
        target[where] = _UFUNCS[reduce](target[where], totals)

    return run
