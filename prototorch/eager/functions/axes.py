"""Views with the dimensions in another order."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.dims import dim_numbers, given_ints, normalize_dim
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError

__all__ = ["movedim", "permute", "transpose"]


@tensor_function
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The dimensions in another order, one by one or as a sequence: each once."""
    dims_as_ints = given_ints(order, dims, "permute", "a dim")
    axes = dim_numbers(dims_as_ints, input.ndim, "permute")
    if len(axes) != input.ndim:
        raise ShapeError(f"permute: {len(axes)} dims for a tensor of {input.ndim} dimensions, got {list(dims_as_ints)}")
    result: Tensor = ops.transpose(input, order=axes)
    return result


@tensor_function(aliases=("swapaxes", "swapdims"))
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    first, second = (normalize_dim(d, input.ndim, "transpose") for d in (dim0, dim1))
    order = list(range(input.ndim))
    if order:
        order[first], order[second] = second, first
    result: Tensor = ops.transpose(input, order=tuple(order))
    return result


@tensor_function
def t(input: Tensor) -> Tensor:
    """The transposed matrix; a tensor of one dimension or none as it is. Raises ShapeError for more than two."""
    if input.ndim > 2:
        raise ShapeError(
            f"t: expected at most 2 dimensions, got {input.ndim}; transpose(-1, -2) exchanges the last two"
        )
    result: Tensor = ops.transpose(input, order=tuple(reversed(range(input.ndim))))
    return result


@tensor_function
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged (the elements are real)."""
    if input.ndim < 2:
        raise ShapeError(f"adjoint: expected at least 2 dimensions, got {input.ndim}")
    return transpose(input, -1, -2)


@tensor_function(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other positions; the others keep their order."""
    before = dim_numbers(source, input.ndim, "movedim")
    after = dim_numbers(destination, input.ndim, "movedim")
    if len(before) != len(after):
        raise ShapeError(f"movedim: {len(before)} sources, but {len(after)} destinations")
    rest = (d for d in range(input.ndim) if d not in before)
    moved = dict(zip(after, before, strict=True))
    result: Tensor = ops.transpose(
        input, order=tuple(moved[k] if k in moved else next(rest) for k in range(input.ndim))
    )
    return result


def _reversed(self: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    result: Tensor = ops.transpose(self, order=tuple(reversed(range(self.ndim))))
    return result


def _matrices(self: Tensor) -> Tensor:
    """The last two dimensions exchanged. Raises ShapeError for fewer than two."""
    if self.ndim < 2:
        raise ShapeError(f"mT: expected at least 2 dimensions, got {self.ndim}")
    return transpose(self, -1, -2)


def _matrix(self: Tensor) -> Tensor:
    """The transposed matrix (the elements are real). Raises ShapeError for more than two dimensions, or one."""
    if self.ndim not in (0, 2):
        raise ShapeError(f"H: expected a matrix, got {self.ndim} dimensions; mH exchanges the last two")
    return _reversed(self)


tensor_method(property(_reversed), name="T")
tensor_method(property(_matrices), name="mT")
tensor_method(property(_matrices), name="mH")
tensor_method(property(_matrix), name="H")
