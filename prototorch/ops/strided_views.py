"""Parts at an index, diagonals and sliding windows: parts of an array that are views of it, over the same memory."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.ops.core import Op
from prototorch.ops.facts import no_flops
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.operators import OPS
from prototorch.ops.reduce import normalize_axes
from prototorch.ops.strided_array import as_strided
from prototorch.ops.view_update import view_update
from prototorch.spec import Spec

__all__ = ["as_strided_view", "diagonal", "select", "sliding_windows"]


class Diagonal(Op):
    """The diagonal of the two axes ``axes``, as the last axis of the result: x[..., i, i + offset, ...].

    offset: of the diagonal; above the main one where it is positive, below it where it is negative.
    """

    derivatives = (
        lambda g, y, x, axes, offset=0: view_update(
            OPS["full"](shape=tuple(x.shape), value=0, dtype=x.dtype), g,
            steps=(("diagonal", (("axes", tuple(axes)), ("offset", offset))),),
        ),
    )  # fmt: skip
    flops = no_flops

    def infer_spec(self, x: Spec, axes: tuple[int, int], offset: int = 0) -> Spec:
        first, second = self._axes(x.ndim, axes)
        rest = tuple(n for axis, n in enumerate(x.shape) if axis not in (first, second))
        return Spec((*rest, _diagonal_size(x.shape[first], x.shape[second], offset)), x.dtype)

    def _axes(self, ndim: int, axes: tuple[int, int]) -> tuple[int, int]:
        normalize_axes(axes, ndim, self)
        if len(axes) != 2:
            raise self.shape_error(f"expected two axes, got {list(axes)}")
        return axes[0] % ndim, axes[1] % ndim

    def decompose(self, x: Any, axes: tuple[int, int], offset: int = 0) -> Any:
        first, second = self._axes(x.ndim, axes)
        rest = tuple(axis for axis in range(x.ndim) if axis not in (first, second))
        x = OPS["transpose"](x, order=(*rest, first, second))
        *lead, n, m = x.shape
        count = _diagonal_size(n, m, offset)
        start = max(offset, 0) + max(-offset, 0) * m if count else 0
        x = OPS["reshape"](x, shape=(*lead, n * m))
        zeros, ones = (0,) * len(lead), (1,) * len(lead)
        stop = start + (count - 1) * (m + 1) + 1 if count else start
        return OPS["slice"](x, start=(*zeros, start), stop=(*lead, stop), step=(*ones, m + 1))

    def array_view(self, array: Any, axes: tuple[int, int], offset: int = 0) -> Any:
        first, second = self._axes(array.ndim, axes)
        order = (*(axis for axis in range(array.ndim) if axis not in (first, second)), first, second)
        array = array.transpose(order)[..., max(-offset, 0) :, max(offset, 0) :]
        count, strides = min(array.shape[-2:]), array.strides
        return as_strided(array, (*array.shape[:-2], count), (*strides[:-2], strides[-2] + strides[-1]))


def _diagonal_size(n: int, m: int, offset: int) -> int:
    return max(min(n + min(offset, 0), m - max(offset, 0)), 0)


class SlidingWindows(Op):
    """All windows of ``size`` elements along an axis, ``step`` apart: the axis then counts the windows, and a new last
    axis the elements of one."""

    derivatives = (lambda g, y, x, axis, size, step: _add_windows(g, axis % x.ndim, step, x.shape[axis]),)
    flops = no_flops

    def infer_spec(self, x: Spec, axis: int, size: int, step: int) -> Spec:
        (axis,) = normalize_axes(axis, x.ndim, self)
        if not 0 <= size <= x.shape[axis]:
            raise self.shape_error(f"the size of a window must be between 0 and {x.shape[axis]}, got {size}")
        if step < 1:
            raise self.shape_error(f"the step must be positive, got {step}")
        count = (x.shape[axis] - size) // step + 1
        return Spec((*x.shape[:axis], count, *x.shape[axis + 1 :], size), x.dtype)

    def decompose(self, x: Any, axis: int, size: int, step: int) -> Any:
        (axis,) = normalize_axes(axis, x.ndim, self)
        count = (x.shape[axis] - size) // step + 1
        x = OPS["static_gather"](x, indices=_window_indices(count, size, step), axis=axis)
        x = OPS["reshape"](x, shape=(*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
        rest = tuple(a for a in range(x.ndim) if a != axis + 1)
        return OPS["transpose"](x, order=(*rest, axis + 1))

    def array_view(self, array: Any, axis: int, size: int, step: int) -> Any:
        axis %= array.ndim
        count = (array.shape[axis] - size) // step + 1
        shape = (*array.shape[:axis], count, *array.shape[axis + 1 :], size)
        strides = array.strides
        return as_strided(array, shape, (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]))


class Select(Op):
    """The part at one index of an axis, which counts from 0, without that axis."""

    derivatives = (
        lambda g, y, x, axis, index: view_update(
            OPS["full"](shape=tuple(x.shape), value=0, dtype=x.dtype),
            g,
            steps=(("select", (("axis", axis), ("index", index))),),
        ),
    )
    flops = no_flops

    def infer_spec(self, x: Spec, axis: int, index: int) -> Spec:
        (axis,) = normalize_axes(axis, x.ndim, self)
        if not 0 <= index < x.shape[axis]:
            raise self.shape_error(f"index {index} is out of range for axis {axis} of size {x.shape[axis]}")
        return Spec((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)

    def decompose(self, x: Any, axis: int, index: int) -> Any:
        (axis,) = normalize_axes(axis, x.ndim, self)
        start = tuple(index if a == axis else 0 for a in range(x.ndim))
        stop = tuple(index + 1 if a == axis else n for a, n in enumerate(x.shape))
        part = OPS["slice"](x, start=start, stop=stop, step=(1,) * x.ndim)
        return OPS["reshape"](part, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))

    def array_view(self, array: Any, axis: int, index: int) -> Any:
        return array[(*(slice(None),) * (axis % array.ndim), index, ...)]


class AsStridedView(Op):
    """Elements of x at ``offset + sum(index * step)`` among all of its elements in their order, for each index of the
    shape. strides: the steps, in elements."""

    derivatives = (lambda g, y, x, shape, strides, offset=0: _add_strided(g, x.shape, shape, strides, offset),)
    flops = no_flops

    def infer_spec(self, x: Spec, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Spec:
        if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
            raise self.shape_error(
                f"expected as many strides as sizes, and no negative number, got shape {list(shape)}, strides "
                f"{list(strides)} and offset {offset}"
            )
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if 0 not in shape and last >= x.size:
            raise self.shape_error(
                f"shape {list(shape)}, strides {list(strides)} and offset {offset} reach element {last} of {x.size}"
            )
        return Spec(shape, x.dtype)

    def decompose(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
        return OPS["take"](OPS["reshape"](x, shape=(-1,)), _strided_positions(shape, strides, offset))

    def array_view(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any | None:
        if not array.flags.c_contiguous or not array.size:
            return None
        return as_strided(array.reshape(-1)[offset:], shape, tuple(step * array.itemsize for step in strides))


def _strided_positions(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> LazyArray:
    """The positions that `as_strided_view` reads, of its shape."""

    def positions() -> np.ndarray:
        grid = np.ogrid[tuple(map(slice, shape))] if shape else ()
        at = sum((i * step for i, step in zip(grid, strides, strict=True)), np.asarray(offset))
        return np.broadcast_to(at, shape)

    return LazyArray(shape, "int64", positions)


def _add_strided(g: Any, size: Any, shape: Any, strides: Any, offset: int) -> Any:
    """The adjoint of `as_strided_view`: each value added at its position in zeros of the shape ``size``."""
    flat = OPS["embedding_grad"](g, _strided_positions(shape, strides, offset), rows=prod(size))
    return OPS["reshape"](flat, shape=tuple(size))


def _window_indices(count: int, size: int, step: int) -> tuple[int, ...]:
    """The indices of the elements of all windows, window by window."""
    return tuple(window * step + i for window in range(count) for i in range(size))


def _add_windows(g: Any, axis: int, step: int, n: int) -> Any:
    """The adjoint of `sliding_windows`: the elements of all windows added at their positions along an axis."""
    count, size = g.shape[axis], g.shape[-1]
    order = (*range(axis + 1), g.ndim - 1, *range(axis + 1, g.ndim - 1))
    g = OPS["transpose"](g, order=order)
    g = OPS["reshape"](g, shape=(*g.shape[:axis], count * size, *g.shape[axis + 2 :]))
    return OPS["static_scatter_add"](g, indices=_window_indices(count, size, step), axis=axis, size=n)


diagonal, sliding_windows, select, as_strided_view = Diagonal(), SlidingWindows(), Select(), AsStridedView()
