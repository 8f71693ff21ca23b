"""Forms in place of view functions: the tensor itself takes another shape or order of dimensions; no element moves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from prototorch.eager.functions.axes import t, transpose
from prototorch.eager.functions.views import squeeze, unsqueeze
from prototorch.eager.in_place import become_view
from prototorch.eager.registry import tensor_method
from prototorch.eager.tensor import Tensor

__all__ = ["in_place_view"]


def in_place_view(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The method that makes a tensor what a function gives as a view of it."""

    @wraps(function)
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        return become_view(self, lambda source: function(source, *args, **options), name)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As `{name[:-1]}`, in place: the tensor itself takes the shape; its elements stay where they are."
    return method


for _name, _function in {
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "t": t,
    "transpose": transpose,
    "swapaxes": transpose,
    "swapdims": transpose,
}.items():
    tensor_method(in_place_view(_function, f"{_name}_"), name=f"{_name}_")
