"""Operands of PyTorch's functions: numbers, arrays and tensors brought to one element type by its rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from prototorch import ops
from prototorch.eager.dims import dim_numbers
from prototorch.eager.dtype import (
    DType,
    as_dtype,
    can_cast,
    category,
    dtype_of_scalar,
    get_default_dtype,
    promote_types,
)
from prototorch.eager.in_place import assign
from prototorch.eager.scalars import check_number, element_range, number_array
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import ShapeError, UsageError
from prototorch.ops.interpreters import find_interpreter

__all__ = [
    "accepts_out",
    "as_operand",
    "cast_to",
    "common_dtype",
    "element_of",
    "match_numbers",
    "promote",
    "promote_to_float",
    "reduce_dims",
    "result_type",
    "to_float",
    "write_out",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def as_operand(value: Any, name: str) -> Any:
    """A tensor as it is, a Python number as it is, an array as a tensor. Raises UsageError for anything else."""
    if isinstance(value, Tensor | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return find_interpreter(()).constant(value)
    if isinstance(value, complex):
        raise UsageError(f"{name}: there are no complex numbers, got {value!r}")
    if getattr(value, "interpreter", None) is not None:
        return value
    raise UsageError(f"{name}: expected a tensor or a number, got {type(value).__name__}")


def common_dtype(operands: tuple[Any, ...]) -> DType:
    """The element type of a result, by PyTorch's rules: tensors with dimensions decide, then tensors without, then
    numbers, where one of a lower category (bool, integer, floating-point) leaves a higher one as it is."""
    by_rank: list[DType | None] = [None, None, None]
    for value in operands:
        if isinstance(value, bool | int | float):
            rank, dtype = 2, dtype_of_scalar(value)
        else:
            rank, dtype = (0 if value.ndim else 1), as_dtype(str(value.dtype))
        rank_dtype = by_rank[rank]
        by_rank[rank] = dtype if rank_dtype is None else promote_types(rank_dtype, dtype)
    result: DType | None = None
    for dtype_of_rank in by_rank:
        if dtype_of_rank is None:
            continue
        if result is None:
            result = dtype_of_rank
        elif category(dtype_of_rank) > category(result):
            result = promote_types(result, dtype_of_rank)
    assert result is not None
    return result


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The element type of an arithmetic result of two tensors or numbers."""
    return common_dtype((as_operand(tensor1, "result_type"), as_operand(tensor2, "result_type")))


def cast_to(value: Any, dtype: Any, like: Any = None, checked: str = "") -> Any:
    """A tensor or number as a tensor of an element type; a number becomes one of the interpreter of ``like``.

    checked: the name of a function that takes no number outside the range of the type, which raises UsageError then;
    by default integers keep their low bits.
    """
    if isinstance(value, bool | int | float):
        if checked:
            check_number(value, dtype, checked)
        return like.interpreter.scalar(number_array(value, str(dtype)))
    return value if value.dtype == dtype else ops.cast(value, dtype=str(dtype))


def match_numbers(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Two values of one element type: of a tensor and a number that its type can hold the number becomes a tensor."""
    for value, tensor in ((a, b), (b, a)):
        if isinstance(value, bool | int | float) and hasattr(tensor, "interpreter"):
            dtype = as_dtype(str(tensor.dtype))
            if not isinstance(value, float) or dtype.is_floating_point:
                number = cast_to(value, dtype, tensor, checked=name)
                return (number, tensor) if value is a else (tensor, number)
    return a, b


def element_of(value: Any, like: Any, name: str) -> Any:
    """The number that a function writes into a tensor, as a tensor without dimensions of its element type; ``value``
    may be a tensor without dimensions, too.

    Raises UsageError for another value, and for one outside the range of the type, where it is operand.
    """
    operand = as_operand(value, name)
    if isinstance(operand, bool | int | float):
        return cast_to(operand, like.dtype, like, checked=name)
    if operand.ndim:
        raise ShapeError(f"{name}: expected a number or a tensor without dimensions, got shape {list(operand.shape)}")
    if type(operand) is Tensor and operand.spec.dtype != like.dtype:
        if not operand.interpreter.has_memory:
            operand = _in_range(operand, like.dtype, name)
        elif operand.device.type == "cpu" and active_trace.get() is None:
            check_number(operand.item(), like.dtype, name)
    return cast_to(operand, like.dtype)


def _in_range(operand: Tensor, dtype: Any, name: str) -> Tensor:
    """A traced number, which the plan refuses outside the range of integers of a type, as `check_number` does."""
    if dtype.is_floating_point or str(dtype) == "bool" or str(operand.dtype) == "bool":
        return operand
    low, high = element_range(str(dtype))
    words = f"{name}: {{}} is outside the range of {dtype} elements, which is {low} to {high}; cast the tensor first"
    result: Tensor = bounded_values(operand, words, low if low else -high, high)
    return result


def promote(name: str, *operands: Any, dtype: Any = None, checked: bool = False) -> list[Any]:
    """The operands as tensors of one element type: ``dtype``, or the common one. Raises UsageError where one of them is
    no tensor and no number, where all are numbers, and with ``checked`` for a number outside the range of the type."""
    if dtype is None and len(operands) == 2:
        a, b = operands
        if type(a) is Tensor and type(b) is Tensor and a.spec.dtype == b.spec.dtype:
            return [a, b]
        # a number beside floating-point elements takes their type
        if type(a) is Tensor and (type(b) is float or type(b) is int) and a.spec.is_float:
            if checked:
                check_number(b, a.spec.dtype, name)
            return [a, a.interpreter.scalar(number_array(b, a.spec.dtype))]
        if type(b) is Tensor and (type(a) is float or type(a) is int) and b.spec.is_float:
            if checked:
                check_number(a, b.spec.dtype, name)
            return [b.interpreter.scalar(number_array(a, b.spec.dtype)), b]
    operands = tuple(as_operand(v, name) for v in operands)
    like = next((v for v in operands if not isinstance(v, bool | int | float)), None)
    if like is None:
        raise UsageError(f"{name}: expected a tensor, got {', '.join(type(v).__name__ for v in operands)}")
    target = common_dtype(operands) if dtype is None else dtype
    return [cast_to(v, target, like, name if checked else "") for v in operands]


def promote_to_float(name: str, *operands: Any) -> list[Any]:
    """As `promote`; integers and bool become the default floating-point type, each from its own type or number."""
    if any(type(v) is Tensor and v.spec.is_float for v in operands):
        return promote(name, *operands)
    operands = tuple(as_operand(v, name) for v in operands)
    if all(isinstance(v, bool | int | float) for v in operands):
        return promote(name, *operands)  # for its error
    target = common_dtype(operands)
    return promote(name, *operands, dtype=target if target.is_floating_point else get_default_dtype())


def to_float(value: Any, name: str = "") -> Any:
    """A tensor of integers or bool in the default floating-point type; others as they are."""
    if type(value) is Tensor and value.spec.is_float:
        return value
    value = as_operand(value, name)
    if isinstance(value, bool | int | float):
        raise UsageError(f"{name}: expected a tensor, got {type(value).__name__}")
    return value if as_dtype(str(value.dtype)).is_floating_point else cast_to(value, get_default_dtype())


def reduce_dims(dim: Any, ndim: int, name: str) -> tuple[int, ...]:
    """The dimensions of a reduction as sorted indices: None and an empty sequence are all. Raises RangeError for one
    out of range, ShapeError for one that is named twice."""
    if isinstance(dim, tuple | list) and not dim:
        dim = None
    numbers = dim_numbers(dim, ndim, name)
    return tuple(sorted(numbers)) if ndim else ()


def write_out(result: Any, out: Tensor, name: str) -> Tensor:
    """The result of a function in the tensor ``out``, which takes its shape. Raises UsageError where its element type
    cannot take the result, and where it requires a gradient."""
    if not isinstance(out, Tensor):
        raise UsageError(f"{name}: out must be a tensor, got {type(out).__name__}")
    if result.requires_grad or out.requires_grad:
        raise UsageError(f"{name}: out= does not support gradients, but one of the tensors requires one")
    if not can_cast(result.dtype, out.dtype):
        raise UsageError(f"{name}: the result type {result.dtype!r} cannot be cast to that of out, {out.dtype!r}")
    if out.shape != result.shape:
        if out.spec.size:
            raise ShapeError(f"{name}: out has the shape {list(out.shape)}, the result {list(result.shape)}")
        out.rebind(out.interpreter.zeros(result.spec.__class__(result.spec.shape, str(out.dtype))).array, Storage())
    return assign(out, result, name)


def accepts_out(function: _Function) -> _Function:
    """Give a function of one result PyTorch's argument ``out``: a tensor that takes the result."""
    name = function.__name__.rstrip("_")

    @wraps(function)
    def with_out(*args: Any, out: Any = None, **options: Any) -> Any:
        result = function(*args, **options)
        return result if out is None else write_out(result, out, name)

    return with_out  # type: ignore[return-value]
