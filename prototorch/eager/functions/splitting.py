"""Views of parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import ops
from prototorch.eager.dims import as_int, as_ints, normalize_dim
from prototorch.eager.functions.views import reshape
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import RangeError, ShapeError, UsageError

__all__ = ["chunk", "diagonal", "narrow", "part_of", "select", "split", "unbind"]


def part_of(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """The view of the elements start, start + step, ... before stop along a dimension."""
    first, last, steps = [0] * input.ndim, list(input.shape), [1] * input.ndim
    first[dim], last[dim], steps[dim] = start, max(stop, start), step
    result: Tensor = ops.slice(input, start=tuple(first), stop=tuple(last), step=tuple(steps))
    return result


def _dim_of(input: Tensor, dim: Any, name: str) -> int:
    if not input.ndim:
        raise ShapeError(f"{name}: expected at least one dimension, got a scalar")
    return normalize_dim(dim, input.ndim, name)


@tensor_function
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` elements of a dimension from ``start`` on, which is counted from the end where it is negative."""
    dim = _dim_of(input, dim, "narrow")
    n, start, length = input.shape[dim], as_int(start, "narrow", "start"), as_int(length, "narrow", "length")
    first = start + n if start < 0 else start
    if not -n <= start <= n:
        raise RangeError(f"narrow: start must be between {-n} and {n} for dim {dim} of size {n}, got {start}")
    if length < 0 or first + length > n:
        raise ShapeError(f"narrow: {length} elements from {start} on exceed the size {n} of dim {dim}")
    return part_of(input, dim, first, first + length)


@tensor_function
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The part at one index of a dimension, without that dimension."""
    dim = _dim_of(input, dim, "select")
    n, index = input.spec.shape[dim], as_int(index, "select", "index")
    if not -n <= index < n:
        raise RangeError(f"select: index {index} is out of range for dim {dim} of size {n}")
    result: Tensor = ops.select(input, axis=dim, index=index % n)
    return result


@tensor_function
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts along a dimension, without it."""
    dim = _dim_of(input, dim, "unbind")
    return tuple(ops.select(input, axis=dim, index=k) for k in range(input.spec.shape[dim]))


def _by_sizes(input: Tensor, sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    parts, start = [], 0
    for n in sizes:
        parts.append(part_of(input, dim, start, start + n))
        start += n
    return tuple(parts)


@tensor_function(aliases=("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"))
def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None, split_sizes: Any = None
) -> tuple[Tensor, ...]:
    """Parts along a dimension: of one size (the last may be smaller), or of the sizes of a sequence."""
    size_arguments = [v for v in (split_size_or_sections, split_size, split_sizes) if v is not None]
    if len(size_arguments) != 1:
        raise UsageError("split: expected one size of the parts, or a sequence of sizes")
    dim = _dim_of(tensor, dim, "split")
    n = tensor.shape[dim]
    if isinstance(size_arguments[0], tuple | list):
        sizes = as_ints((size_arguments[0],), "split", "a size")
        if sum(sizes) != n or any(k < 0 for k in sizes):
            raise ShapeError(f"split: the sizes {list(sizes)} must add up to {n}, the size of dim {dim}")
        return _by_sizes(tensor, sizes, dim)
    size = as_int(size_arguments[0], "split", "the size of the parts")
    if size < 0 or (size == 0 and n):
        raise ShapeError(f"split: the size of the parts must be positive, got {size}")
    starts = range(0, n, size) if n else [0]
    return tuple(part_of(tensor, dim, k, min(k + size, n)) for k in starts)


@tensor_function(aliases=("unsafe_chunk",))
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts of equal size along a dimension; the last may be smaller."""
    chunks, dim = as_int(chunks, "chunk", "chunks"), _dim_of(input, dim, "chunk")
    if chunks < 1:
        raise UsageError(f"chunk: chunks must be positive, got {chunks}")
    n = input.shape[dim]
    if not n:
        return _by_sizes(input, [0] * chunks, dim)
    return split(input, -(-n // chunks), dim)


@tensor_function
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Parts along a dimension: a number of parts, the first of which are one longer where it does not divide, or the
    positions at which it is cut."""
    cuts_argument = [v for v in (indices_or_sections, indices, sections) if v is not None]
    if len(cuts_argument) != 1:
        raise UsageError("tensor_split: expected a number of parts, or the positions to cut at")
    cuts, dim = cuts_argument[0], _dim_of(input, dim, "tensor_split")
    if isinstance(cuts, Tensor):
        if cuts.ndim > 1 or cuts.spec.is_float or cuts.dtype == "bool":
            raise UsageError("tensor_split: the positions must be a tensor of integers of at most one dimension")
        cuts = cuts.tolist()
    n = input.shape[dim]
    if isinstance(cuts, tuple | list):
        ends = [slice(None, e).indices(n)[1] for e in as_ints((tuple(cuts),), "tensor_split", "a position")]
        return tuple(part_of(input, dim, a, max(a, b)) for a, b in zip([0, *ends], [*ends, n], strict=True))
    count = as_int(cuts, "tensor_split", "the number of parts")
    if count < 1:
        raise UsageError(f"tensor_split: the number of parts must be positive, got {count}")
    return _by_sizes(input, [n // count + (k < n % count) for k in range(count)], dim)


def _split_along(name: str, least: int, dim_of: Any) -> None:
    def function(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise ShapeError(f"{name}: expected at least {least} dimensions, got {input.ndim}")
        dim = dim_of(input.ndim)
        if not isinstance(indices_or_sections, tuple | list | Tensor):
            count = as_int(indices_or_sections, name, "the number of parts")
            if count < 1 or input.shape[dim] % count:
                raise ShapeError(f"{name}: dim {dim} of size {input.shape[dim]} is not divisible into {count} parts")
        return tensor_split(input, indices_or_sections, dim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "As `tensor_split`, into equal parts along {} dimension.".format(
        {"hsplit": "the second (of a vector, the first)", "vsplit": "the first", "dsplit": "the third"}[name]
    )
    tensor_function(function)


_split_along("hsplit", 1, lambda ndim: 1 if ndim > 1 else 0)
_split_along("vsplit", 2, lambda ndim: 0)
_split_along("dsplit", 3, lambda ndim: 2)


@tensor_function
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The view of a diagonal of two dimensions, as the last dimension of the result."""
    axes = normalize_dim(dim1, input.ndim, "diagonal"), normalize_dim(dim2, input.ndim, "diagonal")
    if axes[0] == axes[1]:
        raise ShapeError(f"diagonal: dim1 and dim2 are the same dimension, {axes[0]}")
    result: Tensor = ops.diagonal(input, axes=axes, offset=as_int(offset, "diagonal", "offset"))
    return result


@tensor_method
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """The view of all windows of ``size`` elements along a dimension, ``step`` apart; the last dimension of the result
    runs over the elements of a window."""
    size, step = as_int(size, "unfold", "size"), as_int(step, "unfold", "step")
    axis = normalize_dim(dimension, self.ndim, "unfold")
    source = self if self.ndim else reshape(self, 1)
    n = source.shape[axis]
    if not 0 <= size <= n:
        raise ShapeError(f"unfold: the size of a window must be between 0 and {n}, the size of dim {axis}, got {size}")
    if step < 1:
        raise ShapeError(f"unfold: step must be positive, got {step}")
    result: Tensor = ops.sliding_windows(source, axis=axis, size=size, step=step)
    return result if self.ndim else reshape(result, result.shape[1:])


@tensor_function
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """The view of a shape whose elements are ``stride`` elements of memory apart along each dimension, from element
    ``storage_offset`` of the memory on (default: the tensor's own). Of a view it reads the memory of the tensor that it
    is a view of, which its gradient goes to. The tensor that owns the memory must be contiguous.

    Raises ShapeError for what reaches beyond the memory.
    """
    base = input._base
    source = input if base is None else base
    if not source.array.flags.c_contiguous or (base is not None and input.is_leaf and input.requires_grad):
        raise ShapeError(
            "as_strided: expected a tensor whose memory is contiguous, and no view that is a leaf; clone() it first"
        )
    shape, steps = as_ints((size,), "as_strided", "a size"), as_ints((stride,), "as_strided", "a stride")
    if storage_offset is None:
        offset = input.storage_offset()
    else:
        offset = as_int(storage_offset, "as_strided", "storage_offset")
    result: Tensor = ops.as_strided_view(source, shape=shape, strides=steps, offset=offset)
    return result
