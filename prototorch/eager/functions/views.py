"""Views: other shapes of the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.dims import as_ints, as_shape, dim_numbers, given_ints, normalize_dim
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError

__all__ = ["broadcast_to", "expand", "flatten", "reshape", "squeeze", "unflatten", "unsqueeze", "view"]


@tensor_function
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view where the memory allows one, else a copy.

    The sizes are given one by one or as one sequence, also as ``shape=``; one of them may be -1. Raises ShapeError for
    another number of elements.
    """
    if not isinstance(input, Tensor):
        raise UsageError(f"reshape: expected a tensor, got {type(input).__name__}")
    result: Tensor = ops.reshape(input, shape=given_ints(sizes, shape, "reshape", "a size"))
    return result


@tensor_method
def view(self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory in another shape; one size may be -1. Raises ShapeError where only a copy has that shape: the
    elements are not next to each other in memory (see `reshape`, `contiguous`)."""
    if dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], str | type)):
        raise UsageError("view: reading the same bytes as another dtype is not supported; to(dtype) converts")
    result: Tensor = ops.reshape(self, shape=given_ints(sizes, size, "view", "a size"))
    if result._base is None:
        raise ShapeError(
            f"view: a tensor of shape {list(self.shape)} that is not contiguous has no view of shape "
            f"{list(result.shape)}; reshape() makes a copy where one is needed"
        )
    return result


@tensor_method
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """As `view`, in the shape of another tensor."""
    return view(self, *other.shape)


@tensor_method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """As `reshape`, in the shape of another tensor."""
    return reshape(self, *other.shape)


@tensor_function
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` as one; a scalar becomes [1]."""
    start = normalize_dim(start_dim, input.ndim, "flatten")
    end = normalize_dim(end_dim, input.ndim, "flatten")
    if start > end:
        raise ShapeError(f"flatten: start_dim {start_dim} comes behind end_dim {end_dim}")
    if not input.ndim:
        return reshape(input, 1)
    shape = tuple(input.shape)
    size = shape[start]
    for n in shape[start + 1 : end + 1]:
        size *= n
    return input if start == end else reshape(input, (*shape[:start], size, *shape[end + 1 :]))


@tensor_function
def ravel(input: Tensor) -> Tensor:
    """All elements along one dimension: a view where the memory allows one."""
    return reshape(input, input.spec.size)


@tensor_function
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """A dimension as several, of these sizes; one of them may be -1."""
    dim = normalize_dim(dim, input.ndim, "unflatten")
    parts, shape = as_ints((tuple(sizes),), "unflatten", "a size"), tuple(input.shape)
    if not parts:
        raise ShapeError("unflatten: expected at least one size")
    known_size = 1
    for n in parts:
        known_size *= n if n != -1 else 1
    n = shape[dim]
    fits = (n % known_size == 0 if known_size else n == 0) if -1 in parts else known_size == n
    if parts.count(-1) > 1 or min(parts) < -1 or not fits:
        raise ShapeError(f"unflatten: dim {dim} of size {n} cannot be split into the sizes {list(parts)}")
    new_sizes = [n // known_size if p == -1 and known_size else max(p, 0) for p in parts]
    return reshape(input, (*shape[:dim], *new_sizes, *shape[dim + 1 :]))


@tensor_function
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the dimensions of size 1: all of them, or those among ``dim``, one or a tuple."""
    over = dim_numbers(dim, input.ndim, "squeeze")
    shape = tuple(n for axis, n in enumerate(input.shape) if n != 1 or axis not in over)
    result: Tensor = ops.reshape(input, shape=shape)
    return result


@tensor_function
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new dimension of size 1 at a position of the result."""
    dim = normalize_dim(dim, input.ndim + 1, "unsqueeze")
    shape = tuple(input.shape)
    result: Tensor = ops.reshape(input, shape=(*shape[:dim], 1, *shape[dim:]))
    return result


@tensor_method
def expand(self: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """A view in which dimensions of size 1 are repeated to these sizes, and dimensions are added in front; -1 keeps a
    size. Its elements share memory, so that it cannot be changed in place."""
    wide = given_ints(sizes, size, "expand", "a size")
    extra = len(wide) - self.ndim
    if extra < 0:
        raise ShapeError(f"expand: {len(wide)} sizes for a tensor of {self.ndim} dimensions")
    if any(n == -1 for n in wide[:extra]):
        raise ShapeError(f"expand: the size of a new dimension cannot be -1, got {list(wide)}")
    shape = tuple(n if n != -1 else self.shape[k - extra] for k, n in enumerate(wide))
    if any(n < 0 for n in shape):
        raise ShapeError(f"expand: sizes must not be negative, got {list(wide)}")
    return broadcast_to(self, shape)


@tensor_function
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """As `expand`: the view of that shape."""
    shape = as_shape((size,), "broadcast_to")
    if shape == tuple(input.shape):
        return reshape(input, shape)
    result: Tensor = ops.broadcast_to(input, shape=shape)
    return result


@tensor_method
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """As `expand`, to the shape of another tensor."""
    return expand(self, *other.shape)


@tensor_function(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors as views of the shape that they broadcast to."""
    operands = _checked_tensors("broadcast_tensors", tensors)
    shape = broadcast_shapes(*(t.shape for t in operands))
    return tuple(broadcast_to(t, shape) for t in operands)


@tensor_function(method=False)
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to. Raises ShapeError where they do not."""
    out: list[int] = []
    sized = [as_shape((s,), "broadcast_shapes") for s in shapes]
    for k in range(-max(map(len, sized), default=0), 0):
        sizes = {s[k] for s in sized if len(s) >= -k} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"broadcast: the shapes {', '.join(str(list(s)) for s in sized)} do not fit in dim {k}")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def _checked_tensors(name: str, tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Tensors that are given one by one or as one sequence. Raises UsageError for anything else."""
    operands = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    for t in operands:
        if not isinstance(t, Tensor):
            raise UsageError(f"{name}: expected tensors, got a {type(t).__name__}")
    return tuple(operands)


def _each(name: str, convert: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    """A function of one tensor, or of each of several, given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return convert(tensors[0])
    return tuple(map(convert, _checked_tensors(name, tensors)))


@tensor_function(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """The tensor, or each of several, with one dimension at least."""
    return _each("atleast_1d", lambda t: t if t.ndim else reshape(t, 1), tensors)


@tensor_function(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """The tensor, or each of several, with two dimensions at least: a vector as a row."""
    return _each("atleast_2d", lambda t: t if t.ndim > 1 else reshape(t, 1, t.spec.size), tensors)


@tensor_function(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """The tensor, or each of several, with three dimensions at least: [n] as [1, n, 1], [n, m] as [n, m, 1]."""

    def convert(t: Tensor) -> Tensor:
        return t if t.ndim > 2 else reshape(t, ((1, 1, 1), (1, *t.shape, 1), (*t.shape, 1))[t.ndim])

    return _each("atleast_3d", convert, tensors)


@tensor_method
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where its elements lie in memory in their order, else a copy in which they do."""
    if memory_format not in (None, "contiguous_format"):
        raise UsageError(f"contiguous: the memory_format {memory_format!r} is not supported; layouts belong to plans")
    return self if is_contiguous(self) else self.interpreter.clone(self)


@tensor_method
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in their order, without gaps."""
    if memory_format not in (None, "contiguous_format"):
        raise UsageError(f"is_contiguous: the memory_format {memory_format!r} is not supported")
    return bool(self.array.flags.c_contiguous)


@tensor_method
def stride(self: Tensor, dim: Any = None) -> Any:
    """By how many elements of memory one step along each dimension goes; of one dimension, an integer."""
    steps = tuple(s // self.dtype.itemsize for s in self.array.strides)
    return steps if dim is None else steps[normalize_dim(dim, self.ndim, "stride")]
