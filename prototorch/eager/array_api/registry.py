"""The table of the namespace's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["STANDARD", "standard_function"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: functions of the namespace by name
STANDARD: dict[str, Callable[..., Any]] = {}


def standard_function(function: _Function) -> _Function:
    """Enter a function of the standard by its name."""
    name = function.__name__
    STANDARD[name if name.startswith("__") else name.rstrip("_")] = function
    return function
