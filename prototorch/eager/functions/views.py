"""Views: other shapes of the same memory."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.in_place import assign
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor

__all__ = ["reshape"]


@tensor_function
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape: a view where the memory allows one, else a copy."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    result: Tensor = ops.reshape(input, shape=tuple(int(n) for n in sizes))
    return result


@tensor_method(name="__setitem__")
def _setitem(self: Tensor, key: Any, value: Any) -> None:
    """Overwrite a part of the elements."""
    part: Tensor = ops.getitem(self, key)
    assign(part, value if isinstance(value, Tensor) else self.interpreter.constant(value), "setitem")
