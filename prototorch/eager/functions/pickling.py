"""Copies of tensors by `pickle` and `copy.deepcopy`: elements, device and ``requires_grad``, not the tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.registry import tensor_method
from prototorch.eager.tensor import Tensor

__all__ = ["rebuild_tensor"]


def rebuild_tensor(array: np.ndarray, requires_grad: bool, device: str) -> Tensor:
    """A tensor of a pickled array."""
    made = interpreter_for(device).constant(array)
    made._requires_grad = requires_grad
    return made


@tensor_method(name="__reduce_ex__")
def _reduce(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    """See `object.__reduce_ex__`."""
    return rebuild_tensor, (np.array(self.numpy()), self.requires_grad, str(self.device))
