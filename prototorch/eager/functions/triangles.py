"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.operands import accepts_out, cast_to
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError

__all__ = ["diag", "diag_embed", "trace", "tril", "triu"]


def _indices(x: Any, count: int) -> Any:
    """0, 1, ..., count - 1 by the interpreter of x."""
    return x.interpreter.constant(np.arange(count))


def _offsets(x: Any, rows: int, columns: int) -> Any:
    """column - row for each element of a matrix."""
    return ops.expand_dims(_indices(x, columns), 0) - ops.expand_dims(_indices(x, rows), 1)


def _triangle(name: str, x: Any, diagonal: int, lower: bool) -> Any:
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected at least 2 dimensions, got shape {list(x.shape)}")
    offsets = _offsets(x, x.shape[-2], x.shape[-1])
    keeps = ops.less_equal(offsets, int(diagonal)) if lower else ops.greater_equal(offsets, int(diagonal))
    return ops.where(keeps, x, cast_to(False, x.dtype, x))


@tensor_function(in_place=True)
@accepts_out
def tril(input: Any, diagonal: int = 0) -> Any:
    """The elements of each matrix on and below a diagonal (0: the main one, above it positive), else 0 (torch.tril)."""
    return _triangle("tril", input, diagonal, True)


@tensor_function(in_place=True)
@accepts_out
def triu(input: Any, diagonal: int = 0) -> Any:
    """The elements of each matrix on and above a diagonal (0: the main one, above it positive), else 0 (torch.triu)."""
    return _triangle("triu", input, diagonal, False)


@tensor_function
def trace(input: Any) -> Any:
    """The sum of the main diagonal of a matrix (torch.trace)."""
    if input.ndim != 2:
        raise ShapeError(f"trace: expected a matrix, got shape {list(input.shape)}")
    on_diagonal = ops.equal(_offsets(input, *input.shape), 0)
    x = input if str(input.dtype).startswith(("float", "bfloat")) else cast_to(input, "int64")
    return ops.sum(ops.where(on_diagonal, x, cast_to(0, x.dtype, x)))


@tensor_function
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension on a diagonal, in the dimensions dim1 and dim2 of the result
    (torch.diag_embed)."""
    n = input.ndim + 1
    first, second = normalize_dim(dim1, n, "diag_embed"), normalize_dim(dim2, n, "diag_embed")
    if first == second:
        raise ShapeError(f"diag_embed: dim1 and dim2 are both dimension {first}")
    x = input if input.ndim else ops.reshape(input, shape=(1,))
    size = x.shape[-1] + abs(offset)
    pads = ((0, 0),) * (x.ndim - 1) + ((max(offset, 0), max(-offset, 0)),)
    columns = ops.expand_dims(ops.pad(x, pads=pads) if offset else x, x.ndim - 1)  # element j in column j
    on_diagonal = ops.equal(_offsets(x, size, size), int(offset))
    y = ops.where(on_diagonal, columns, cast_to(False, x.dtype, x))
    if first > second:  # the rows of the result are dimension dim1
        y = ops.swap_axes(y, -1, -2)
        first, second = second, first
    order = list(range(n - 2))
    order.insert(first, n - 2)
    order.insert(second, n - 1)
    return ops.transpose(y, order=tuple(order)) if order != list(range(n)) else y


@tensor_function
@accepts_out
def diag(input: Any, diagonal: int = 0) -> Any:
    """A vector on a diagonal of a matrix, or a diagonal of a matrix as a vector (torch.diag)."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ShapeError(f"diag: expected a vector or a matrix, got shape {list(input.shape)}")
    rows, columns = input.shape
    start, count = (
        ((0, diagonal), min(rows, columns - diagonal))
        if diagonal >= 0
        else ((-diagonal, 0), min(rows + diagonal, columns))
    )
    if count < 0:
        raise UsageError(f"diag: there is no diagonal {diagonal} of a matrix {list(input.shape)}")
    first = start[0] * columns + start[1]
    flat = ops.reshape(input, shape=(rows * columns,))
    return flat[first : first + count * (columns + 1) - columns if count else first : columns + 1]


@tensor_function
def diagflat(input: Any, offset: int = 0) -> Any:
    """The flattened elements on a diagonal of a matrix (torch.diagflat)."""
    return diag_embed(ops.reshape(input, shape=(input.spec.size,)), offset)


def _triangle_indices(row: int, col: int, offset: int, lower: bool, dtype: Any, device: Any) -> Any:
    if row < 0 or col < 0:
        raise UsageError(f"sizes must not be negative, got {row} and {col}")
    index_arrays = np.tril_indices(row, offset, col) if lower else np.triu_indices(row, offset, col)
    return cast_to(interpreter_for(device).constant(np.stack(index_arrays)), dtype or "int64")


@tensor_function(method=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """The indices [2, n] of the elements of a matrix on and below a diagonal (torch.tril_indices)."""
    return _triangle_indices(row, col, offset, True, dtype, device)


@tensor_function(method=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """The indices [2, n] of the elements of a matrix on and above a diagonal (torch.triu_indices)."""
    return _triangle_indices(row, col, offset, False, dtype, device)
