"""Tensors overwritten in place: `copy_`, `fill_`, `zero_`."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.in_place import assign
from prototorch.eager.operands import as_operand, cast_to, element_of
from prototorch.eager.registry import tensor_function, tensor_method

__all__ = ["fill"]


@tensor_method
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Overwrite the elements with those of another tensor, which is cast and broadcast; its gradient flows
    (torch.Tensor.copy_)."""
    _ = non_blocking
    value = as_operand(src, "copy_")
    if isinstance(value, bool | int | float):
        value = cast_to(value, self.dtype, self, checked="copy_")
    elif value.device != self.device:
        value = value.to(self.device)
    return assign(self, value, "copy_")


@tensor_method
def fill_(self: Any, value: Any) -> Any:
    """Overwrite all elements with a number (torch.Tensor.fill_)."""
    return assign(self, element_of(value, self, "fill_"), "fill_")


@tensor_function(method=False)
def fill(input: Any, value: Any) -> Any:
    """A tensor of the shape of another, with all elements a number (torch.fill)."""
    return ops.broadcast_to(element_of(value, input, "fill"), shape=tuple(input.shape)).clone()


@tensor_method
def zero_(self: Any) -> Any:
    """Overwrite all elements with 0 (torch.Tensor.zero_)."""
    return assign(self, cast_to(0, self.dtype, self), "zero_")
