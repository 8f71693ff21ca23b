"""Parts of a dimension written at a vector of indices, and elements written at indices and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.gathering import checked_index, non_negative
from prototorch.eager.functions.getitem import from_zero, write_at
from prototorch.eager.functions.scattering import REDUCE, check_same_dtype, neutral_element, scattered_mean
from prototorch.eager.functions.views import broadcast_shapes, broadcast_to, flatten, reshape
from prototorch.eager.operands import element_of
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import ShapeError, UsageError

__all__ = ["index_put", "masked_fill"]


def _by_index(name: str, input: Tensor, dim: int, index: Any, source: Any, reduce: str) -> Tensor:
    """The input with parts of ``source`` joined with its own at the indices of a dimension."""
    dim, index = normalize_dim(dim, input.ndim, name), checked_index(index, name)
    if index.ndim > 1:
        raise ShapeError(f"{name}: index must be a vector, got shape {list(index.shape)}")
    target, index = (t if t.ndim else reshape(t, 1) for t in (input, index))
    shape = (*target.shape[:dim], index.shape[0], *target.shape[dim + 1 :])
    if isinstance(source, Tensor):
        check_same_dtype(name, input, source)
        source = source if source.ndim else reshape(source, 1)
        if tuple(source.shape) != shape:
            raise ShapeError(f"{name}: source must have shape {list(shape)}, got {list(source.shape)}")
    else:
        source = broadcast_to(_scalar(name, source, input), shape)
    index = non_negative(index, target.shape[dim], dim, name)
    result = ops.index_put(target, source, index, axes=(dim,), reduce=reduce)
    return reshape(result, input.shape) if not input.ndim else result


def _scalar(name: str, value: Any, like: Tensor) -> Tensor:
    """A number, or a tensor of no dimension, as a tensor of the type of another."""
    is_whole = not like.spec.is_float and like.spec.dtype != "bool"
    if is_whole and isinstance(value, float | np.floating) and not float(value).is_integer():
        raise UsageError(f"{name}: value {value!r} is no element of dtype {like.dtype!r}")
    element: Tensor = element_of(value, like, name)
    return element


@tensor_function(in_place=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """The input with ``alpha`` times the parts of ``source`` added to its parts at the indices; duplicates add."""
    if not isinstance(source, Tensor):
        raise UsageError(f"index_add: source must be a tensor, got {source!r:.60}")
    source = source if alpha == 1 else ops.multiply(source, _scalar("index_add", alpha, source))
    return _by_index("index_add", input, dim, index, source, "sum")


@tensor_function(in_place=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """The input with the parts of ``source`` in place of its parts at the indices; of several the last one remains."""
    return _by_index("index_copy", input, dim, index, source, "set")


@tensor_function(in_place=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """The input with one number in its parts at the indices; negative ones count from the end."""
    dim, index = normalize_dim(dim, input.ndim, "index_fill"), checked_index(index, "index_fill")
    n = input.shape[dim] if input.ndim else 1
    fill_value = _scalar("index_fill", value, input)
    index = from_zero(index if index.ndim else reshape(index, 1), n, dim)
    marks = ops.full.apply_like(input, shape=(n,), value=False, dtype="bool")
    true = ops.full.apply_like(input, shape=(index.spec.size,), value=True, dtype="bool")
    mask = ops.index_put(marks, true, index, axes=(0,), reduce="set")
    mask = reshape(mask, (n, *(1,) * (input.ndim - dim - 1)) if input.ndim else ())
    result: Tensor = ops.where(mask, fill_value, input)
    return result


@tensor_function(in_place=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The input with the parts of ``source`` joined with its parts at the indices: "prod", "mean", "amax" or "amin".
    include_self: whether the elements that are there count."""
    if reduce not in REDUCE or reduce == "sum":
        raise UsageError(f"index_reduce: reduce must be one of prod, mean, amax, amin, got {reduce!r}")
    if not include_self:
        neutral = neutral_element(reduce, input.spec.dtype)
        input = _by_index("index_reduce", input, dim, index, neutral, "set")
    total = _by_index("index_reduce", input, dim, index, source, REDUCE[reduce])
    if reduce != "mean":
        return total
    counts = ops.full.apply_like(input, shape=tuple(input.shape), value=1, dtype=input.spec.dtype)
    if not include_self:
        counts = _by_index("index_reduce", counts, dim, index, 0, "set")
    return scattered_mean(total, _by_index("index_reduce", counts, dim, index, 1, "sum"))


@tensor_function(in_place=True)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """As ``input[indices] = values`` on a copy; with ``accumulate`` the values are added. indices: a sequence of
    tensors of integers or masks, or None for a dimension that is not indexed."""
    if not isinstance(indices, tuple | list) or any(i is not None and not isinstance(i, Tensor) for i in indices):
        raise UsageError("index_put: indices must be a sequence of tensors")
    check_same_dtype("index_put", input, values)
    pairs, axis = [], 0
    for index in indices:
        if index is not None:
            pairs.append((axis, index))
        axis += index.ndim if index is not None and index.spec.dtype == "bool" else 1
    if axis > input.ndim:
        raise ShapeError(f"index_put: {axis} indices for a tensor of {input.ndim} dimensions")
    return write_at(input, pairs, values, "sum" if accumulate else "set", "index_put")


@tensor_function(in_place=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The input with the elements of ``source`` at indices of all its elements in their order; with ``accumulate`` they
    are added."""
    index = checked_index(index, "put")
    check_same_dtype("put", input, source)
    if index.spec.size != source.spec.size:
        raise ShapeError(f"put: {index.spec.size} indices for {source.spec.size} elements")
    at = from_zero(flatten(index), input.spec.size, 0)
    result = ops.index_put(flatten(input), flatten(source), at, axes=(0,), reduce="sum" if accumulate else "set")
    return reshape(result, input.shape)


def _mask(name: str, mask: Any) -> Tensor:
    if not isinstance(mask, Tensor) or mask.spec.dtype != "bool":
        raise UsageError(f"{name}: mask must be a tensor of dtype bool")
    return mask


@tensor_function(in_place=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """The input with one number where the mask is true; both broadcast."""
    result: Tensor = ops.where(_mask("masked_fill", mask), _scalar("masked_fill", value, input), input)
    return result


@tensor_function(in_place=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The input with the elements of ``source``, in their order, where the mask is true; both broadcast."""
    check_same_dtype("masked_scatter", input, source)
    shape = broadcast_shapes(input.shape, _mask("masked_scatter", mask).shape)
    mask = broadcast_to(mask, shape)
    if mask.interpreter.has_memory and mask.device.type == "cpu" and int(mask.array.sum()) > source.spec.size:
        raise ShapeError(
            f"masked_scatter: the mask is true at more positions than source has elements: "
            f"{int(mask.array.sum())} and {source.spec.size}"
        )
    if not source.spec.size:
        return input.interpreter.clone(broadcast_to(input, shape))
    count = ops.cumsum(ops.cast(flatten(mask), dtype="int64"), axis=0)
    words = f"masked_scatter: the mask is true at more positions than source has elements: {{}} and {source.spec.size}"
    count = bounded_values(count, words, high=source.spec.size)
    elements = ops.take(flatten(source), ops.maximum(ops.subtract(count, 1), 0))
    result: Tensor = ops.where(mask, reshape(elements, shape), input)
    return result
