"""Tensors from numbers and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.dtype import as_dtype, get_default_dtype
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.registry import tensor_function
from prototorch.eager.scalars import check_elements
from prototorch.eager.tensor import Tensor

__all__ = ["as_array", "tensor"]


def as_array(data: Any, dtype: Any = None) -> np.ndarray:
    """Data as a new NumPy array; Python's floats become the default floating-point type, its integers int64.

    Raises UsageError for what has no such elements.
    """
    if isinstance(data, list | tuple) and any(isinstance(x, Tensor) for x in data):
        data = [x.numpy() if isinstance(x, Tensor) else x for x in data]
    array = np.array(data.numpy() if isinstance(data, Tensor) else data)
    is_of_numbers = not _has_numpy_elements(data)
    if dtype is None:
        dtype = get_default_dtype() if array.dtype == np.float64 and is_of_numbers else array.dtype
    elif is_of_numbers:
        check_elements(array, as_dtype(dtype), "tensor")
    with np.errstate(all="ignore"):
        return array.astype(np.dtype(str(as_dtype(dtype))), copy=False)


def _has_numpy_elements(data: Any) -> bool:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic | Tensor)


@tensor_function(method=False)
def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data: numbers in nested sequences, or an array.

    dtype: default that of an array; float32 (`set_default_dtype`) for Python's floats, int64 for its integers. device:
    default "cpu".
    """
    result = interpreter_for(device).constant(as_array(data, dtype))
    if requires_grad:
        result.requires_grad = True
    return result


@tensor_function
def clone(input: Tensor) -> Tensor:
    """A copy in memory of its own, through which gradients flow."""
    copy: Tensor = input.interpreter.clone(input)
    return copy
