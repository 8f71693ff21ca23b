"""PyTorch's running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.dtype import as_dtype
from prototorch.eager.operands import accepts_out, cast_to, to_float
from prototorch.eager.registry import tensor_function

__all__ = ["cumprod", "cumsum", "logcumsumexp"]


def _scan(name: str, op: Callable[..., Any], x: Any, dim: Any) -> Any:
    axis = normalize_dim(dim, x.ndim, name)
    if x.ndim:
        return op(x, axis=axis)
    return ops.reshape(op(ops.reshape(x, shape=(1,)), axis=0), shape=())


def _summable(input: Any, dtype: Any) -> Any:
    if dtype is not None:
        return cast_to(input, as_dtype(dtype))
    return input if as_dtype(str(input.dtype)).is_floating_point else cast_to(input, "int64")


@tensor_function(in_place=True)
@accepts_out
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The running sum along a dimension, in ``dtype``; of integers and bool in int64 (torch.cumsum)."""
    return _scan("cumsum", ops.cumsum, _summable(input, dtype), dim)


@tensor_function(in_place=True)
@accepts_out
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The running product along a dimension, in ``dtype``; of integers and bool in int64 (torch.cumprod)."""
    return _scan("cumprod", ops.cumprod, _summable(input, dtype), dim)


@tensor_function
@accepts_out
def logcumsumexp(input: Any, dim: int) -> Any:
    """log(cumsum(exp(x))) along a dimension, without overflow (torch.logcumsumexp)."""
    return _scan("logcumsumexp", ops.logcumsumexp, to_float(input, "logcumsumexp"), dim)
