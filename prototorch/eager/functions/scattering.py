"""Elements written at tensors of indices along a dimension."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.gathering import checked_index, index_shape_fits, non_negative
from prototorch.eager.functions.splitting import part_of
from prototorch.eager.functions.views import broadcast_to, flatten, reshape
from prototorch.eager.operands import element_of
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["REDUCE", "check_same_dtype", "scatter", "scatter_add", "scatter_reduce", "scattered_mean"]

#: PyTorch's names of reductions and those of `ops.index_put`
REDUCE = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "mean": "sum"}
_OLD_NAMES = {"add": "sum", "multiply": "prod"}


def check_same_dtype(name: str, input: Tensor, source: Tensor) -> None:
    """Raise UsageError where the dtypes differ."""
    if input.spec.dtype != source.spec.dtype:
        raise UsageError(
            f"{name}: expected two tensors of one dtype, got {input.dtype!r} and {source.dtype!r}; convert one by "
            "to(dtype)"
        )


def flat_positions(index: Tensor, dim: int, shape: tuple[int, ...]) -> Tensor:
    """The positions among all elements of a tensor of this shape that an index along a dimension stands for."""
    steps = [prod(shape[k + 1 :]) for k in range(len(shape))]
    first = np.zeros((1,) * len(shape), np.int64)
    for k, n in enumerate(index.shape):
        if k != dim:
            first = (
                first + np.arange(n, dtype=np.int64).reshape([n if a == k else 1 for a in range(len(shape))]) * steps[k]
            )
    wide = index if index.spec.dtype == "int64" else ops.cast(index, dtype="int64")
    result: Tensor = ops.add(ops.multiply(wide, steps[dim]), first)
    return result


def _scatter(name: str, input: Tensor, dim: int, index: Any, src: Any, reduce: str = "set") -> Tensor:
    """The input with the elements of ``src`` joined with its own at the index."""
    dim, index = normalize_dim(dim, input.ndim, name), checked_index(index, name)
    index_shape_fits(name, index, input, "the input", dim)
    if isinstance(src, Tensor):
        check_same_dtype(name, input, src)
        index_shape_fits(name, index, src, "src")
    if not index.spec.size:
        copy: Tensor = input.interpreter.clone(input)
        return copy
    shape = tuple(input.shape)
    source, index = (t if t.ndim else reshape(t, 1) for t in (input, index))
    index = non_negative(index, source.shape[dim], dim, name)
    if isinstance(src, Tensor):
        src = src if src.ndim else reshape(src, 1)
        for axis, n in enumerate(index.shape):
            src = part_of(src, axis, 0, n) if n != src.shape[axis] else src
    else:
        src = broadcast_to(_number(name, src, input), index.shape)
    at = flat_positions(index, dim, tuple(source.shape))
    out = ops.index_put(flatten(source), flatten(src), flatten(at), axes=(0,), reduce=reduce)
    return reshape(out, shape)


def _number(name: str, value: Any, like: Tensor) -> Tensor:
    if isinstance(value, bool | int | float | np.generic):
        element: Tensor = element_of(value, like, name)
        return element
    raise UsageError(f"{name}: expected a tensor or a number, got {value!r:.60}")


@tensor_function(in_place=True)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """The input with the elements of ``src``, or one number, written where the index says along a dimension:
    ``out[index[i, j], j] = src[i, j]``. Of several at one index the last one remains; reduce: "add" or "multiply" joins
    them with the element there."""
    if (src is None) == (value is None):
        raise UsageError("scatter: expected src, a tensor, or value, a number")
    if reduce is not None and reduce not in _OLD_NAMES:
        raise UsageError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}; see scatter_reduce")
    how = "set" if reduce is None else _OLD_NAMES[reduce]
    return _scatter("scatter", input, dim, index, value if src is None else src, how)


@tensor_function(in_place=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """The input with the elements of ``src`` added where the index says along a dimension."""
    if not isinstance(src, Tensor):
        raise UsageError(f"scatter_add: src must be a tensor, got {src!r:.60}")
    return _scatter("scatter_add", input, dim, index, src, "sum")


@tensor_function(in_place=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The input with the elements of ``src`` joined by their index along a dimension: reduce is "sum", "prod", "mean",
    "amax" or "amin". include_self: whether the element that is there counts."""
    if reduce not in REDUCE:
        raise UsageError(f"scatter_reduce: reduce must be one of {', '.join(REDUCE)}, got {reduce!r}")
    if not isinstance(src, Tensor):
        raise UsageError(f"scatter_reduce: src must be a tensor, got {src!r:.60}")
    if not include_self:
        input = _scatter("scatter_reduce", input, dim, index, neutral_element(reduce, input.spec.dtype))
    total = _scatter("scatter_reduce", input, dim, index, src, REDUCE[reduce])
    if reduce != "mean":
        return total
    ones = ops.full.apply_like(src, shape=tuple(src.shape), value=1, dtype=input.spec.dtype)
    counts = ops.full.apply_like(input, shape=tuple(input.shape), value=1, dtype=input.spec.dtype)
    if not include_self:
        counts = _scatter("scatter_reduce", counts, dim, index, 0)
    return scattered_mean(total, _scatter("scatter_reduce", counts, dim, index, ones, "sum"))


def scattered_mean(total: Tensor, counts: Tensor) -> Tensor:
    """Sums divided by their counts, of which 0 counts as 1; integers are rounded down."""
    counts = ops.maximum(counts, 1)
    result: Tensor = ops.divide(total, counts) if total.spec.is_float else ops.floor_divide(total, counts)
    return result


def neutral_element(reduce: str, dtype: str) -> Any:
    """The number that a reduction with others leaves as they are."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod" or dtype == "bool":
        return reduce in ("prod", "amin")
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return -np.inf if reduce == "amax" else np.inf
    limits = np.iinfo(dtype)
    return int(limits.min if reduce == "amax" else limits.max)
