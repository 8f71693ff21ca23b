"""Tensors that are a module's state: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from prototorch.eager.dtype import as_dtype, get_default_dtype
from prototorch.eager.functions.pickling import as_subclass
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["Buffer", "Parameter", "new_parameter", "new_tensor"]


class Parameter(Tensor):
    """A tensor that a module trains: as an attribute of a module it is among its `parameters`.

    data: the elements, whose memory it shares; default none (shape [0]). requires_grad: whether gradients are computed.
    Raises UsageError for an element type without a gradient, unless ``requires_grad=False``.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        """See the class."""
        tensor: Self = as_subclass(_as_tensor(cls, data), cls)
        if requires_grad:
            tensor.requires_grad = True
        return tensor

    def __repr__(self) -> str:
        return f"Parameter containing:\n{Tensor.__repr__(self)}"


class Buffer(Tensor):
    """A tensor of a module's state that is not trained: as an attribute of a module it is among its `buffers`.

    persistent: whether it is in the `state_dict`.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        """See the class."""
        tensor: Self = as_subclass(_as_tensor(cls, data), cls)
        tensor.__dict__["persistent"] = bool(persistent)
        return tensor


def _as_tensor(cls: type, data: Any) -> Tensor:
    if data is None:
        return interpreter_for().constant(np.zeros(0, np.float32))
    if not isinstance(data, Tensor):
        raise UsageError(
            f"{cls.__name__}: expected a tensor, got {type(data).__name__}; make one of it by pt.tensor(...)"
        )
    return data


def new_parameter(shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> Parameter:
    """A parameter whose elements are to be initialized."""
    return Parameter(new_tensor(shape, device, dtype))


def new_tensor(shape: tuple[int, ...], device: Any = None, dtype: Any = None, value: float = 0.0) -> Tensor:
    """A tensor of one value, by default of the default floating-point type."""
    element_type = np.dtype(str(get_default_dtype() if dtype is None else as_dtype(dtype)))
    return interpreter_for(device).constant(np.full(shape, value, element_type))
