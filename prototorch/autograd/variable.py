"""`Variable`: the name that tensors with a gradient had in the first versions of PyTorch."""

from __future__ import annotations

from typing import Any

from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError, warn_user

__all__ = ["Variable"]


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class TensorVariable(metaclass=_VariableType):
    """``Variable(data, requires_grad=True)`` is a tensor of the same memory as ``data``; each tensor is a Variable.

    volatile: of PyTorch before 0.4, where it turned recording off: accepted with a warning, and does so for this
    tensor alone; use `no_grad`.
    """

    def __new__(cls, data: Any = None, requires_grad: bool | None = None, volatile: bool | None = None) -> Any:
        if not isinstance(data, Tensor):
            raise UsageError(f"Variable takes a tensor, got {type(data).__name__}; make one by pt.tensor(data)")
        if volatile is not None:
            warn_user("volatile was removed from PyTorch: use `with pt.no_grad():` instead", UserWarning)
        variable = data.detach()
        variable.requires_grad = bool(requires_grad)
        return variable


Variable = TensorVariable
