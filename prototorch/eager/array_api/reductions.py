"""Reductions and running results by the array API standard."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.array_api.registry import standard_function
from prototorch.eager.dims import dim_numbers, normalize_dim
from prototorch.eager.operands import cast_to
from prototorch.eager.registry import FUNCTIONS
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__: list[str] = []


def _accumulator(x: Tensor, dtype: Any) -> Any:
    """The type of a sum: that of the elements, or the largest integer of their kind."""
    if dtype is not None or x.spec.is_float:
        return dtype
    return "uint64" if x.spec.dtype.startswith("uint") else "int64"


def _by_op(name: str) -> None:
    def function(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
        over = dim_numbers(axis, x.ndim, name)
        target = _accumulator(x, dtype)
        result: Tensor = getattr(ops, name)(x if target is None else cast_to(x, target), axis=over, keepdims=keepdims)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} over axes, or all; integers are summed in the largest type of their kind."
    standard_function(function)


_by_op("sum")
_by_op("prod")


def _by_function(name: str, ours: str) -> None:
    def function(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
        result: Tensor = FUNCTIONS[ours](x, dim_numbers(axis, x.ndim, name), keepdims)
        return result if x.ndim else result.reshape(())

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As `{ours}`, over axes, or all."
    standard_function(function)


for _name, _ours in (("max", "amax"), ("min", "amin"), ("mean", "mean")):
    _by_function(_name, _ours)


def _truth(name: str) -> None:
    def function(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
        op = getattr(ops, name)
        result: Tensor = op(cast_to(x, "bool"), axis=dim_numbers(axis, x.ndim, name), keepdims=keepdims)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether {name} of the elements is not 0, over axes, or all."
    standard_function(function)


_truth("all")
_truth("any")


def _deviation(name: str) -> None:
    def function(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        result: Tensor = FUNCTIONS[name](x, dim_numbers(axis, x.ndim, name), correction=correction, keepdim=keepdims)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As `{name}`, over axes, or all, without a correction."
    standard_function(function)


_deviation("std")
_deviation("var")


def _index(name: str) -> None:
    def function(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
        result: Tensor = FUNCTIONS[name](x, axis, keepdims)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As `{name}`, along an axis, or of all elements in their order."
    standard_function(function)


_index("argmax")
_index("argmin")


@standard_function
def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0, over axes, or all."""
    over = dim_numbers(axis, x.ndim, "count_nonzero")
    result: Tensor = ops.sum(cast_to(cast_to(x, "bool"), "int64"), axis=over, keepdims=keepdims)
    return result


def _running(name: str, ours: str, neutral: int) -> None:
    def function(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
        if axis is None and x.ndim > 1:
            raise UsageError(f"{name}: axis must be given for {x.ndim} dimensions")
        number = normalize_dim(0 if axis is None else axis, x.ndim, name)
        target = _accumulator(x, dtype)
        result: Tensor = FUNCTIONS[ours](x if target is None else cast_to(x, target), number)
        if not include_initial:
            return result if target is None else cast_to(result, target)
        shape = [1 if k == number else n for k, n in enumerate(result.shape)]
        first = result.new_full(shape, neutral)
        with_first: Tensor = FUNCTIONS["cat"]([first, result], number)
        return with_first if target is None else cast_to(with_first, target)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As `{ours}`, along an axis. include_initial: whether the result begins with {neutral}."
    standard_function(function)


_running("cumulative_sum", "cumsum", 0)
_running("cumulative_prod", "cumprod", 1)


@standard_function
def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """As `diff`, along an axis."""
    result: Tensor = FUNCTIONS["diff"](x, n, axis, prepend, append)
    return result


@standard_function
def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The products of vectors along an axis; the others broadcast."""
    result: Tensor = ops.sum(x1 * x2, axis=axis)
    return result
