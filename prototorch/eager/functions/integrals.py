"""Integrals by the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.splitting import part_of
from prototorch.eager.functions.views import reshape
from prototorch.eager.operands import promote, to_float
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError

__all__ = ["cumulative_trapezoid", "trapezoid"]


def _areas(name: str, y: Tensor, x: Any, dx: Any, dim: Any) -> tuple[Tensor, int]:
    """The areas between neighbours along a dimension, and the dimension."""
    if x is not None and dx is not None:
        raise UsageError(f"{name}: expected the positions x or their distance dx, not both")
    if not y.ndim:
        raise ShapeError(f"{name}: expected at least one dimension, got a scalar")
    axis = normalize_dim(dim, y.ndim, name)
    n = y.shape[axis]
    heights = ops.add(part_of(y, axis, 1, max(n, 1)), part_of(y, axis, 0, max(n - 1, 0)))
    if x is None:
        widths_times_heights = ops.multiply(*promote(name, heights, 1 if dx is None else dx))
        return ops.multiply(*promote(name, to_float(widths_times_heights), 0.5)), axis
    along = x.ndim - 1 if x.ndim == 1 else axis + x.ndim - y.ndim
    if (x.ndim != 1 and x.ndim != y.ndim) or x.shape[along] != n:
        raise ShapeError(
            f"{name}: x has shape {list(x.shape)}, which does not fit y, of shape {list(y.shape)}, in dim {axis}"
        )
    m = x.shape[along]
    widths = ops.subtract(part_of(x, along, 1, max(m, 1)), part_of(x, along, 0, max(m - 1, 0)))
    if x.ndim == 1:
        widths = reshape(widths, (-1 if m else 0, *(1,) * (y.ndim - axis - 1)))
    return ops.multiply(*promote(name, to_float(ops.multiply(*promote(name, heights, widths))), 0.5)), axis


@tensor_function(method=False, aliases=("trapz",))
def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of y along a dimension; x: the positions of its elements, dx: their distance (default 1)."""
    areas, axis = _areas("trapezoid", y, x, dx, dim)
    result: Tensor = ops.sum(areas, axis=axis)
    return result


@tensor_function(method=False)
def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals of y from its first element to each further one along a dimension (see `trapezoid`)."""
    areas, axis = _areas("cumulative_trapezoid", y, x, dx, dim)
    result: Tensor = ops.cumsum(areas, axis=axis)
    return result
