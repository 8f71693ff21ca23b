"""Values that become elements of a declared type: the inputs of static graphs and models, the values of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.dtype import as_dtype
from prototorch.eager.scalars import element_range
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["fed_array"]


def fed_array(value: Any, dtype: Any, receiver: str) -> np.ndarray:
    """A new array of ``dtype`` with the elements of a value, none of which the cast changes but by rounding.

    value: numbers in nested sequences, an array or a tensor. receiver: what takes it, for messages. Integers take whole
    numbers of their range alone, bool 0 and 1; floating-point types take no finite number that would be infinite.

    Raises UsageError for other elements, for text, complex numbers and objects, and for rows of different lengths.
    """
    dtype = as_dtype(dtype)
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    try:
        array = np.array([x.numpy() if isinstance(x, Tensor) else x for x in value] if _has_tensors(value) else value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{receiver} takes numbers of dtype {dtype} in rows of one length: {error!s:.200}") from None
    if array.dtype.kind == "O":
        array = _numbers_of(array, dtype, receiver)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        what = {"U": "text", "S": "text", "c": "complex numbers", "M": "dates", "m": "times"}.get(array.dtype.kind)
        raise UsageError(f"{receiver} takes numbers of dtype {dtype}, got {what or f'elements of type {array.dtype}'}")
    if array.dtype == np.dtype(str(dtype)):
        return array
    with np.errstate(all="ignore"):
        result = array.astype(np.dtype(str(dtype)))
    changed = _changed(array, result, dtype)
    if changed is not None and changed.any():
        at = tuple(int(i) for i in np.argwhere(changed)[0])
        low, high = element_range(dtype)
        kinds = "" if dtype.is_floating_point else f", integers from {low} to {high}"
        raise UsageError(
            f"{receiver} takes {dtype}{kinds}; the value at {list(at)} is {array[at].item()!r}, which would become "
            f"{result[at].item()!r}; cast the array yourself where that is meant"
        )
    return result


def _has_tensors(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(x, Tensor) for x in value)


def _numbers_of(array: np.ndarray, dtype: Any, receiver: str) -> np.ndarray:
    """Objects that are Python's numbers as an array of numbers."""
    for at, item in np.ndenumerate(array):
        if not isinstance(item, bool | int | float | np.generic):
            raise UsageError(f"{receiver} takes numbers of dtype {dtype}; the value at {list(at)} is {item!r:.60}")
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise UsageError(f"{receiver} takes {dtype}; the value at {list(at)} has {item.bit_length()} bits")
    return np.array(array.tolist())


def _changed(array: np.ndarray, result: np.ndarray, dtype: Any) -> Any:
    """Where a cast has changed more of an element than its last digits; None where it cannot have."""
    if array.dtype.kind == "b":
        return None
    if dtype.is_floating_point:
        return np.isfinite(array) & ~np.isfinite(result) if array.dtype.kind == "f" or dtype == "float16" else None
    if dtype == "bool":
        return (array != 0) & (array != 1)
    low, high = element_range(dtype)
    if array.dtype.kind == "f":
        wide = array.astype(np.float64)
        return ~((wide >= low) & (wide < float(high + 1)) & (wide == np.floor(wide)))
    return np.zeros(array.shape, bool) | (array < low) | (array > high)
