"""Elements looked up by tensors of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.axes import transpose
from prototorch.eager.functions.getitem import from_zero, mask_indices, read_at
from prototorch.eager.functions.splitting import part_of
from prototorch.eager.functions.views import broadcast_shapes, broadcast_to, contiguous, flatten, reshape
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.eager.value_bounds import bounded
from prototorch.errors import ShapeError, UsageError

__all__ = ["checked_index", "gather", "index_select", "index_shape_fits", "non_negative"]


def checked_index(index: Any, name: str) -> Tensor:
    """An argument that is a tensor of integers. Raises UsageError for another one."""
    if not isinstance(index, Tensor) or index.spec.is_float or index.spec.dtype == "bool":
        got = index.dtype if isinstance(index, Tensor) else f"a {type(index).__name__}"
        raise UsageError(f"{name}: index must be a tensor of integers, got {got}")
    return index


def non_negative(index: Tensor, size: int, dim: int, name: str) -> Tensor:
    """Indices that must be between 0 and the size; PyTorch's functions take no negative ones."""
    checked: Tensor = bounded(index, size, f"{name}: index {{}} is out of range for dim {dim} of size {size}")
    return checked


def index_shape_fits(name: str, index: Tensor, other: Tensor, what: str, dim: int | None = None) -> None:
    """Raise ShapeError where the index has other dimensions, or is larger than a tensor anywhere but along ``dim``."""
    if max(index.ndim, 1) != max(other.ndim, 1):
        raise ShapeError(f"{name}: the index has {index.ndim} dimensions, but {what} has {other.ndim}")
    pairs = zip(index.shape, other.shape, strict=False)
    if index.spec.size and any(a > b for axis, (a, b) in enumerate(pairs) if axis != dim):
        but = "" if dim is None else f", but in dim {dim}"
        raise ShapeError(
            f"{name}: the index, of shape {list(index.shape)}, exceeds {what}, of shape {list(other.shape)}{but}"
        )


@tensor_function
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The element ``input[..., index[..., i, ...], ...]`` along a dimension for each element of the index, which may be
    smaller than the input in the other dimensions. The result has the index's shape."""
    if sparse_grad:
        raise UsageError("gather: sparse_grad is not supported; gradients are dense")
    dim, index = normalize_dim(dim, input.ndim, "gather"), checked_index(index, "gather")
    if index.spec.size:
        index_shape_fits("gather", index, input, "the input", dim)
    else:
        return reshape(part_of(flatten(input), 0, 0, 0), index.shape)
    shape = index.shape
    if not input.ndim or not index.ndim:
        input, index = (t if t.ndim else reshape(t, 1) for t in (input, index))
    index = non_negative(index, input.shape[dim], dim, "gather")
    for axis, n in enumerate(index.shape):
        if axis != dim and n != input.shape[axis]:
            input = part_of(input, axis, 0, n)
    values = ops.take_along_axis(transpose(input, dim, -1), transpose(index, dim, -1))
    return reshape(contiguous(transpose(values, dim, -1)), shape)


@tensor_function
def take_along_dim(input: Tensor, indices: Tensor, dim: Any = None) -> Tensor:
    """The elements at indices along a dimension; input and indices broadcast in the others, and negative indices count
    from the end. Without ``dim``, the indices are of all elements in their order."""
    indices = checked_index(indices, "take_along_dim")
    if dim is None:
        return gather(flatten(input), 0, from_zero(flatten(indices), input.spec.size, 0))
    if indices.ndim != input.ndim:
        raise ShapeError(f"take_along_dim: the indices have {indices.ndim} dimensions, but the input has {input.ndim}")
    dim = normalize_dim(dim, input.ndim, "take_along_dim")
    wide = list(
        broadcast_shapes(
            [n if k != dim else 1 for k, n in enumerate(input.shape)],
            [n if k != dim else 1 for k, n in enumerate(indices.shape)],
        )
    )
    sizes = ([*wide[:dim], t.shape[dim], *wide[dim + 1 :]] for t in (input, indices))
    input, indices = (broadcast_to(t, s) for t, s in zip((input, indices), sizes, strict=True))
    return gather(input, dim, from_zero(indices, input.shape[dim], dim))


@tensor_function
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The parts of a dimension at the elements of a vector of indices, in their order."""
    dim, index = normalize_dim(dim, input.ndim, "index_select"), checked_index(index, "index_select")
    if index.ndim > 1:
        raise ShapeError(f"index_select: index must be a vector, got shape {list(index.shape)}")
    source, index = (t if t.ndim else reshape(t, 1) for t in (input, index))
    index = non_negative(index, source.shape[dim], dim, "index_select")
    result: Tensor = ops.advanced_index(source, index, axes=(dim,))
    return result if input.ndim else reshape(result, ())


@tensor_function
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at indices of all elements in their order; negative ones count from the end. The result has the
    index's shape."""
    index = from_zero(checked_index(index, "take"), input.spec.size, 0)
    result: Tensor = ops.take(flatten(input), index)
    return result


@tensor_function
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements at which the mask is true, as a vector; input and mask broadcast. It reads the mask's elements."""
    if not isinstance(mask, Tensor) or mask.spec.dtype != "bool":
        raise UsageError("masked_select: mask must be a tensor of dtype bool")
    shape = broadcast_shapes(input.shape, mask.shape)
    return (
        read_at(broadcast_to(input, shape), [(0, broadcast_to(mask, shape))])
        if shape
        else read_at(reshape(input, 1), [(0, reshape(mask, 1))])
    )


@tensor_function
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: rows [n, dims] of int64; with ``as_tuple`` one vector for each
    dimension. It reads the elements."""
    source = input if input.ndim or not as_tuple else reshape(input, 1)
    if as_tuple:
        return tuple(map(contiguous, mask_indices(source)))
    rows = np.argwhere(source.numpy()).astype(np.int64)
    result: Tensor = source.interpreter.constant(rows)
    return result


@tensor_function
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not 0, as rows. It reads the elements."""
    rows: Tensor = nonzero(input)
    return rows
