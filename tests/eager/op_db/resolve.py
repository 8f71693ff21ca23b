"""Our function for a name of PyTorch's op_db."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import prototorch as pt


def find_function(name: str) -> Callable[..., Any] | None:
    """``pt.NAME``, ``pt.linalg.NAME``, ``pt.nn.functional.NAME`` or ``Tensor.NAME``; None where there is none."""
    package, _, last = name.rpartition(".")
    try:
        module = importlib.import_module(f"prototorch.{package}") if package else pt
        found = getattr(module, last, None)
    except (ImportError, AttributeError):
        found = None
    if not callable(found) or isinstance(found, type):
        found = getattr(pt.Tensor, name, None) if not package else None
    return found if callable(found) else None
