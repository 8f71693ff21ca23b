"""Sorted elements, the k largest, medians and other order statistics."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch import ops
from prototorch.eager.dims import as_int, normalize_dim
from prototorch.eager.functions.axes import transpose
from prototorch.eager.functions.gathering import gather
from prototorch.eager.functions.splitting import part_of, select
from prototorch.eager.functions.views import contiguous, flatten, reshape, unsqueeze
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import RangeError, ShapeError

__all__ = ["ValuesIndices", "sort", "sorted_along", "topk"]


class ValuesIndices(NamedTuple):
    """Elements, and the indices (int64) along a dimension that they come from."""

    values: Tensor
    indices: Tensor


def along_last(op: Any, input: Tensor, dim: int, **attrs: Any) -> ValuesIndices:
    """An op of two results that works along the last dimension, along another one. ``dim`` is from 0."""
    values, indices = op(transpose(input, dim, -1), **attrs)
    return ValuesIndices(*(contiguous(transpose(t, dim, -1)) for t in (values, indices)))


def sorted_along(input: Tensor, dim: int, descending: bool = False) -> ValuesIndices:
    """The elements in order along a dimension from 0; a scalar is its own order."""
    if not input.ndim:
        return ValuesIndices(*(reshape(t, ()) for t in along_last(ops.sort, reshape(input, 1), 0)))
    return along_last(ops.sort, input, dim, descending=descending)


@tensor_function
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> ValuesIndices:
    """The elements in order along a dimension, and the indices they come from: ``values, indices``. Equal elements keep
    their order, whatever ``stable`` says; NaN counts as the largest."""
    return sorted_along(input, normalize_dim(dim, input.ndim, "sort"), bool(descending))


@tensor_function
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Tensor:
    """The indices that sort along a dimension (see `sort`)."""
    return sorted_along(input, normalize_dim(dim, input.ndim, "argsort"), bool(descending)).indices


@tensor_function
def msort(input: Tensor) -> Tensor:
    """The elements in ascending order along the first dimension."""
    return sorted_along(input, 0).values


@tensor_function
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest elements along a dimension (or smallest), in order, and their indices: ``values, indices``. The
    result is in order whatever ``sorted`` says."""
    dim, k = normalize_dim(dim, input.ndim, "topk"), as_int(k, "topk", "k")
    n = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= n:
        raise ShapeError(f"topk: k must be between 0 and {n}, the size of dim {dim}, got {k}")
    if not input.ndim:
        return (
            sorted_along(input, 0)
            if k
            else ValuesIndices(*(part_of(reshape(t, 1), 0, 0, 0) for t in sorted_along(input, 0)))
        )
    order = along_last(ops.sort, input, dim, descending=bool(largest))
    return ValuesIndices(*(contiguous(part_of(t, dim, 0, k)) for t in order))


def _pick(order: ValuesIndices, dim: int, position: int, keepdim: bool) -> ValuesIndices:
    """The element at a position of the order along a dimension, and its index."""
    if not order.values.ndim:
        return order
    parts = [contiguous(select(t, dim, position)) for t in order]
    return ValuesIndices(*(unsqueeze(t, dim) if keepdim else t for t in parts))


def _size_of(input: Tensor, dim: int, name: str) -> int:
    n = input.shape[dim] if input.ndim else 1
    if not n:
        raise RangeError(f"{name}: dim {dim} of {list(input.shape)} has no elements")
    return n


@tensor_function
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along a dimension, counted from 1, and its index: ``values, indices``."""
    dim, k = normalize_dim(dim, input.ndim, "kthvalue"), as_int(k, "kthvalue", "k")
    n = _size_of(input, dim, "kthvalue")
    if not 1 <= k <= n:
        raise ShapeError(f"kthvalue: k must be between 1 and {n}, the size of dim {dim}, got {k}")
    return _pick(sorted_along(input, dim), dim, k - 1, keepdim)


def evenly(input: Tensor, value: Tensor) -> Tensor:
    """A value that occurs among the elements, as a function of all elements equal to it: they share its gradient."""
    if not input.requires_grad:
        return value
    value, fixed = ops.stop_gradient(value), ops.stop_gradient(input)
    is_it = ops.cast(ops.equal(fixed, value), dtype=input.spec.dtype)
    count = ops.maximum(ops.sum(is_it), 1)
    change = ops.where(ops.equal(fixed, value), ops.subtract(input, fixed), ops.zeros_like(input))
    result: Tensor = ops.add(value, ops.divide(ops.sum(change), count))
    return result


def _nan_like(value: Tensor) -> Tensor:
    nan: Tensor = ops.full(shape=(), value=float("nan"), dtype=value.spec.dtype)
    return nan


@tensor_function
def median(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The median, of two middle elements the smaller one; NaN where there is a NaN. With ``dim`` along a dimension,
    with its index: ``values, indices``."""
    if dim is None:
        return _median_of_all(input, False)
    dim = normalize_dim(dim, input.ndim, "median")
    n = _size_of(input, dim, "median")
    order = sorted_along(input, dim)
    middle = _pick(order, dim, (n - 1) // 2, keepdim)
    if not input.spec.is_float or not input.ndim:
        return middle
    last = _pick(order, dim, n - 1, keepdim)  # a NaN, if there is one, is the largest
    has_nan = ops.not_equal(last.values, last.values)
    first_nan = _first_nan(input, dim, keepdim)
    return ValuesIndices(ops.where(has_nan, last.values, middle.values), ops.where(has_nan, first_nan, middle.indices))


def _first_nan(input: Tensor, dim: int, keepdim: bool) -> Tensor:
    is_nan = ops.cast(ops.not_equal(input, input), dtype="float32")
    index = ops.cast(ops.argmax(is_nan, axis=dim), dtype="int64")
    return unsqueeze(index, dim) if keepdim else index


@tensor_function
def nanmedian(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """As `median`, of the elements that are not NaN."""
    if dim is None:
        return _median_of_all(input, True)
    dim = normalize_dim(dim, input.ndim, "nanmedian")
    n = _size_of(input, dim, "nanmedian")
    if not input.spec.is_float or not input.ndim:
        return _pick(sorted_along(input, dim), dim, (n - 1) // 2, keepdim)
    order = sorted_along(input, dim)
    count = ops.sum(ops.cast(ops.equal(input, input), dtype="int64"), axis=dim, keepdims=True)
    middle = ops.maximum(ops.floor_divide(ops.subtract(count, 1), 2), 0)
    parts = (gather(t, dim, middle) for t in order)
    return ValuesIndices(*(t if keepdim else reshape(t, (*t.shape[:dim], *t.shape[dim + 1 :])) for t in parts))


def _median_of_all(input: Tensor, without_nan: bool) -> Tensor:
    flat = flatten(input) if input.ndim else reshape(input, 1)
    if not flat.spec.size:
        return _nan_like(input) if input.spec.is_float else ops.full(shape=(), value=0, dtype=input.spec.dtype)
    median_value = (nanmedian if without_nan else median)(flat, 0).values
    return evenly(flat, median_value)


@tensor_function
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along a dimension, the smallest of equally frequent ones, and the index where it occurs
    last: ``values, indices``."""
    dim = normalize_dim(dim, input.ndim, "mode")
    _size_of(input, dim, "mode")
    if not input.ndim:
        return sorted_along(input, 0)
    order = sorted_along(input, dim)
    values = transpose(order.values, dim, -1)
    counts = ops.subtract(ops.searchsorted(values, values, side="right"), ops.searchsorted(values, values))
    first = ops.cast(ops.argmax(counts, axis=values.ndim - 1), dtype="int64")
    length = ops.take_along_axis(counts, unsqueeze(first, -1))
    last = transpose(ops.subtract(ops.add(unsqueeze(first, -1), length), 1), dim, -1)
    parts = (gather(t, dim, last) for t in order)
    return ValuesIndices(*(t if keepdim else reshape(t, (*t.shape[:dim], *t.shape[dim + 1 :])) for t in parts))


def _running(name: str, op: Any, input: Tensor, dim: Any) -> ValuesIndices:
    dim = normalize_dim(dim, input.ndim, name)
    if not input.ndim:
        return sorted_along(input, 0)
    return along_last(op, input, dim)


@tensor_function
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """The largest element up to each one along a dimension, and its index, the last of equal ones."""
    return _running("cummax", ops.cummax, input, dim)


@tensor_function
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """The smallest element up to each one along a dimension, and its index, the last of equal ones."""
    return _running("cummin", ops.cummin, input, dim)
