"""Copies of tensors by `pickle` and `copy.deepcopy`: elements, class, device and ``requires_grad``, not the tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.registry import tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["as_subclass"]


@tensor_method
def as_subclass(self: Tensor, cls: type[Any]) -> Any:
    """A tensor of a subclass with the same memory, without the place on the tape."""
    tensor = object.__new__(cls)
    tensor.array, tensor.spec, tensor.interpreter, tensor.storage = (
        self.array,
        self.spec,
        self.interpreter,
        self.storage,
    )
    tensor.recorded_edge = tensor.view_info = tensor.grad = tensor.mask = None
    tensor.leaf_requires_grad = False
    return tensor


def _rebuild(cls: type[Any], array: np.ndarray, device: str, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    tensor = as_subclass(interpreter_for(device).constant(array), cls)
    tensor.leaf_requires_grad = requires_grad
    tensor.__dict__.update(attributes)
    return tensor


@tensor_method(name="__reduce_ex__")
def _reduce(self: Tensor, protocol: Any) -> Any:
    return _rebuild, (type(self), np.array(self.numpy()), str(self.device), self.requires_grad, _attributes(self))


@tensor_method(name="__deepcopy__")
def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Any:
    """Raises UsageError for a tensor that was computed from others with a gradient, as PyTorch does."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise UsageError("deepcopy: the tensor was computed from others with a gradient; take detach() or clone()")
    tensor = as_subclass(self.interpreter.copy(self), type(self))
    tensor.leaf_requires_grad = self.requires_grad
    tensor.__dict__.update(_attributes(self))
    memo[id(self)] = tensor
    tensor.grad = None if self.grad is None else self.grad.detach().clone()
    return tensor


def _attributes(tensor: Tensor) -> dict[str, Any]:
    """The attributes set by a user, without the hooks."""
    own = ("hooks", "post_hooks", "retains_grad")
    return {name: value for name, value in tensor.__dict__.items() if name not in own}
