"""PyTorch's variance, standard deviation and norms."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from prototorch import ops
from prototorch.eager.dtype import as_dtype
from prototorch.eager.functions.reductions import require_elements
from prototorch.eager.operands import accepts_out, cast_to, promote, reduce_dims
from prototorch.eager.registry import tensor_function
from prototorch.errors import UsageError

__all__ = ["dist", "std", "std_mean", "var", "var_mean", "vector_norm"]

#: element types whose squares and powers overflow, or lose their digits: computed in float32
NARROW = ("float16", "bfloat16")


def _variance(name: str, x: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    """The variance and the mean. ``dim`` may be the bool ``unbiased``, as in PyTorch."""
    if str(x.dtype) in NARROW:
        results = _variance(name, cast_to(x, "float32"), dim, unbiased, correction, keepdim)
        return cast_to(results[0], x.dtype), cast_to(results[1], x.dtype)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise UsageError(f"{name}: takes unbiased or correction, not both")
    if not as_dtype(str(x.dtype)).is_floating_point:
        raise UsageError(f"{name}: expected floating-point elements, got {x.dtype}; use x.float()")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = reduce_dims(dim, x.ndim, name)
    n = prod(x.shape[d] for d in dims)
    if n == 0:
        empty = ops.sum(x, axis=dims, keepdims=keepdim) * float("nan")
        return empty, empty
    middle = ops.mean(x, axis=dims, keepdims=True)
    squares = ops.sum(ops.square(x - middle), axis=dims, keepdims=keepdim)
    average = middle if keepdim else ops.reshape(middle, shape=tuple(squares.shape))
    room = n - float(correction)
    return (squares * (1 / room) if room > 0 else squares * math.inf), average


@tensor_function
@accepts_out
def var(input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """The variance: squares of deviations, divided by the number of elements less ``correction`` (default 1; 0 for
    ``unbiased=False``); torch.var."""
    return _variance("var", input, dim, unbiased, correction, keepdim)[0]


@tensor_function
@accepts_out
def std(input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """The standard deviation, the root of `var` (torch.std)."""
    return _root(_variance("std", input, dim, unbiased, correction, keepdim)[0])


@tensor_function
def var_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any]:
    """The variance and the mean (torch.var_mean)."""
    return _variance("var_mean", input, dim, unbiased, correction, keepdim)


@tensor_function
def std_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any]:
    """The standard deviation and the mean (torch.std_mean)."""
    variance, average = _variance("std_mean", input, dim, unbiased, correction, keepdim)
    return _root(variance), average


def _root(x: Any) -> Any:
    """The square root, whose gradient at 0 is 0 instead of an infinity."""
    is_zero = ops.equal(x, ops.zeros_like(x))
    return ops.where(is_zero, x * 0.0, ops.sqrt(ops.where(is_zero, ops.ones_like(x), x)))


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """(sum |x| ** ord) ** (1 / ord) over dimensions (None: all); ord 0 counts elements that are not 0, inf and -inf are
    the largest and the smallest |x| (torch.linalg.vector_norm). The gradient at 0 is 0."""
    x = x if dtype is None else cast_to(x, as_dtype(dtype))
    if not as_dtype(str(x.dtype)).is_floating_point:
        raise UsageError(f"vector_norm: expected floating-point elements, got {x.dtype}")
    if isinstance(ord, bool | str) or not isinstance(ord, int | float):
        raise UsageError(f"vector_norm: ord must be a number, got {ord!r:.40}")
    if str(x.dtype) in NARROW:
        return cast_to(vector_norm(cast_to(x, "float32"), ord, dim, keepdim), x.dtype)
    dims = reduce_dims(dim, x.ndim, "vector_norm")
    options: dict[str, Any] = {"axis": dims, "keepdims": keepdim}
    if ord in (math.inf, -math.inf):
        require_elements("vector_norm", x, dims)
        return (ops.max if ord > 0 else ops.min)(ops.abs(x), **options)
    if ord == 0:
        return ops.sum(ops.abs(ops.sign(x)), **options)
    if ord == 1:
        return ops.sum(ops.abs(x), **options)
    if ord == 2:
        return _root(ops.sum(ops.square(x), **options))
    if ord < 0:
        require_elements("vector_norm", x, dims)
        is_zero = ops.equal(x, ops.zeros_like(x))
        powers = ops.power(ops.where(is_zero, ops.ones_like(x), ops.abs(x)), float(ord))
        root = ops.power(ops.sum(powers, **options), 1.0 / ord)
        return ops.where(ops.any(is_zero, **options), ops.zeros_like(root), root)
    size = ops.abs(x)
    is_zero = ops.equal(size, ops.zeros_like(x))
    powers = ops.where(is_zero, size, ops.power(ops.where(is_zero, ops.ones_like(x), size), float(ord)))
    total = ops.sum(powers, **options)
    none = ops.equal(total, ops.zeros_like(total))
    root = ops.power(ops.where(none, ops.ones_like(total), total), 1.0 / ord)
    return ops.where(none, total, root)


@tensor_function
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of input - other (torch.dist)."""
    a, b = promote("dist", input, other)
    return vector_norm(ops.subtract(a, b), p)
