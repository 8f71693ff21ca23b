"""PyTorch's largest and smallest elements along dimensions, and their indices."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.clamp_min_max import maximum, minimum
from prototorch.eager.functions.reductions import require_elements
from prototorch.eager.operands import accepts_out, cast_to, reduce_dims, write_out
from prototorch.eager.registry import tensor_function
from prototorch.errors import UsageError

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin"]

max_result = namedtuple("max_result", ("values", "indices"))
min_result = namedtuple("min_result", ("values", "indices"))
aminmax_result = namedtuple("aminmax_result", ("min", "max"))


def _reduce(name: str, op: Any, input: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    require_elements(name, input, dims)
    if str(input.dtype) == "bool":
        return cast_to(op(cast_to(input, "uint8"), axis=dims, keepdims=keepdim), "bool")
    return op(input, axis=dims, keepdims=keepdim)


@tensor_function
@accepts_out
def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The largest element; equal ones share the gradient (torch.amax)."""
    return _reduce("amax", ops.max, input, reduce_dims(dim, input.ndim, "amax"), keepdim)


@tensor_function
@accepts_out
def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The smallest element; equal ones share the gradient (torch.amin)."""
    return _reduce("amin", ops.min, input, reduce_dims(dim, input.ndim, "amin"), keepdim)


@tensor_function
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, as a named tuple ``(min, max)`` (torch.aminmax)."""
    return aminmax_result(
        amin(input, () if dim is None else dim, keepdim), amax(input, () if dim is None else dim, keepdim)
    )


def _index(name: str, op: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    if str(input.dtype) == "bool":
        raise UsageError(f"{name}: not defined for bool elements; cast them")
    flat = dim is None
    x = ops.reshape(input, shape=(-1,)) if flat and input.spec.size else input
    axis = normalize_dim(0 if flat else dim, x.ndim, name)
    require_elements(name, x, (axis,) if x.ndim else ())
    index = ops.cast(op(x if x.ndim else ops.reshape(x, shape=(1,)), axis=axis), dtype="int64")
    if not keepdim:
        return index
    return ops.reshape(index, shape=tuple(1 if flat or i == axis else n for i, n in enumerate(input.shape)))


@tensor_function
@accepts_out
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the largest element, the first of equal ones, int64; without ``dim`` that of the flattened tensor
    (torch.argmax)."""
    return _index("argmax", ops.argmax, input, dim, keepdim)


@tensor_function
@accepts_out
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the smallest element, the first of equal ones, int64; without ``dim`` that of the flattened tensor
    (torch.argmin)."""
    return _index("argmin", ops.argmin, input, dim, keepdim)


def _extremum(name: str, input: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    op, arg_op, of_two, result = {
        "max": (ops.max, ops.argmax, maximum, max_result),
        "min": (ops.min, ops.argmin, minimum, min_result),
    }[name]
    unknown = set(options) - {"dim", "keepdim", "other", "out"}
    if unknown or len(args) > 2:
        raise UsageError(f"{name}: takes (input), (input, dim, keepdim=False) or (input, other), got {sorted(options)}")
    out, first = options.get("out"), args[0] if args else options.get("dim", options.get("other"))
    if hasattr(first, "interpreter"):
        return of_two(input, first, out=out)
    if first is None:
        if "keepdim" in options:
            raise UsageError(f"{name}: keepdim needs a dim")
        value = _reduce(name, op, input, tuple(range(input.ndim)), False)
        return value if out is None else write_out(value, out, name)
    keepdim = bool(args[1] if len(args) > 1 else options.get("keepdim", False))
    values, indices = _along(name, op, arg_op, input, first, keepdim)
    if out is not None:
        values, indices = write_out(values, out[0], name), write_out(indices, out[1], name)
    return result(values, indices)


def _along(name: str, op: Any, arg_op: Any, input: Any, dim: Any, keepdim: bool) -> tuple[Any, Any]:
    """The values at the indices of the extrema, so that the gradient goes to them alone, and the indices."""
    axis = normalize_dim(dim, input.ndim, name)
    x = input if input.ndim else ops.reshape(input, shape=(1,))
    require_elements(name, x, (axis,))
    is_bool = str(x.dtype) == "bool"
    index = arg_op(cast_to(x, "uint8") if is_bool else x, axis=axis)
    last = (*(i for i in range(x.ndim) if i != axis), axis)
    moved, shape = ops.transpose(x, order=last), tuple(index.shape)
    selection = ops.take_along_axis(moved, ops.reshape(index, shape=(*shape, 1)))
    values, indices = ops.reshape(selection, shape=shape), ops.cast(index, dtype="int64")
    if keepdim and input.ndim:
        kept_shape = (*shape[:axis], 1, *shape[axis:])
        values, indices = ops.reshape(values, shape=kept_shape), ops.reshape(indices, shape=kept_shape)
    return values, indices


@tensor_function(name="max")
def max_(input: Any, *args: Any, **options: Any) -> Any:
    """The largest element: of all (``max(x)``), along a dimension with its index (``max(x, dim, keepdim=False)``, a
    named tuple of values and indices, the first of equal ones), or of two tensors (``max(x, other)``); torch.max."""
    return _extremum("max", input, args, options)


@tensor_function(name="min")
def min_(input: Any, *args: Any, **options: Any) -> Any:
    """The smallest element: of all (``min(x)``), along a dimension with its index (``min(x, dim, keepdim=False)``, a
    named tuple of values and indices, the first of equal ones), or of two tensors (``min(x, other)``); torch.min."""
    return _extremum("min", input, args, options)
