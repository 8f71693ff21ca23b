"""Different elements, how often they occur, and histograms. They read the elements, and have no gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prototorch.eager.dims import as_float, as_int, normalize_dim
from prototorch.eager.operands import accepts_out
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError

__all__ = ["bincount", "histc", "unique", "unique_consecutive"]


class Histogram(NamedTuple):
    """The weights that fall into each bin, and the bins' edges."""

    hist: Tensor
    bin_edges: Tensor


def _results(input: Tensor, arrays: Any, selection: Any) -> Any:
    results = tuple(input.interpreter.constant(a) for a, w in zip(arrays, selection, strict=True) if w)
    return results[0] if len(results) == 1 else results


@tensor_function
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The different elements in ascending order, or with ``dim`` the different parts along it.

    return_inverse: also the index of each element among them; return_counts: also how often each occurs. The result is
    in order whatever ``sorted`` says.
    """
    array = input.numpy()
    axis = None if dim is None else normalize_dim(dim, input.ndim, "unique")
    values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    inverse = inverse.reshape(array.shape if axis is None else -1)
    arrays = (values, inverse.astype(np.int64), counts.astype(np.int64))
    return _results(input, arrays, (True, return_inverse, return_counts))


@tensor_function
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The elements (or with ``dim`` the parts along it) without those that equal the one before."""
    array = input.numpy()
    axis = 0 if dim is None else normalize_dim(dim, input.ndim, "unique_consecutive")
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, axis, 0)
    differs = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
    first = np.concatenate([np.ones(min(len(rows), 1), bool), differs])
    starts = np.flatnonzero(first)
    inverse = np.cumsum(first) - 1
    values = np.moveaxis(rows[starts], 0, axis) if dim is not None else rows[starts]
    counts = np.diff(np.append(starts, len(rows)))
    shape = array.shape if dim is None else inverse.shape
    arrays = (np.ascontiguousarray(values), inverse.reshape(shape).astype(np.int64), counts.astype(np.int64))
    return _results(input, arrays, (True, return_inverse, return_counts))


@tensor_function
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, ... occurs in a vector of integers, or the sums of the weights of its occurrences."""
    least = as_int(minlength, "bincount", "minlength")
    if input.ndim != 1 or input.spec.is_float or input.spec.dtype == "bool" or least < 0:
        raise ShapeError(
            f"bincount: expected a vector of integers and minlength of 0 or more, got {input.dtype} "
            f"{list(input.shape)}, {least}"
        )
    array = input.numpy()
    if array.size and array.min() < 0:
        raise UsageError("bincount: the integers must not be negative")
    if weights is None:
        counts = np.bincount(array, minlength=least).astype(np.int64)
    else:
        if weights.shape != input.shape:
            raise ShapeError(f"bincount: weights must have shape {list(input.shape)}, got {list(weights.shape)}")
        counts = np.bincount(array, weights.numpy(), least)
        counts = counts.astype(weights.spec.dtype if weights.spec.dtype == "float32" else np.float64)
    result: Tensor = input.interpreter.constant(counts)
    return result


@tensor_function
@accepts_out
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """How many elements fall into each of ``bins`` equal parts of the interval [min, max]; where both are equal, of
    that from the smallest to the largest element. Elements outside do not count."""
    array = input.numpy()
    count, low, high = as_int(bins, "histc", "bins"), as_float(min, "histc", "min"), as_float(max, "histc", "max")
    if count < 1:
        raise UsageError(f"histc: bins must be positive, got {count}")
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise UsageError(f"histc: expected finite bounds with min below max, got {low} and {high}")
    counts, _ = np.histogram(array[np.isfinite(array)], count, (low, high))
    result: Tensor = input.interpreter.constant(counts.astype(input.spec.dtype))
    return result


@tensor_function
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """The weights (default: 1 for each element) that fall into each bin, and the bins' edges: ``hist, bin_edges``.
    bins: the edges, an ascending vector, or a number of equal bins in ``range``."""
    array = input.numpy().reshape(-1)
    if isinstance(bins, Tensor):
        edges: Any = bins.numpy()
        if bins.ndim != 1 or (edges[1:] < edges[:-1]).any():
            raise ShapeError("histogram: bins must be an ascending vector, or a number")
        bounds = None
    else:
        edges, bounds = as_int(bins, "histogram", "bins"), range
        if edges < 1:
            raise UsageError(f"histogram: bins must be positive, got {edges}")
    weights = None if weight is None else weight.numpy().reshape(-1)
    if weight is not None and weight.shape != input.shape:
        raise ShapeError(f"histogram: weight must have shape {list(input.shape)}, got {list(weight.shape)}")
    counts, edges = np.histogram(array, edges, bounds, density=bool(density), weights=weights)
    dtype = input.spec.dtype
    return Histogram(*(input.interpreter.constant(a.astype(dtype)) for a in (counts, edges)))
