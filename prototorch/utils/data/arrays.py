"""Rows of tensors and arrays of the host, which the data sets and `collate` copy without an op of their own.

Tensors with a gradient, or on another device, go through ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.data.columns import gather
from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.layer_call import weight_tensor
from prototorch.eager.tensor import Tensor

__all__ = ["as_tensor", "is_host_array", "row", "rows", "stack"]


def as_tensor(array: Any) -> Tensor:
    """A tensor of the array's own memory, without a gradient."""
    return weight_tensor(np.asarray(array), requires_grad=False)


def is_host_array(tensor: Tensor) -> bool:
    """Whether the elements are in the host's memory, and no gradient flows to them."""
    return tensor.interpreter is cpu_interpreter() and not tensor.requires_grad


def row(tensor: Tensor, index: int) -> Tensor:
    """One row, which has the tensor's memory where it is a host array."""
    return cpu_interpreter().wrap(tensor.array[index, ...]) if is_host_array(tensor) else tensor[index]


def rows(tensor: Tensor, indices: np.ndarray) -> Tensor:
    """A copy of the rows with these indices; negative ones count from the end."""
    if is_host_array(tensor):
        return as_tensor(gather(tensor.numpy(), indices))
    return stack([tensor[int(i)] for i in indices])


def stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape along a new first axis; the first one's dtype is that of a mixture's promotion."""
    if all(is_host_array(t) for t in tensors):
        return as_tensor(np.stack([t.numpy() for t in tensors]))
    return ops.stack(list(tensors), axis=0)
