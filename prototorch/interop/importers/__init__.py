"""Importers of whole models, one module a format; a module with an `IMPORTER` is registered by being there."""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache

from prototorch.interop.importers.model_format import ModelFormat
from prototorch.interop.readers.file_format import UnknownFile

__all__ = ["find_importer", "importers"]


def find_importer(path: str | os.PathLike[str]) -> ModelFormat | None:
    """The format of a whole model; None for a file that is no model of another system (its weights may be readable).

    Raises ModelFileError for a file that cannot be read.
    """
    file = UnknownFile(path)
    return next((one for one in importers() if one.recognize(file)), None)


@cache
def importers() -> tuple[ModelFormat, ...]:
    """All importers, in the order of their modules' names."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    return tuple(module.IMPORTER for module in modules if hasattr(module, "IMPORTER"))
