"""ONNX graphs to nets of layers: one module a family of ops; a module that is here is registered."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from prototorch.interop.onnx.importer.registry import Importer, registered
from prototorch.interop.onnx.importer.rows import row_importer

__all__ = ["find_importer"]


def find_importer(op: str) -> Importer | None:
    """The importer of an op of the default domain: a function of its own, else that of the row of one layer."""
    return _importers().get(op) or row_importer(op)


@cache
def _importers() -> dict[str, Importer]:
    for info in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{info.name}")
    return registered()
