"""Tensors joined to one, and grids and products of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as _combinations
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import as_int, normalize_dim
from prototorch.eager.dtype import promote_types
from prototorch.eager.functions.views import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_tensors,
    flatten,
    reshape,
    unsqueeze,
)
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError

__all__ = ["cat", "of_one_dtype", "stack"]


def _checked(tensors: Any, name: str) -> list[Tensor]:
    """The tensors of a sequence. Raises UsageError where there is none, or something else."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise UsageError(f"{name}: expected a sequence of tensors, got a {type(tensors).__name__}")
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise UsageError(f"{name}: expected tensors, got a {type(t).__name__} at position {k}")
    if not tensors:
        raise UsageError(f"{name}: expected at least one tensor")
    return list(tensors)


def of_one_dtype(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors cast to the type that all of theirs promote to."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = promote_types(dtype, t.dtype)
    return [t if t.spec.dtype == dtype else ops.cast(t, dtype=str(dtype)) for t in tensors]


@tensor_function(method=False, aliases=("concat", "concatenate"))
def cat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors joined along a dimension; the other sizes are equal. Empty vectors are left out, as in PyTorch.

    Elements of different types are promoted. Raises ShapeError for sizes that do not fit.
    """
    parts_in = of_one_dtype(_checked(tensors, "cat"))
    parts = [t for t in parts_in if t.spec.shape != (0,)] or parts_in[:1]
    if any(not t.ndim for t in parts):
        raise ShapeError("cat: a scalar cannot be joined; stack() makes a vector of scalars")
    number = normalize_dim(dim if axis is None else axis, parts[0].ndim, "cat")
    if len(parts) == 1:
        copy: Tensor = parts[0].interpreter.clone(parts[0])
        return copy
    result: Tensor = ops.concat(*parts, axis=number)
    return result


@tensor_function(method=False)
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    checked_tensors = _checked(tensors, "stack")
    for t in checked_tensors[1:]:
        if t.shape != checked_tensors[0].shape:
            raise ShapeError(f"stack: the shapes {list(checked_tensors[0].shape)} and {list(t.shape)} must be equal")
    number = normalize_dim(dim, checked_tensors[0].ndim + 1, "stack")
    return cat([unsqueeze(t, number) for t in checked_tensors], number)


@tensor_function(method=False)
def hstack(tensors: Any) -> Tensor:
    """The tensors joined along the second dimension; vectors and scalars along the first."""
    vectors = list(atleast_1d(_checked(tensors, "hstack")))
    return cat(vectors, 0 if vectors[0].ndim == 1 else 1)


@tensor_function(method=False, aliases=("row_stack",))
def vstack(tensors: Any) -> Tensor:
    """The tensors joined along the first dimension; vectors and scalars as rows."""
    return cat(list(atleast_2d(_checked(tensors, "vstack"))), 0)


@tensor_function(method=False)
def dstack(tensors: Any) -> Tensor:
    """The tensors joined along the third dimension, with three dimensions at least."""
    return cat(list(atleast_3d(_checked(tensors, "dstack"))), 2)


@tensor_function(method=False)
def column_stack(tensors: Any) -> Tensor:
    """The tensors joined along the second dimension; vectors and scalars as columns."""
    checked_tensors = _checked(tensors, "column_stack")
    return cat([reshape(t, (t.spec.size, 1)) if t.ndim < 2 else t for t in checked_tensors], 1)


@tensor_function(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the matrices along its diagonal and zeros elsewhere; vectors are rows."""
    matrices = of_one_dtype([atleast_2d(t) for t in _checked(list(tensors), "block_diag")])
    if any(t.ndim > 2 for t in matrices):
        raise ShapeError("block_diag: expected matrices, got a tensor of more than two dimensions")
    width = sum(t.shape[1] for t in matrices)
    rows, left = [], 0
    for t in matrices:
        rows.append(ops.pad(t, pads=((0, 0), (left, width - left - t.shape[1]))))
        left += t.shape[1]
    return cat(rows, 0)


@tensor_function(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors as coordinates of a grid: one tensor of the grid's shape for each. indexing: "ij", or "xy", which
    exchanges the first two dimensions."""
    vectors = _checked(
        list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors), "meshgrid"
    )
    if indexing not in ("ij", "xy"):
        raise UsageError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    if any(t.ndim > 1 for t in vectors):
        raise ShapeError("meshgrid: expected vectors or scalars")
    if len({t.spec.dtype for t in vectors}) > 1:
        raise UsageError("meshgrid: expected tensors of one dtype")
    swap = indexing == "xy" and len(vectors) > 1
    order = [1, 0, *range(2, len(vectors))] if swap else list(range(len(vectors)))
    shaped = [
        reshape(t, [t.spec.size if axis == order[k] else 1 for axis in range(len(vectors))])
        for k, t in enumerate(vectors)
    ]
    return broadcast_tensors(shaped)


@tensor_function(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All tuples with one element of each vector, as rows; of one vector, the vector."""
    vectors = _checked(list(tensors), "cartesian_prod")
    if any(t.ndim != 1 for t in vectors):
        raise ShapeError("cartesian_prod: expected vectors")
    if len(vectors) == 1:
        return vectors[0]
    return stack([flatten(t) for t in meshgrid(*vectors)], 1)


@tensor_function
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, as rows, in the order of its elements."""
    count = as_int(r, "combinations", "r")
    if input.ndim != 1 or count < 0:
        raise ShapeError(f"combinations: expected a vector and r of 0 or more, got {list(input.shape)} and {count}")
    every = (combinations_with_replacement if with_replacement else _combinations)(range(input.shape[0]), count)
    rows = np.array(list(every), np.int64).reshape(-1, count)
    if not count:
        return reshape(input[:0], (0,))
    result: Tensor = ops.take(input, input.interpreter.constant(rows))
    return result
