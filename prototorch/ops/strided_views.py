"""Diagonals and sliding windows: parts of an array that are views of it, over the same memory."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import no_flops
from prototorch.ops.operators import OPS
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = ["diagonal", "sliding_windows"]


def _as_strided(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """An array over the memory of another, by NumPy or CuPy."""
    return array.__array_namespace__().lib.stride_tricks.as_strided(array, shape, strides)


class Diagonal(Op):
    """The diagonal of the two axes ``axes``, as the last axis of the result: x[..., i, i + offset, ...].

    offset: of the diagonal; above the main one where it is positive, below it where it is negative.
    """

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
        return _as_strided(array, (*array.shape[:-2], count), (*strides[:-2], strides[-2] + strides[-1]))


def _diagonal_size(n: int, m: int, offset: int) -> int:
    return max(min(n + min(offset, 0), m - max(offset, 0)), 0)


class SlidingWindows(Op):
    """All windows of ``size`` elements along an axis, ``step`` apart: the axis then counts the windows, and a new last
    axis the elements of one."""

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
        indices = tuple(w * step + i for w in range(count) for i in range(size))
        x = OPS["static_gather"](x, indices=indices, axis=axis)
        x = OPS["reshape"](x, shape=(*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
        rest = tuple(a for a in range(x.ndim) if a != axis + 1)
        return OPS["transpose"](x, order=(*rest, axis + 1))

    def array_view(self, array: Any, axis: int, size: int, step: int) -> Any:
        axis %= array.ndim
        count = (array.shape[axis] - size) // step + 1
        shape = (*array.shape[:axis], count, *array.shape[axis + 1 :], size)
        strides = array.strides
        return _as_strided(array, shape, (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]))


diagonal, sliding_windows = Diagonal(), SlidingWindows()
