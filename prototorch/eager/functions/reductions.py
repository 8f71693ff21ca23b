"""Reductions."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor

__all__ = ["mean", "sum"]


@tensor_function
def sum(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum over some dimensions, or all."""
    result: Tensor = ops.sum(input, axis=dim, keepdims=keepdim)
    return result


@tensor_function
def mean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The mean over some dimensions, or all."""
    result: Tensor = ops.mean(input, axis=dim, keepdims=keepdim)
    return result
