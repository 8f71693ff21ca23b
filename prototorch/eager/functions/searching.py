"""Positions in sorted elements, quantiles, and choices by a condition."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.functions.gathering import gather, nonzero
from prototorch.eager.functions.sorting import sorted_along
from prototorch.eager.functions.views import contiguous, flatten, reshape
from prototorch.eager.operands import accepts_out, as_operand, cast_to, common_dtype, promote
from prototorch.eager.registry import tensor_function
from prototorch.eager.scalars import check_operand
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError

__all__ = ["bucketize", "searchsorted"]


def _side(name: str, right: bool, side: Any) -> str:
    if side not in (None, "left", "right") or (side == "left" and right):
        raise UsageError(f"{name}: side must be 'left' or 'right', and agree with right, got {side!r} and {right}")
    return "right" if right or side == "right" else "left"


@tensor_function(method=False)
@accepts_out
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """For each value the number of elements of the sorted sequence before it, along the last dimension: where it would
    be inserted. right, or side="right": equal elements are before it, too. sorter: the indices that sort the sequence.
    """
    if not isinstance(sorted_sequence, Tensor):
        raise UsageError(f"searchsorted: expected a tensor, got a {type(sorted_sequence).__name__}")
    if sorter is not None:
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    if not sorted_sequence.ndim:
        raise ShapeError("searchsorted: the sorted sequence must have at least one dimension")
    elements, values = promote("searchsorted", sorted_sequence, input)
    positions = ops.searchsorted(elements, values, side=_side("searchsorted", right, side))
    result: Tensor = ops.cast(positions, dtype="int32") if out_int32 else positions
    return result


@tensor_function(method=False)
@accepts_out
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """For each value the number of the boundaries, a sorted vector, that lie before it (see `searchsorted`)."""
    if not isinstance(boundaries, Tensor) or boundaries.ndim != 1:
        raise ShapeError("bucketize: boundaries must be a vector")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@tensor_function
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; all three broadcast. With the condition alone the indices
    where it holds, a vector for each dimension."""
    if not isinstance(condition, Tensor):
        raise UsageError(f"where: condition must be a tensor, got a {type(condition).__name__}")
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition.spec.dtype != "bool":
        raise UsageError(f"where: condition must be of dtype bool, got {condition.dtype!r}")
    operands = [as_operand(v, "where") for v in (input, other)]
    dtype = common_dtype(tuple(operands))
    for v in operands:
        check_operand(v, dtype, "where")
    return ops.where(condition, *(cast_to(v, dtype, condition) for v in operands))


@tensor_function(method=False)
@accepts_out
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is one of the test elements."""
    elements, tests = promote("isin", elements, test_elements)
    tests = sorted_along(flatten(tests) if tests.ndim else reshape(tests, 1), 0).values
    if not tests.spec.size:
        is_found = ops.broadcast_to(ops.full(shape=(), value=False, dtype="bool"), shape=elements.spec.shape)
    else:
        at = ops.minimum(ops.searchsorted(tests, elements), tests.spec.size - 1)
        is_found = ops.equal(ops.take(tests, at), elements)
    result: Tensor = ops.logical_not(is_found) if invert else contiguous(is_found)
    return result
