"""Tensors with a part of them taken from another tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.eager.dims import as_int, normalize_dim
from prototorch.eager.functions.splitting import diagonal, part_of, select
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError

__all__ = ["diagonal_scatter", "select_scatter", "slice_scatter"]


def _with_part(name: str, input: Tensor, choose: Callable[[Tensor], Tensor], src: Tensor) -> Tensor:
    """A copy of the tensor in which a view of it has the elements of ``src``."""
    out: Tensor = input.interpreter.clone(input)
    part = choose(out)
    if tuple(src.shape) != tuple(part.shape):
        raise ShapeError(f"{name}: src must have the shape of the part, {list(part.shape)}, got {list(src.shape)}")
    part.copy_(src)
    return out


@tensor_function
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the tensor with ``src`` in place of `select`'s part."""
    return _with_part("select_scatter", input, lambda t: select(t, dim, index), src)


@tensor_function
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A copy of the tensor with ``src`` in place of its slice ``start:end:step`` along a dimension."""
    axis = normalize_dim(dim, input.ndim, "slice_scatter")
    if as_int(step, "slice_scatter", "step") < 1:
        raise ShapeError(f"slice_scatter: step must be positive, got {step}")
    first, last, _ = slice(start, end).indices(input.shape[axis])
    return _with_part("slice_scatter", input, lambda t: part_of(t, axis, first, last, step), src)


@tensor_function
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of the tensor with ``src`` in place of `diagonal`'s part."""
    return _with_part("diagonal_scatter", input, lambda t: diagonal(t, offset, dim1, dim2), src)
