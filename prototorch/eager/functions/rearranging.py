"""Elements in another order, repeated, and differences of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import as_int, as_ints, as_shape, dim_numbers, given_ints, normalize_dim
from prototorch.eager.functions.axes import transpose
from prototorch.eager.functions.gathering import index_select
from prototorch.eager.functions.joining import cat
from prototorch.eager.functions.splitting import part_of
from prototorch.eager.functions.views import broadcast_to, contiguous, flatten, reshape
from prototorch.eager.operands import accepts_out
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import RangeError, ShapeError, UsageError

__all__ = ["diff", "flip", "repeat", "repeat_interleave", "roll", "rot90", "tile"]


@tensor_function
def flip(input: Tensor, *numbers: Any, dims: Any = None) -> Tensor:
    """The elements in reverse order along dimensions."""
    axes = dim_numbers(given_ints(numbers, dims, "flip", "a dim"), input.ndim, "flip")
    result: Tensor = ops.flip(input, axis=axes) if axes and input.ndim else input.interpreter.clone(input)
    return result


@tensor_function
def fliplr(input: Tensor) -> Tensor:
    """The elements in reverse order along the second dimension."""
    if input.ndim < 2:
        raise ShapeError(f"fliplr: expected at least 2 dimensions, got {input.ndim}")
    return flip(input, 1)


@tensor_function
def flipud(input: Tensor) -> Tensor:
    """The elements in reverse order along the first dimension."""
    if not input.ndim:
        raise ShapeError("flipud: expected at least 1 dimension, got a scalar")
    return flip(input, 0)


@tensor_function
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements moved along dimensions by ``shifts`` positions; those that leave at one end come in at the other.
    Without ``dims``, along all elements in their order."""
    by = (
        as_ints((tuple(shifts),), "roll", "a shift")
        if isinstance(shifts, tuple | list)
        else (as_int(shifts, "roll", "shifts"),)
    )
    along = () if dims is None else tuple(dims) if isinstance(dims, tuple | list) else (dims,)
    if not along:
        if len(by) != 1:
            raise ShapeError(f"roll: {len(by)} shifts, but no dims")
        return reshape(roll(flatten(input), by[0], 0), input.shape)
    if len(along) != len(by):
        raise ShapeError(f"roll: {len(by)} shifts, but {len(along)} dims")
    out = input
    for shift, dim in zip(by, along, strict=True):
        if not input.ndim:
            raise RangeError("roll: a scalar has no dims")
        axis = normalize_dim(dim, input.ndim, "roll")
        n = out.shape[axis]
        if n and shift % n:
            split_at = n - shift % n
            out = ops.concat(part_of(out, axis, split_at, n), part_of(out, axis, 0, split_at), axis=axis)
    copy: Tensor = input.interpreter.clone(input) if out is input else out
    return copy


@tensor_function
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The elements turned ``k`` times by 90 degrees in the plane of two dimensions, from the first to the second."""
    axes = dim_numbers(tuple(dims), input.ndim, "rot90")
    if len(axes) != 2:
        raise ShapeError(f"rot90: expected two dims, got {list(axes)}")
    times = as_int(k, "rot90", "k") % 4
    if times == 0:
        copy: Tensor = input.interpreter.clone(input)
        return copy
    if times == 2:
        return flip(input, *axes)
    result = transpose(flip(input, axes[1]), *axes) if times == 1 else flip(transpose(input, *axes), axes[1])
    return contiguous(result)


@tensor_method
def repeat(self: Tensor, *times: Any, repeats: Any = None) -> Tensor:
    """The tensor repeated along each dimension, with new dimensions in front where there are more numbers."""
    counts = as_shape(times if repeats is None else (repeats,), "repeat")
    if len(counts) < self.ndim:
        raise ShapeError(f"repeat: {len(counts)} numbers for a tensor of {self.ndim} dimensions")
    shape = (*(1,) * (len(counts) - self.ndim), *self.shape)
    pairs = tuple(n for both in zip((1,) * len(counts), shape, strict=True) for n in both)
    wide = tuple(n for both in zip(counts, shape, strict=True) for n in both)
    result = reshape(broadcast_to(reshape(self, pairs), wide), tuple(k * n for k, n in zip(counts, shape, strict=True)))
    return result.clone() if result._base is not None else result


@tensor_function
def tile(input: Tensor, *times: Any, dims: Any = None) -> Tensor:
    """As `repeat`; fewer numbers are for the last dimensions."""
    counts = as_shape(times if dims is None else (dims,), "tile")
    return repeat(input, (*(1,) * (input.ndim - len(counts)), *counts))


@tensor_function
def repeat_interleave(input: Tensor, repeats: Any = None, dim: Any = None, *, output_size: Any = None) -> Tensor:
    """Each element along a dimension repeated next to itself: ``repeats`` times, or as often as a vector says for each.
    Without ``dim``, of all elements in their order. Of a vector of integers alone, the index k as often as element k
    says."""
    if repeats is None:
        return repeat_interleave(input.new_tensor(np.arange(input.spec.size)), input, 0, output_size=output_size)
    source = flatten(input) if dim is None or not input.ndim else input
    axis = normalize_dim(0 if dim is None else dim, source.ndim, "repeat_interleave")
    n = source.shape[axis]
    if isinstance(repeats, Tensor) and repeats.spec.size != 1:
        if repeats.ndim != 1 or repeats.spec.is_float or repeats.spec.dtype == "bool" or repeats.spec.size != n:
            raise ShapeError(
                f"repeat_interleave: repeats must be a vector of {n} integers, got {repeats.dtype} "
                f"{list(repeats.shape)}"
            )
        counts = repeats.numpy()
    else:
        counts = np.full(
            n, as_int(repeats.item() if isinstance(repeats, Tensor) else repeats, "repeat_interleave", "repeats")
        )
    if counts.size and counts.min() < 0:
        raise UsageError("repeat_interleave: repeats must not be negative")
    if output_size is not None and int(output_size) != int(counts.sum()):
        raise UsageError(f"repeat_interleave: output_size is {output_size}, but repeats add up to {int(counts.sum())}")
    index = source.interpreter.constant(np.repeat(np.arange(n, dtype=np.int64), counts))
    return index_select(source, axis, index)


@tensor_function
@accepts_out
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along a dimension, taken ``n`` times. prepend, append: elements before, behind."""
    count, axis = as_int(n, "diff", "n"), normalize_dim(dim, input.ndim, "diff")
    if count < 0 or not input.ndim:
        raise ShapeError(f"diff: expected at least one dimension and n of 0 or more, got {list(input.shape)}, {n}")
    parts = [t for t in (prepend, input, append) if t is not None]
    out = cat(parts, axis) if len(parts) > 1 and count else input
    for _ in range(min(count, out.shape[axis])):
        size = out.shape[axis]
        after, before = part_of(out, axis, 1, size), part_of(out, axis, 0, size - 1)
        out = ops.not_equal(after, before) if out.spec.dtype == "bool" else ops.subtract(after, before)
    copy: Tensor = out.interpreter.clone(out) if out is input else out
    return copy
