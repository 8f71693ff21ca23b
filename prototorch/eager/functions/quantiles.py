"""Quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import as_float, normalize_dim
from prototorch.eager.functions.axes import movedim
from prototorch.eager.functions.views import broadcast_to, contiguous, flatten, reshape
from prototorch.eager.operands import accepts_out
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import ShapeError, UsageError

__all__ = ["nanquantile", "quantile"]

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@tensor_function
@accepts_out
def quantile(input: Tensor, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """The q-th quantile of all elements, or along a dimension; NaN where there is a NaN.

    q: a number from 0 to 1, or a vector of them, which gives a new first dimension. interpolation: between the two
    nearest elements, "linear", "lower", "higher", "midpoint" or "nearest".
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@tensor_function
@accepts_out
def nanquantile(
    input: Tensor, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """As `quantile`, of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, skips_nan: bool) -> Tensor:
    if not input.spec.is_float or not input.spec.size:
        raise UsageError(f"{name}: expected floating-point elements, got {input.dtype} {list(input.shape)}")
    if interpolation not in _INTERPOLATIONS:
        raise UsageError(f"{name}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, got {interpolation!r}")
    q = _fractions(name, input, q)
    whole = dim is None or not input.ndim
    axis = 0 if whole else normalize_dim(dim, input.ndim, name)
    rows = (flatten(input) if input.ndim else reshape(input, 1)) if whole else movedim(input, axis, -1)
    rows, _ = ops.sort(rows)
    values = movedim(_interpolate(rows, flatten(q), interpolation, skips_nan), -1, 0)
    rest: tuple[int, ...] = tuple(values.shape[1:])
    if keepdim:
        rest = tuple(1 if whole or k == axis else n for k, n in enumerate(input.shape))
    return reshape(contiguous(values), (*q.shape, *rest))


def _fractions(name: str, input: Tensor, q: Any) -> Tensor:
    """The argument q as a tensor."""
    if not isinstance(q, Tensor):
        q = input.interpreter.constant(np.asarray(as_float(q, name, "q"), input.spec.dtype))
    if q.ndim > 1 or q.spec.dtype != input.spec.dtype:
        raise ShapeError(f"{name}: q must be a number, or a vector of dtype {input.dtype!r}")
    result: Tensor = bounded_values(q, f"{name}: q must be between 0 and 1, got {{}}", 0, 1)
    return result


def _interpolate(rows: Tensor, q: Tensor, interpolation: str, skips_nan: bool) -> Tensor:
    """The quantiles [..., k] of rows [..., n] in ascending order."""
    n, dtype, shape = rows.shape[-1], rows.spec.dtype, (*rows.shape[:-1], q.spec.size)
    is_number = ops.cast(ops.equal(rows, rows), dtype=dtype)
    count = ops.sum(is_number, axis=-1, keepdims=True)
    last = ops.full.apply_like(rows, shape=(1,), value=n - 1, dtype=dtype)
    if skips_nan:
        last = ops.maximum(ops.subtract(count, 1), 0)
    rank = broadcast_to(ops.multiply(q, last), shape)
    if interpolation in ("lower", "higher", "nearest"):
        rank = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}[interpolation](rank)
    below, above = ops.floor(rank), ops.ceil(rank)
    low, high = (ops.take_along_axis(rows, ops.cast(ops.stop_gradient(r), dtype="int64")) for r in (below, above))
    weight = ops.subtract(rank, ops.stop_gradient(below))
    if interpolation == "midpoint":
        weight = ops.full(shape=(), value=0.5, dtype=dtype)
    step = ops.subtract(high, low)
    from_low = ops.add(low, ops.multiply(step, weight))
    from_high = ops.subtract(high, ops.multiply(step, ops.subtract(1, weight)))
    result = ops.where(ops.less(weight, 0.5), from_low, from_high)
    if not skips_nan:
        nan = ops.full(shape=(), value=float("nan"), dtype=dtype)
        result = ops.where(ops.less(count, n), nan, result)
    interpolated: Tensor = result
    return interpolated
