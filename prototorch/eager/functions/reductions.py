"""PyTorch's reductions: sums, products, means, norms. ``dim`` is a dimension, a tuple of them, or None for all;
``keepdim`` retains reduced ones with size 1."""

from __future__ import annotations

from math import prod as product
from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.dtype import as_dtype, get_default_dtype
from prototorch.eager.operands import accepts_out, cast_to, reduce_dims
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError

__all__ = ["count_nonzero", "logsumexp", "mean", "nanmean", "nansum", "prod", "sum"]


def _is_float(x: Any) -> bool:
    return as_dtype(str(x.dtype)).is_floating_point


def _summable(input: Any, dtype: Any) -> Any:
    """The tensor in the element type of its sum: that asked for, its own, or int64 for integers and bool."""
    if dtype is not None:
        return cast_to(input, as_dtype(dtype))
    return input if _is_float(input) else cast_to(input, "int64")


@tensor_function
@accepts_out
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum, in ``dtype``; of integers and bool in int64 (torch.sum)."""
    return ops.sum(_summable(input, dtype), axis=reduce_dims(dim, input.ndim, "sum"), keepdims=keepdim)


@tensor_function
@accepts_out
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """As `sum`, where NaN counts as 0 (torch.nansum)."""
    x = _summable(input, dtype)
    return sum(ops.where(ops.isnan(x), ops.zeros_like(x), x), dim, keepdim)


@tensor_function
@accepts_out
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean, in ``dtype``; NaN of no elements (torch.mean). Raises UsageError for integers without a ``dtype``."""
    x = input if dtype is None else cast_to(input, as_dtype(dtype))
    if not _is_float(x):
        raise UsageError(f"mean: expected floating-point elements, got {x.dtype}; use mean(dtype=...) or x.float()")
    dims = reduce_dims(dim, x.ndim, "mean")
    if product(x.shape[d] for d in dims):
        return ops.mean(x, axis=dims, keepdims=keepdim)
    return ops.sum(x, axis=dims, keepdims=keepdim) * float("nan")


@tensor_function
@accepts_out
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """As `mean` of the elements that are not NaN (torch.nanmean)."""
    x = input if dtype is None else cast_to(input, as_dtype(dtype))
    if not _is_float(x):
        raise UsageError(f"nanmean: expected floating-point elements, got {x.dtype}")
    counts = sum(ops.cast(ops.logical_not(ops.isnan(x)), dtype=str(x.dtype)), dim, keepdim)
    return nansum(x, dim, keepdim) / counts


@tensor_function
@accepts_out
def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product, in ``dtype``; of integers and bool in int64; its gradient is exact where factors are 0
    (torch.prod)."""
    x = _summable(input, dtype)
    if not _is_float(x) or not getattr(x, "requires_grad", True):
        dims = reduce_dims(dim, x.ndim, "prod") if dim is None else (normalize_dim(dim, x.ndim, "prod"),)
        return ops.prod(x, axis=dims if x.ndim else (), keepdims=keepdim)
    if dim is None:
        y = _product(ops.reshape(x, shape=(-1,) if product(x.shape) else (0,)), 0)
        return ops.reshape(y, shape=(1,) * x.ndim if keepdim else ())
    axis = normalize_dim(dim, x.ndim, "prod")
    y = _product(x if x.ndim else ops.reshape(x, shape=(1,)), axis)
    return y if keepdim and x.ndim else ops.reshape(y, shape=tuple(n for i, n in enumerate(x.shape) if i != axis))


def _product(x: Any, axis: int) -> Any:
    """The product along an axis, which remains with size 1: the last of the running products."""
    n = x.shape[axis]
    if n == 0:
        return ops.prod(x, axis=axis, keepdims=True)
    return ops.cumprod(x, axis=axis)[(slice(None),) * axis + (slice(n - 1, n),)]


@tensor_function
@accepts_out
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(x))), without overflow (torch.logsumexp)."""
    x = input if _is_float(input) else cast_to(input, get_default_dtype())
    dims = reduce_dims(dim, x.ndim, "logsumexp")
    if not product(x.shape[d] for d in dims):
        return ops.log(ops.sum(ops.exp(x), axis=dims, keepdims=keepdim))
    return ops.logsumexp(x, axis=dims, keepdims=keepdim)


@tensor_function
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """How many elements are not 0, int64 (torch.count_nonzero)."""
    is_counted = cast_to(input, "bool")
    return ops.sum(ops.cast(is_counted, dtype="int64"), axis=reduce_dims(dim, input.ndim, "count_nonzero"))


@tensor_function(name="all")
@accepts_out
def all_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements are True, or not 0; uint8 for uint8 elements (torch.all)."""
    return _bool_reduction("all", ops.all, input, dim, keepdim)


@tensor_function(name="any")
@accepts_out
def any_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether one element is True, or not 0; uint8 for uint8 elements (torch.any)."""
    return _bool_reduction("any", ops.any, input, dim, keepdim)


def _bool_reduction(name: str, op: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    y = op(cast_to(input, "bool"), axis=reduce_dims(dim, input.ndim, name), keepdims=keepdim)
    return cast_to(y, "uint8") if str(input.dtype) == "uint8" else y


@tensor_function
@accepts_out
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along a dimension (torch.softmax). Raises UsageError for integers without a ``dtype``."""
    return _softmax("softmax", ops.softmax, input, dim, dtype)


@tensor_function
@accepts_out
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """log(softmax(x)) along a dimension, without overflow (torch.log_softmax)."""
    return _softmax("log_softmax", ops.log_softmax, input, dim, dtype)


def _softmax(name: str, op: Any, input: Any, dim: int, dtype: Any) -> Any:
    x = input if dtype is None else cast_to(input, as_dtype(dtype))
    if not _is_float(x):
        raise UsageError(f"{name}: expected floating-point elements, got {x.dtype}; use dtype= or x.float()")
    axis = normalize_dim(dim, x.ndim, name)
    if 0 in tuple(x.shape):
        return x * 1
    return op(x, axis=axis) if x.ndim else ops.reshape(op(ops.reshape(x, shape=(1,)), axis=0), shape=())


def require_elements(name: str, x: Any, dims: tuple[int, ...]) -> None:
    """Raises ShapeError where a dimension that is reduced has no elements."""
    if not product(x.shape[d] for d in dims):
        raise ShapeError(f"{name}: a tensor of shape {list(x.shape)} has no elements along the reduced dimensions")
