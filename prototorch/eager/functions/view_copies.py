"""PyTorch's functions that give a copy where another gives a view: ``permute_copy``, ``narrow_copy``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from prototorch.eager.functions.axes import permute, t, transpose
from prototorch.eager.functions.splitting import diagonal, narrow, select, split, unbind, unfold
from prototorch.eager.functions.views import expand, reshape, squeeze, unsqueeze, view
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["copying_form"]


def copying_form(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function that gives copies of what another one gives as views."""

    @wraps(function)
    def copying(*args: Any, **options: Any) -> Any:
        if args and not isinstance(args[0], Tensor):
            raise UsageError(f"{name}: expected a tensor, got {type(args[0]).__name__}")
        views = function(*args, **options)
        return views.clone() if isinstance(views, Tensor) else tuple(v.clone() for v in views)

    copying.__name__ = copying.__qualname__ = name
    copying.__doc__ = f"As `{function.__name__}`, as a copy."
    return copying


def _alias(input: Tensor) -> Tensor:
    return reshape(input, input.shape)


_VIEWS: dict[str, Callable[..., Any]] = {
    "alias": _alias, "diagonal": diagonal, "expand": expand, "permute": permute, "select": select,
    "split": split, "split_with_sizes": split, "squeeze": squeeze, "t": t, "transpose": transpose, "unbind": unbind,
    "unfold": unfold, "unsqueeze": unsqueeze, "view": view,
}  # fmt: skip

for _name, _view in _VIEWS.items():
    tensor_function(copying_form(_view, f"{_name}_copy"), method=False)
tensor_function(copying_form(narrow, "narrow_copy"))
