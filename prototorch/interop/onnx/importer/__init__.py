"""ONNX graphs to nets of layers: one module a family of ops; a module that is here is registered."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from prototorch.interop.onnx.importer.registry import Importer, registered

__all__ = ["importers"]


@cache
def importers() -> dict[str, Importer]:
    """The importers of all ops of the default domain, by the op's name."""
    for info in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{info.name}")
    return registered()
