"""Shapes, orders and sets of elements by the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.eager.array_api.registry import standard_function
from prototorch.eager.dims import dim_numbers
from prototorch.eager.registry import FUNCTIONS
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError

__all__ = ["unique_all"]


@standard_function
def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays joined along an axis; without one, all elements of all arrays as a vector."""
    result: Tensor = FUNCTIONS["cat"]([a.reshape(-1) for a in arrays] if axis is None else list(arrays), axis or 0)
    return result


@standard_function
def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    result: Tensor = FUNCTIONS["stack"](list(arrays), axis)
    return result


@standard_function
def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis, without it."""
    result: tuple[Tensor, ...] = FUNCTIONS["unbind"](x, axis)
    return result


@standard_function
def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """The array with a new axis of size 1."""
    result: Tensor = FUNCTIONS["unsqueeze"](x, axis)
    return result


@standard_function
def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """The array without axes of size 1. Raises ShapeError for one of another size."""
    for k in dim_numbers(axis, x.ndim, "squeeze"):
        if x.shape[k] != 1:
            raise ShapeError(f"squeeze: axis {k} of {list(x.shape)} has size {x.shape[k]}")
    result: Tensor = FUNCTIONS["squeeze"](x, axis)
    return result


@standard_function
def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order."""
    result: Tensor = FUNCTIONS["permute"](x, axes)
    return result


@standard_function
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    result: Tensor = x.mT
    return result


@standard_function
def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape. copy: True for new memory, False to refuse a copy."""
    result: Tensor = x.view(shape) if copy is False else FUNCTIONS["reshape"](x, shape)
    return result.clone() if copy and result._base is not None else result


@standard_function
def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The view of that shape, in which axes of size 1 are repeated."""
    result: Tensor = FUNCTIONS["broadcast_to"](x, shape)
    return result


@standard_function
def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The arrays as views of the shape that they broadcast to."""
    result: tuple[Tensor, ...] = FUNCTIONS["broadcast_tensors"](*arrays)
    return result


@standard_function
def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The elements in reverse order along axes, or all."""
    result: Tensor = FUNCTIONS["flip"](x, dims=dim_numbers(axis, x.ndim, "flip"))
    return result


@standard_function
def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The elements moved along axes, or in their order; those that leave at one end come in at the other."""
    axes = axis if axis is None or isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * (1 if axes is None else len(axes))
    result: Tensor = FUNCTIONS["roll"](x, shifts, axes)
    return result


@standard_function
def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element along an axis repeated next to itself."""
    result: Tensor = FUNCTIONS["repeat_interleave"](x, repeats, axis)
    return result


@standard_function
def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array repeated along each axis."""
    result: Tensor = FUNCTIONS["tile"](x, repetitions)
    return result


@standard_function
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The parts along an axis at a vector of indices; the axis may be left out for a vector."""
    if axis is None and x.ndim != 1:
        raise UsageError(f"take: axis must be given for {x.ndim} dimensions")
    result: Tensor = x[(*(slice(None),) * ((0 if axis is None else axis) % x.ndim), indices)]
    return result


@standard_function
def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at indices along an axis."""
    result: Tensor = FUNCTIONS["take_along_dim"](x, indices, axis)
    return result


@standard_function
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    result: Tensor = FUNCTIONS["sort"](x, axis, descending).values
    return result


@standard_function
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort along an axis."""
    result: Tensor = FUNCTIONS["argsort"](x, axis, descending)
    return result


@standard_function
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not 0, a vector for each axis."""
    if not x.ndim:
        raise ShapeError("nonzero: expected at least one dimension, got a scalar")
    result: tuple[Tensor, ...] = FUNCTIONS["nonzero"](x, as_tuple=True)
    return result


@standard_function
def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Products summed over the last axes of one array and the first ones of another, or over pairs of axes."""
    result: Tensor = FUNCTIONS["tensordot"](x1, x2, axes)
    return result


class UniqueAll(NamedTuple):
    """The different elements, where each occurs first, the index of each element among them, and how often each is."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The different elements, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The different elements, and the index among them of each element."""

    values: Tensor
    inverse_indices: Tensor


@standard_function
def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements in order (see `UniqueAll`). It reads the elements."""
    array = x.numpy()
    values, first, inverse, counts = np.unique(array, True, True, True, equal_nan=False)
    indices = (a.astype(np.int64) for a in (first, inverse.reshape(array.shape), counts))
    return UniqueAll(*(x.interpreter.constant(a) for a in (values, *indices)))


@standard_function
def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements and their counts."""
    counts = unique_all(x)
    return UniqueCounts(counts.values, counts.counts)


@standard_function
def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements and the index of each element among them."""
    inverse = unique_all(x)
    return UniqueInverse(inverse.values, inverse.inverse_indices)


@standard_function
def unique_values(x: Tensor, /) -> Tensor:
    """The different elements."""
    return unique_all(x).values
