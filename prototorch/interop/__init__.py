"""Nets in other frameworks. A framework is imported only when it is used."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from prototorch.errors import UsageError


def torch_module(name: str) -> ModuleType:
    """A module of `prototorch.interop.torch` that needs PyTorch. Raises UsageError where PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise UsageError("PyTorch is not installed here; pip install torch")
    return importlib.import_module(f"{__name__}.torch.{name}")
